"""Starts the ranks of a capture (or a given command) with a deadline and gathers what they leave."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nccl_insight.errors import NotJudgedError, UsageError
from nccl_insight.live.capture.environment import World, gpu_count, nccl_settings, save_node_facts
from nccl_insight.live.capture.plan import Plan
from nccl_insight.live.capture.processes import Outcome, Task, run_group

_WATCHDOG = b"Watchdog caught collective operation timeout"
_NEEDS_GPU = "no GPU on this machine (no /dev/nvidia* or /dev/kfd, or none visible)"


@dataclass(frozen=True)
class Captured:
    """What a capture left: its directory, how the processes ended, and who waits for whom on a hang."""

    directory: Path
    outcome: Outcome
    ranks: int

    @property
    def code(self) -> int:
        """0 when everything ended well, 5 on a hang, else 1."""
        return 5 if self.hung else 0 if self.outcome.ok else 1

    @property
    def hung(self) -> bool:
        """Whether the deadline passed, or torch's watchdog ended ranks that did not get on."""
        if self.outcome.timed_out:
            return True
        outputs = self.directory.glob("output.rank*.log") if self.outcome.failed else ()
        return any(_WATCHDOG in path.read_bytes()[-(1 << 20) :] for path in outputs)


def require_torch() -> None:
    """Raises NotJudgedError where torch is not installed; torch itself is not imported."""
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        raise NotJudgedError(
            "torch is not installed: install nccl-insight[capture], or use the job's own Python"
        )


def require_gpu(environ: Mapping[str, str], dev: str = "/dev") -> int:
    """GPUs that a capture may use.

    Raises:
        NotJudgedError: there is none.
    """
    count = gpu_count(environ, dev)
    if count == 0:
        raise NotJudgedError(f"{_NEEDS_GPU}; `capture --backend gloo` measures CPU tensors instead")
    return count


def make_directory(path: Path) -> Path:
    """The directory, made if need be.

    Raises:
        UsageError: it holds something already or cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(not p.name.startswith(".") for p in path.iterdir()):
            raise UsageError(f"{path} is not empty; name a new directory with -o")
    except OSError as error:
        raise UsageError(f"{path}: cannot be used ({error.strerror})") from error
    return path.resolve()


def capture(
    plan: Plan,
    directory: Path,
    nproc: int,
    deadline_s: float,
    environ: Mapping[str, str],
    world: World | None = None,
    child: Sequence[str] = (),
    diagnostics: bool = False,
) -> Captured:
    """Runs the plan: one process a rank here, or this process's rank of the launcher's world.

    With NCCL, torch's own watchdog comes before the deadline, because it leaves Flight Recorder dumps.
    ``child`` replaces the command of a rank (tests); ``diagnostics`` as in :func:`nccl_settings`.
    """
    plan_file = directory / f".plan.{world.rank if world else 'all'}.json"
    rendezvous = "" if world else (directory / ".rendezvous").as_uri()
    patience = deadline_s * 0.7 if plan.backend == "nccl" else deadline_s * 2
    replace(plan, rendezvous=rendezvous, timeout_s=max(5, int(patience))).write(plan_file)
    command = tuple(child) or (sys.executable, "-m", "nccl_insight.live.capture.child")
    places = [world.variables()] if world else [
        {"RANK": str(r), "WORLD_SIZE": str(nproc), "LOCAL_RANK": str(r)} for r in range(nproc)
    ]  # fmt: skip
    settings = (
        nccl_settings(directory, calls=True, diagnostics=diagnostics)
        if plan.backend == "nccl"
        else _gloo(environ, world)
    )
    tasks = [
        Task(
            f"rank {place['RANK']}",
            (*command, str(plan_file), str(directory)),
            {**environ, **settings, **place, "PYTHONUNBUFFERED": "1", "KINETO_LOG_LEVEL": "5"},
            directory / f"output.rank{place['RANK']}.log",
        )
        for place in places
    ]
    if world is None or world.local_rank == 0:
        save_node_facts(directory, socket.gethostname())
    outcome = run_group(tasks, deadline_s)
    _tidy(directory, plan_file)
    return Captured(directory, outcome, world.size if world else nproc)


def wrap(
    command: Sequence[str], directory: Path, deadline_s: float | None, environ: Mapping[str, str]
) -> Captured:
    """Runs any command with settings that make NCCL and torch write into ``directory``; its output is shown, too.

    Raises:
        UsageError: the command cannot be started.
    """
    save_node_facts(directory, socket.gethostname())
    task = Task("command", tuple(command), {**environ, **nccl_settings(directory, calls=False)})
    try:
        outcome = run_group([task], deadline_s)
    except OSError as error:
        raise UsageError(f"{command[0]}: cannot be started ({error.strerror})") from error
    return Captured(directory, outcome, 1)


def _gloo(environ: Mapping[str, str], world: World | None) -> dict[str, str]:
    """On one machine Gloo talks over the loopback, whatever the host name resolves to."""
    quiet = {"OMP_NUM_THREADS": "1"}
    return quiet if world or "GLOO_SOCKET_IFNAME" in environ else {**quiet, "GLOO_SOCKET_IFNAME": "lo"}


def _tidy(directory: Path, plan_file: Path) -> None:
    """Removes working files, and outputs that hold nothing but torch's own trace of its profiler."""
    for path in (plan_file, directory / ".rendezvous"):
        path.unlink(missing_ok=True)
    for path in directory.glob("output.rank*.log"):
        with path.open("rb") as stream:
            idle = all(not line.strip() or line.startswith(b"USDT:") for line in stream)
        if idle:
            path.unlink(missing_ok=True)


def describe(captured: Captured) -> str:
    """One line on how the processes ended."""
    outcome = captured.outcome
    if outcome.timed_out:
        stuck = [c.name for c in outcome.children if c.killed]
        return (
            f"deadline passed after {outcome.seconds:.1f} s: {', '.join(stuck)} did not end and "
            f"{'were' if len(stuck) > 1 else 'was'} killed"
        )
    if outcome.failed:
        first = outcome.failed[0]
        how = f"signal {-first.code}" if first.code < 0 else f"code {first.code}"
        more = f" and {len(outcome.failed) - 1} more" if len(outcome.failed) > 1 else ""
        where = f"; see {captured.directory / 'output.*'}" if first.name.startswith("rank ") else ""
        return f"{first.name}{more} ended with {how}{where}"
    return f"{len(outcome.children)} processes ended well in {outcome.seconds:.1f} s"
