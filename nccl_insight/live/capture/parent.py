"""Starts the ranks of a capture (or a given command) with a deadline and gathers what they leave."""

import contextlib
import itertools
import json
import math
import os
import re
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nccl_insight.base.data import dataclass, replace
from nccl_insight.base.errors import NotJudgedError, UsageError, as_usage
from nccl_insight.base.objects import object_of
from nccl_insight.base.units import format_bytes, listed, plural
from nccl_insight.live.capture.environment import UNWANTED, World, gpu_count, nccl_settings, save_node_facts
from nccl_insight.live.capture.plan import Plan
from nccl_insight.live.capture.processes import Outcome, Task, run_group, run_short

_TAG = re.compile(r"^\[rank[0-9]+\]:")
_WATCHDOG = b"Watchdog caught collective operation timeout"
_OWN_FILES = ("capture.rank{}.jsonl", ".wrapped.rank{}")
_STOPPED = ".stopped"
_PATIENCE_S = 60.0
_ROLL_S = (15.0, 3.0)  # for all, and for each doubling of the ranks
_PAIR_S = 40.0  # the first pair makes all contexts and connections
_EXPORT_S = 600.0
_STAGES = {"ready": "in a collective", "versions": "joining the other ranks", "head": "importing torch"}
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
        if self.outcome.timed_out or self.outcome.stuck or self.outcome.given_up:
            return True
        outputs = self.directory.glob("output.rank*.log") if self.outcome.failed else ()
        return any(_WATCHDOG in _tail(path, 1 << 20) for path in outputs)

    @property
    def unusable(self) -> str:
        """Why torch of this Python cannot run the capture; empty if it can or nobody says."""
        return next((str(item.get("why")) for item in self._every("unusable")), "")

    def _every(self, kind: str) -> Iterator[dict[str, Any]]:
        for path in sorted(self.directory.glob("capture.rank*.jsonl")):
            yield from _items(path, kind)

    @property
    def unfinished(self) -> bool:
        """Whether the deadline cut off ranks that still went on, which is no hang."""
        last = max((float(item.get("at", 0)) for item in self._every("enter")), default=0.0)
        return self.outcome.timed_out and time.time() - last < self.outcome.seconds / 4

    def stage(self, name: str) -> str:
        """How far a rank (named as its child) got, from the lines it wrote."""
        path = self.directory / f"capture.rank{name.removeprefix('rank ')}.jsonl"
        if not path.exists():
            return "starting Python"
        seen = {str(item.get("kind")) for item in _items(path)}
        if entered := _items(path, "enter"):
            return f"in {_entered(entered[-1])}"
        return next((text for kind, text in _STAGES.items() if kind in seen), "starting")

    def _ranks(self) -> Iterator[tuple[int, str, int, str, bool]]:
        """Of each rank that left lines: rank, host, how many operations it began, the last, whether it was stopped."""
        for path in self.directory.glob("capture.rank*.jsonl"):
            items = _items(path)
            if items and items[0].get("kind") == "head":
                entered = [item for item in items if item.get("kind") == "enter"]
                where = _entered(entered[-1]) if entered else "nothing"
                stopped = any(item.get("kind") == "stopped" for item in items)
                yield int(items[0]["rank"]), str(items[0].get("host")), len(entered), where, stopped

    def behind(self) -> tuple[str, str]:
        """What holds the others up, and its host if it is one, as far as files of the directory tell; else nothing."""
        ranks = list(self._ranks())
        most, where = max(((count, where) for _, _, count, where, _ in ranks), key=lambda c: c[0], default=(0, ""))
        late = [(rank, host) for rank, host, count, _, _ in ranks if count < most]
        stopped = [(rank, host) for rank, host, *_, stopped in ranks if stopped]
        named = sorted(stopped or (late if len(late) < len(ranks) else []))
        if not named or (self.unfinished and not stopped):
            return "", ""
        hosts = {host for _, host in named}
        shown = listed(f"rank {rank} ({host})" for rank, host in named)
        what = "was stopped (SIGSTOP, a debugger, the batch system)" if stopped else f"did not get to {where}"
        return f"{shown} {what}", hosts.pop() if len(hosts) == 1 else ""

    @property
    def started(self) -> bool:
        """Whether any rank got past the import of torch, so that a passed deadline says something of the fabric."""
        return any(self._every("ready"))

    @property
    def absent(self) -> tuple[list[int], list[str]]:
        """Ranks that did not come, and the hosts that the scheduler named and nobody came from."""
        for item in _items(self.directory / "capture.rank0.jsonl", "absent"):
            return list(item["ranks"]), list(item["hosts"])
        return [], []

    @property
    def late(self) -> list[int]:
        """Ranks that came when the others had begun without them, as far as they left lines here."""
        missing = self.absent[0]
        return [r for r in missing if any(_items(self.directory / f"capture.rank{r}.jsonl", "late"))]

    def complaint(self, name: str) -> str:
        """What NCCL gives as its last error in a rank's output, or the last line there that looks like an error."""
        path = self.directory / f"output.rank{name.removeprefix('rank ')}.log"
        tail = _tail(path, 1 << 16).decode("utf-8", "replace")
        lines = [said for line in tail.splitlines() if (said := _TAG.sub("", line).strip())]
        told = [after for line, after in itertools.pairwise(lines) if line == "Last error:"]
        found = [line for line in lines if re.match(r"\S*(?:Error|Exception)\b", line)]
        return (told or found or lines or [""])[-1][:300]


def _tail(path: Path, most: int) -> bytes:
    """The end of an output; nothing where there is none, or another rank of the world removed it."""
    with contextlib.suppress(OSError):
        return path.read_bytes()[-most:]
    return b""


def _entered(item: Mapping[str, Any]) -> str:
    size = item.get("size_bytes")
    return str(item.get("op")) + (f" of {format_bytes(int(size))}" if isinstance(size, int) else "")


def _items(path: Path, kind: str = "") -> list[dict[str, Any]]:
    """The objects of a result file, or those of a kind; a cut line is left out."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    items = [item for line in text.splitlines() if (item := object_of(line))]
    return [item for item in items if item.get("kind") == kind] if kind else items


def left_out(directory: Path) -> list[str]:
    """One line for each operation and size that was not measured, with the reason."""
    rows = _items(directory / "capture.rank0.jsonl", "skipped")
    return [f"{row['op']:<14} {format_bytes(int(row['size_bytes'])):>10}  skipped: {row['skipped']}" for row in rows]


def require_torch() -> None:
    """Raises NotJudgedError where torch is not installed; torch itself is not imported."""
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        raise NotJudgedError("torch is not installed: install nccl-insight[capture], or use the job's own Python")


def require_gpu(environ: Mapping[str, str], dev: str = "/dev") -> int:
    """GPUs that a capture may use. Raises NotJudgedError: there is none."""
    count = gpu_count(environ, dev)
    if count == 0:
        raise NotJudgedError(f"{_NEEDS_GPU}; `capture --backend gloo` measures CPU tensors instead")
    return count


def make_directory(path: Path) -> Path:
    """The directory, made if need be. Raises UsageError: it holds something already or cannot be written."""
    return _directory(path, lambda: any(not p.name.startswith(".") for p in path.iterdir()), f"{path} is not empty")


def _directory(path: Path, taken: Callable[[], bool], why: str) -> Path:
    with as_usage(f"{path}: cannot be used"):
        path.mkdir(parents=True, exist_ok=True)
        if taken():
            raise UsageError(f"{why}; name a new directory with -o")
    return path.resolve()


@dataclass(frozen=True)
class Launch:
    """How ranks are started: where they write, how many here or which one of a launcher's world, for how long.

    ``child`` replaces the command of a rank (tests).
    """

    directory: Path
    nproc: int
    deadline_s: float
    environ: Mapping[str, str]
    world: World | None = None
    child: Sequence[str] = ()


def capture(plan: Plan, launch: Launch, diagnostics: bool = False) -> Captured:
    """Runs the plan: one process per rank here, or this process's rank of the launcher's world.

    With NCCL, torch's own watchdog comes before the deadline, because it leaves Flight Recorder dumps. ``diagnostics``
    as in :func:`nccl_settings`. Raises UsageError: there is no rank to run, or the deadline is not positive.
    """
    directory, nproc, deadline_s, world = launch.directory, launch.nproc, launch.deadline_s, launch.world
    if nproc < 1:
        raise UsageError(f"{nproc} ranks: at least one is needed")
    if deadline_s <= 0:
        raise UsageError(f"a deadline of {deadline_s:g} s: it has to be positive")
    plan_file = directory / f".plan.{world.rank if world else 'all'}.json"
    # Not in the directory itself: it may be on a file system without locks, which the rendezvous needs.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    meeting = None if world else Path(tempfile.mkdtemp(prefix="nccl-insight-", dir=memory))
    rendezvous = "" if meeting is None else (meeting / "rendezvous").as_uri()
    patience = min(deadline_s * 0.4, _PATIENCE_S) if plan.backend == "nccl" else deadline_s * 2
    size = world.size if world else nproc
    roll_s = min(deadline_s * 0.3, _ROLL_S[0] + _ROLL_S[1] * math.log2(size))
    pair_s = min(deadline_s * 0.25, _PAIR_S)
    replace(plan, rendezvous=rendezvous, timeout_s=max(5, int(patience)), roll_s=roll_s, pair_s=pair_s).write(plan_file)
    command = tuple(launch.child) or (sys.executable, "-m", "nccl_insight.live.capture.child")
    own = [{"RANK": str(r), "WORLD_SIZE": str(nproc), "LOCAL_RANK": str(r)} for r in range(nproc)]
    places = [world.variables()] if world else own
    clean = {name: value for name, value in launch.environ.items() if name not in UNWANTED}

    def settings(rank: str) -> dict[str, str]:
        if plan.backend == "nccl":
            return nccl_settings(directory, calls=True, diagnostics=diagnostics, rank=rank)
        # On one machine Gloo talks over the loopback, whatever the host name resolves to.
        quiet = {"OMP_NUM_THREADS": "1"}
        return quiet if world or "GLOO_SOCKET_IFNAME" in launch.environ else {**quiet, "GLOO_SOCKET_IFNAME": "lo"}

    tasks = [
        Task(
            f"rank {place['RANK']}",
            (*command, str(plan_file), str(directory)),
            {**clean, **settings(place["RANK"]), **place, "PYTHONUNBUFFERED": "1", "KINETO_LOG_LEVEL": "5"},
            directory / f"output.rank{place['RANK']}.log",
        )
        for place in places
    ]

    mark = directory / _STOPPED

    def stopped(name: str) -> None:  # for all ranks, which read what the others leave
        with (directory / _OWN_FILES[0].format(name.removeprefix("rank "))).open("a") as stream:
            stream.write(json.dumps({"kind": "stopped"}) + "\n")
        mark.touch()

    if world is None or world.local_rank == 0:
        save_node_facts(directory, socket.gethostname())
    try:
        outcome = run_group(tasks, deadline_s, stopped=stopped, hopeless=mark.exists)
    finally:
        if meeting is not None:
            shutil.rmtree(meeting, ignore_errors=True)
        _tidy(directory, plan_file, *([mark] if world is None else []))  # other nodes look for it yet
    done = Captured(directory, outcome, size)
    done = replace(done, ranks=size - len(done.absent[0]))
    _record(done, None if world is None else str(world.rank))
    return done


def _record(captured: Captured, rank: str | None) -> None:
    """Keeps how the processes ended beside what they left, for whoever analyzes it later."""
    file = captured.directory / ("capture.log" if rank is None else f"capture.rank{rank}.log")
    with contextlib.suppress(OSError):  # a full disk costs this line, not the capture
        file.write_text(f"nccl-insight capture: {describe(captured)}\n", encoding="utf-8")


def join_directory(output: Path | None, world: World) -> Path:
    """A directory that all ranks of a world share: it has to be named, may exist, and holds no earlier run.

    Raises UsageError: it is not named, cannot be used, or this rank has captured into it before.
    """
    if output is None:
        raise UsageError("under a launcher every rank needs the same new directory: name it with -o")
    why = f"holds an earlier run of rank {world.rank} (a requeued Slurm job keeps its id: add $SLURM_RESTART_COUNT)"
    return _directory(
        output, lambda: any((output / name.format(world.rank)).exists() for name in _OWN_FILES), f"{output} {why}"
    )


def wrap(
    command: Sequence[str],
    directory: Path,
    deadline_s: float | None,
    environ: Mapping[str, str],
    world: World | None = None,
) -> Captured:
    """Runs any command with settings that make NCCL and torch write into ``directory``; its output is shown, too.

    Raises UsageError: the command cannot be started.
    """
    if world is None or world.local_rank == 0:
        save_node_facts(directory, socket.gethostname())
    rank = None if world is None else str(world.rank)
    if rank is not None:
        (directory / _OWN_FILES[1].format(rank)).touch()
    task = Task("command", tuple(command), {**environ, **nccl_settings(directory, calls=False, rank=rank)})
    with as_usage(f"{command[0]}: cannot be started"):
        outcome = run_group([task], deadline_s)
    done = Captured(directory, outcome, 1)
    _record(done, rank)
    return done


def export_reports(directory: Path, tool: str = "nsys") -> list[str]:
    """Exports the Nsight Systems reports in a directory to SQLite beside them; one line for each."""
    reports = sorted(directory.rglob("*.nsys-rep"))
    if not reports:
        how = f"nsys profile -o {directory}/rank%q{{RANK}} ..."
        return [f"--export: no .nsys-rep file in {directory} (start CMD with: {how})"]
    lines = []
    for report in reports:
        target = report.with_suffix(".sqlite")
        options = ("--type", "sqlite", "--force-overwrite", "true", "-o")
        done = run_short((tool, "export", *options, str(target), str(report)), _EXPORT_S)
        why = {"missing": "nsys is not on PATH", "hung": f"nsys did not end within {_EXPORT_S:.0f} s"}.get(done.state)
        said = next((line.strip() for line in done.error.splitlines() if line.strip()), "nsys failed")
        failed = f"{report.name}: not exported ({why or said})"
        lines.append(f"{target.name}: exported" if done.state == "ok" else failed)
    return lines


def _tidy(directory: Path, *working: Path) -> None:
    """Removes working files, and outputs that hold nothing but torch's own trace of its profiler."""
    for path in (*working, directory / ".rendezvous"):
        path.unlink(missing_ok=True)
    for path in directory.glob("output.rank*.log"):
        with contextlib.suppress(FileNotFoundError), path.open("rb") as stream:
            if all(not line.strip() or line.startswith(b"USDT:") for line in stream):
                path.unlink(missing_ok=True)


def describe(captured: Captured) -> str:
    """One line on how the processes ended."""
    outcome = captured.outcome
    if outcome.stuck:
        names = ", ".join(c.name for c in outcome.stuck)
        return (
            f"{names} cannot be killed (uninterruptible sleep: the kernel or a driver holds it) after "
            f"{outcome.seconds:.1f} s; see `ps -o pid,stat,wchan:32,args -C python3` and dmesg"
        )
    if captured.unusable:
        return captured.unusable
    if outcome.timed_out or outcome.given_up:
        late = [c.name for c in outcome.children if c.killed]
        stages = sorted({captured.stage(name) for name in late if name.startswith("rank ")})
        where = f" while {' or '.join(stages)}" if stages else ""
        if said := captured.behind()[0]:
            where += f"; {said}"
        how = "given up" if outcome.given_up else "deadline passed"
        killed = f"{', '.join(late)} did not end and {'were' if len(late) > 1 else 'was'} killed"
        return f"{how} after {outcome.seconds:.1f} s{where}: {killed}"
    if outcome.failed:
        first, *more = outcome.failed
        others = ", ".join(f"{child.name} with {child.way}" for child in more[:3])
        rest = f" (also {others})" if others else ""
        rest += f"; {captured.behind()[0]}" if (captured.directory / _STOPPED).exists() else ""
        if first.name.startswith("rank "):
            said = captured.complaint(first.name)
            rest = f"{': ' + said if said else ''}{rest}; see {captured.directory / 'output.*'}"
        return f"{first.name} ended with {first.way}{rest}"
    return f"{plural(len(outcome.children), 'process', 'processes')} exited cleanly in {outcome.seconds:.1f} s"
