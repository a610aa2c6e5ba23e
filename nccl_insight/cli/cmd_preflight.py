"""``nccl-insight preflight``: a gate for launch scripts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from nccl_insight.cli.choices import Backend, option

if TYPE_CHECKING:
    from nccl_insight.live.capture.environment import World
    from nccl_insight.live.preflight.bandwidth import Surroundings
    from nccl_insight.live.preflight.bench import Measured
    from nccl_insight.live.preflight.model import Check, Result

LEVELS = ("quick", "standard", "full")
_VENDORS = ("CUDA", "HIP", "ROCR")
_PLUGIN_S = 20.0
_DEADLINES = {"quick": 10.0, "standard": 60.0, "full": 120.0}


def register(app: typer.Typer) -> None:
    """Adds the command."""

    @app.command()
    def preflight(
        level: str = option("preflight --level", "quick"),
        expect: list[str] = option("preflight --expect", []),
        expect_file: Path | None = option("preflight --expect-file", None),
        write_expect: Path | None = option("preflight --write-expect", None),
        backend: Backend = option("preflight --backend", "nccl"),
        nproc: int = option("preflight --nproc", 0, min=0),
        deadline: float = option("preflight --deadline", 0.0, min=0.0),
        ops: str = option("preflight --ops", ""),
        sizes: str = option("preflight --sizes", ""),
        output: Path | None = option("preflight --output", None, "-o"),
        strict: bool = option("preflight --strict", False),
        format_: str = option("preflight --format", "text"),
        report: list[str] = option("preflight --report", []),
        history: Path | None = option("preflight --history", None),
        only: str = option("preflight --only", ""),
        plugin: list[str] = option("preflight --plugin", []),
        window: float = option("preflight --window", 0.0, min=0.0),
        stress: float = option("preflight --stress", 0.0, min=0.0),
        exit_map: str = option("preflight --exit-map", ""),
        quiet: bool = option("preflight --quiet", False, "-q"),
    ) -> None:
        """Check this node before a job: settings, devices, limits, libraries, a short all-reduce, expectations.

        Exit codes: 0 go, 1 a check failed, 2 usage, 3 nothing to judge (no GPU), 5 the collective hangs.
        """
        import datetime
        import os

        from nccl_insight.base.errors import UsageError
        from nccl_insight.cli.output import write_text
        from nccl_insight.live.capture.environment import local_rank_of, world_of
        from nccl_insight.live.capture.plan import parse_ops, parse_size
        from nccl_insight.live.preflight import chosen, outputs
        from nccl_insight.live.preflight import expect as expectations
        from nccl_insight.live.preflight.health import Answer, ask
        from nccl_insight.live.preflight.model import Result, Status, parse_exit_map
        from nccl_insight.live.preflight.node import Node
        from nccl_insight.live.preflight.quick import facts_of, quick_checks

        if level not in LEVELS:
            raise UsageError(f"--level {level!r} is not known; choose from {', '.join(LEVELS)}")
        if format_ not in outputs.FORMATS:
            raise UsageError(f"--format {format_!r} is not known; choose from {', '.join(outputs.FORMATS)}")
        reports = [parse_report(text) for text in report]
        names = chosen.names_of(only)
        plugins = [chosen.plugin_of(text) for text in plugin]
        if names and level != "quick":
            raise UsageError("--only goes with --level quick: the other levels run a collective")
        if stress and level == "full":
            raise UsageError("--stress goes with --level quick or standard: it takes all GPUs of the node at once")
        if (ops or sizes) and level == "quick":
            raise UsageError("--ops and --sizes go with --level standard or full: quick runs no collective")
        chosen_ops = parse_ops(ops) if ops else ()
        chosen_sizes = [parse_size(text) for text in sizes.split(",")] if sizes else []
        codes = parse_exit_map(exit_map) if exit_map else {}
        wanted = [expectations.parse(e) for e in expect] + (expectations.load(expect_file) if expect_file else [])
        node = Node(dict(os.environ))
        world = world_of(node.environ) if level == "full" else None
        if level == "full" and world is None:
            raise UsageError(
                "--level full runs under the job's launcher (torchrun, srun, mpirun): one preflight per rank"
            )
        local_rank = local_rank_of(node.environ) if level == "standard" else 0
        if local_rank != 0:
            typer.echo(f"preflight: local rank {local_rank} leaves this node to local rank 0", err=True)
            raise typer.Exit(0)
        if world is not None and world.rank != 0:  # what all ranks measured together is judged by rank 0 alone
            wanted = [w for w in wanted if w.key not in expectations.MEASURED]
        answer = ask(node) if node.gpus() else Answer("missing")
        facts = facts_of(node, answer)
        checks = list(quick_checks(node, answer, window * 3600 or None))
        if names:
            checks = chosen.only(names, checks)
        if world is None or world.local_rank == 0:
            checks += [chosen.run_plugin(node, *each, _PLUGIN_S) for each in plugins]
        if stress:
            from nccl_insight.live.preflight.fabric import ports_of
            from nccl_insight.live.preflight.stress import stress_checks

            devices = ["cpu"] if backend == "gloo" else [f"cuda:{index}" for index in range(node.gpus())]
            checks += stress_checks(devices, ports_of(node), stress, node.environ)
        measured = None
        if level != "quick":
            from nccl_insight.live.preflight.bandwidth import Surroundings
            from nccl_insight.live.preflight.fabric import layer_of, ports_of

            failing = [f"{c.name}: {c.observed}" for c in checks if c.status is Status.FAIL]
            measured = _measure(
                backend, nproc, deadline or _deadline_s(level, world), output, world, failing,
                Surroundings(
                    nics=_whole(facts["nics"]), nic_gbit=_rate(facts["nic_gbit"]), layer=layer_of(ports_of(node)),
                    pcie_generation=_whole(facts["pcie_gen"]),
                ),
                {w.key for w in wanted}, chosen_ops, chosen_sizes,
            )  # fmt: skip
            checks += measured.checks
            if facts["gpus"] and (world is None or world.local_rank == 0):
                from nccl_insight.live.preflight.bench import diagnostics

                checks += diagnostics(node.tool)
            facts.update({k: v for k, v in measured.facts.items() if v is not None})
        checks += expectations.compare(
            wanted, facts, level, not any(f"{vendor}_VISIBLE_DEVICES" in node.environ for vendor in _VENDORS)
        )
        if history is not None:
            checks += outputs.trend(history, node.name, facts)
        result = Result(
            tuple(checks),
            level,
            node.name,
            judged=_judged(node.gpus(), names or [name for name, _ in plugins] or stress, checks)
            if measured is None
            else measured.judged,
            timed_out=measured is not None and measured.timed_out,
            strict=strict,
            facts=facts,
        )
        if history is not None and (world is None or world.rank == 0):
            outputs.remember(history, result, datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%MZ"))
        for kind, target in reports if world is None or world.rank == 0 else ():
            write_text(target, _render(result, kind))
        if write_expect is not None and not result.failed and result.judged:
            lasting = (
                facts if backend == "nccl" else {**facts, **dict.fromkeys(expectations.RATES)}
            )  # CPU tensors vary with the load
            count = expectations.save(write_expect, lasting)
            typer.echo(f"{write_expect}: {count} expectations recorded", err=True)
        elif write_expect is not None:
            why = "this node did not pass" if result.failed else "nothing was judged"
            typer.echo(f"{write_expect}: not written, since {why}", err=True)
        if world is None or world.rank == 0:
            _show(result, format_, quiet)
        elif result.code != 0:
            for check in result.failed:
                typer.echo(f"rank {world.rank}: {check.line()}", err=True)
            typer.echo(result.last_line())
        raise typer.Exit(codes.get(int(result.code), int(result.code)))


def _rate(value: str | float | None) -> float | None:
    return value if isinstance(value, float) else None


def _whole(value: str | float | None) -> int | None:
    return int(value) if isinstance(value, float) else None


def _deadline_s(level: str, world: World | None) -> float:
    """More nodes take more rounds and longer connections: as much again for each eightfold, from eight ranks on."""
    import math

    return _DEADLINES[level] * (1 + math.log2(max(1.0, world.size / 8)) / 3 if world is not None else 1)


def _judged(gpus: int, names: object, checks: Sequence[Check]) -> bool:
    """Checks that were asked for by name judge any machine; else only one with GPUs is judged."""
    return any(check.status.value != "SKIP" for check in checks) if names else bool(gpus)


def parse_report(text: str) -> tuple[str, str]:
    """Format and file of ``FORMAT=FILE``.

    Raises:
        UsageError: it has another form.
    """
    from nccl_insight.base.errors import UsageError
    from nccl_insight.live.preflight.outputs import FORMATS

    kind, equals, target = text.partition("=")
    if not equals or not target or kind not in FORMATS[1:]:
        raise UsageError(f"--report {text!r}: write FORMAT=FILE with one of {', '.join(FORMATS[1:])}")
    return kind, target


def _measure(
    backend: str, nproc: int, deadline: float, output: Path | None, world: World | None, failing: list[str],
    around: Surroundings, given: Collection[str], ops: Sequence[str], sizes: Sequence[int],
) -> Measured:  # fmt: skip
    import os
    import shutil
    import tempfile

    from nccl_insight.live.capture import parent
    from nccl_insight.live.preflight import bench

    variables = dict(os.environ)
    gpus = parent.require_gpu(variables) if backend == "nccl" else 2
    parent.require_torch()
    plan = bench.plan_for(backend, world is not None, failing, ops, sizes)
    if world is not None or output is not None:
        return bench.measure(plan, _kept(output, world), nproc or gpus, deadline, variables, world, (), around, given)
    directory = Path(tempfile.mkdtemp(prefix="nccl-insight-preflight-"))
    keep = True
    try:
        measured = bench.measure(plan, directory, nproc or gpus, deadline, variables, world, (), around, given)
        keep = any(c.status.value == "FAIL" for c in measured.checks)
        return measured
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)


def _kept(output: Path | None, world: World | None) -> Path:
    from nccl_insight.live.capture import parent

    if world is not None:
        return parent.join_directory(output, world)
    return parent.make_directory(output or Path())


def _render(result: Result, format_: str) -> str:
    from nccl_insight.live.preflight import outputs

    if format_ == "json":
        return outputs.to_json(result) + "\n"
    if format_ == "junit":
        return outputs.to_junit(result)
    return outputs.to_prometheus(result)


def _show(result: Result, format_: str, quiet: bool) -> None:
    if format_ != "text":
        typer.echo(_render(result, format_), nl=False)
        return
    if not quiet:
        for check in result.checks:
            typer.echo(check.line())
        if result.code == 3 and not result.strict:
            typer.echo(
                "SKIP  no GPU on this machine: nothing was judged (--level standard --backend gloo tries it on CPUs)"
            )
    typer.echo(result.last_line())
