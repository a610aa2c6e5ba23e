"""The gate: what is asked of a node before a job, and what it gives."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nccl_insight.base.data import dataclass
from nccl_insight.base.errors import UsageError
from nccl_insight.live.preflight import chosen, outputs
from nccl_insight.live.preflight import expect as expectations
from nccl_insight.live.preflight.health import Answer, ask
from nccl_insight.live.preflight.model import Result, Status
from nccl_insight.live.preflight.node import Node
from nccl_insight.live.preflight.quick import Facts, facts_of, quick_checks

if TYPE_CHECKING:
    from nccl_insight.live.capture.environment import World
    from nccl_insight.live.preflight.bench import Measured
    from nccl_insight.live.preflight.model import Check

LEVELS = ("quick", "standard", "full")
_VENDORS = ("CUDA", "HIP", "ROCR")
_PLUGIN_S = 20.0
_DEADLINES = {"quick": 10.0, "standard": 60.0, "full": 120.0}


@dataclass(frozen=True)
class Asked:
    """What the user asks for. ``only``: names of checks; ``window_s``: how far back the kernel's log is read."""

    level: str
    backend: str
    nproc: int
    deadline_s: float
    ops: Sequence[str]
    sizes: Sequence[int]
    output: Path | None
    strict: bool
    only: Sequence[str]
    plugins: Sequence[tuple[str, Sequence[str]]]
    window_s: float | None
    stress_s: float
    wanted: Sequence[expectations.Expectation]
    history: Path | None

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise UsageError(f"--level {self.level!r} is not known; choose from {', '.join(LEVELS)}")
        if self.only and self.level != "quick":
            raise UsageError("--only goes with --level quick: the other levels run a collective")
        if self.stress_s and self.level == "full":
            raise UsageError("--stress goes with --level quick or standard: it takes all GPUs of the node at once")
        if (self.ops or self.sizes) and self.level == "quick":
            raise UsageError("--ops and --sizes go with --level standard or full: quick runs no collective")


def judge(asked: Asked, node: Node, world: World | None) -> Result:
    """All checks of the level on this node, with what was expected. ``world``: of the level full."""
    wanted = asked.wanted
    if world is not None and world.rank != 0:  # what all ranks measured together is judged by rank 0 alone
        wanted = [w for w in wanted if w.key not in expectations.MEASURED]
    answer = ask(node) if node.gpus() else Answer("missing")
    facts = facts_of(node, answer)
    alone = world is None or world.local_rank == 0
    checks = _of_node(asked, node, answer, asked.plugins if alone else ())
    measured = _measured(asked, node, world, facts, checks, answer.domain) if asked.level != "quick" else None
    if measured is not None:
        checks += measured.checks
        if facts["gpus"] and alone:
            from nccl_insight.live.preflight.bench import diagnostics

            checks += diagnostics(node.tool)
        facts.update({k: v for k, v in measured.facts.items() if v is not None})
    visible = not any(f"{vendor}_VISIBLE_DEVICES" in node.environ for vendor in _VENDORS)
    checks += expectations.compare(wanted, facts, asked.level, visible)
    if asked.history is not None:
        checks += outputs.trend(asked.history, node.name, facts)
    named = asked.only or asked.plugins or asked.stress_s
    return Result(
        tuple(checks),
        asked.level,
        node.name,
        judged=_judged(node.gpus(), named, checks) if measured is None else measured.judged,
        timed_out=measured is not None and measured.timed_out,
        strict=asked.strict,
        facts=facts,
    )


def _of_node(asked: Asked, node: Node, answer: Answer, plugins: Sequence[tuple[str, Sequence[str]]]) -> list[Check]:
    """The checks of this node by itself: quick ones, the user's own, and under load."""
    checks = list(quick_checks(node, answer, asked.window_s))
    if asked.only:
        checks = chosen.only(asked.only, checks)
    checks += [chosen.run_plugin(node, *each, _PLUGIN_S) for each in plugins]
    if asked.stress_s:
        from nccl_insight.live.preflight.fabric import ports_of
        from nccl_insight.live.preflight.stress import stress_checks

        devices = ["cpu"] if asked.backend == "gloo" else [f"cuda:{index}" for index in range(node.gpus())]
        checks += stress_checks(devices, ports_of(node), asked.stress_s, node.environ)
    return checks


def _judged(gpus: int, named: object, checks: Sequence[Check]) -> bool:
    """Checks that were asked for by name judge any machine; else only one with GPUs is judged."""
    return any(check.status is not Status.SKIP for check in checks) if named else bool(gpus)


def deadline_s(level: str, world: World | None) -> float:
    """More nodes take more rounds and longer connections: as much again for each eightfold, from eight ranks on."""
    return _DEADLINES[level] * (1 + math.log2(max(1.0, world.size / 8)) / 3 if world is not None else 1)


def _measured(
    asked: Asked, node: Node, world: World | None, facts: Facts, checks: Sequence[Check], domain: str
) -> Measured:
    from nccl_insight.live.capture import parent
    from nccl_insight.live.preflight import bench
    from nccl_insight.live.preflight.bandwidth import Surroundings
    from nccl_insight.live.preflight.fabric import compute_ports, ports_of

    failing = [f"{c.name}: {c.observed}" for c in checks if c.status is Status.FAIL]
    known = (facts[key] for key in ("nics", "nic_gbit", "pcie_gen"))
    nics, gbit, generation = (value if isinstance(value, float) else None for value in known)
    around = Surroundings(
        nics=None if nics is None else int(nics),
        nic_gbit=gbit,
        layer=next((port.layer for port in compute_ports(ports_of(node))), None),
        pcie_generation=None if generation is None else int(generation),
        domain=domain,
    )
    gpus = parent.require_gpu(node.environ) if asked.backend == "nccl" else 2
    parent.require_torch()
    plan = bench.plan_for(asked.backend, world is not None, failing, asked.ops, asked.sizes)
    kept = world is not None or asked.output is not None
    if world is not None:
        directory = parent.join_directory(asked.output, world)
    else:
        own = asked.output or Path(tempfile.mkdtemp(prefix="nccl-insight-preflight-"))
        directory = parent.make_directory(own)
    limit_s = asked.deadline_s or deadline_s(asked.level, world)
    launch = parent.Launch(directory, asked.nproc or gpus, limit_s, node.environ, world)
    passed = False
    try:
        measured = bench.measure(plan, launch, around, {w.key for w in asked.wanted})
        passed = not any(c.status is Status.FAIL for c in measured.checks)
        return measured
    finally:
        if passed and not kept:
            shutil.rmtree(directory, ignore_errors=True)
