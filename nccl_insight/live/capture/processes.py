"""Running children with a deadline: each in a session and process group of its own, killed whole."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_POLL_S = 0.05
_SETTLE_S = 1.0


@dataclass(frozen=True)
class Task:
    """One child: its command, environment and the file that gets its output (None: inherited)."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    output: Path | None = None


@dataclass(frozen=True)
class Ended:
    """How a child ended. ``code`` is negative for a signal, as subprocess gives it."""

    name: str
    code: int
    killed: bool


@dataclass(frozen=True)
class Outcome:
    """How a group of children ended. ``timed_out``: the deadline passed; ``seconds`` is wall time."""

    children: tuple[Ended, ...]
    timed_out: bool
    seconds: float

    @property
    def failed(self) -> tuple[Ended, ...]:
        """Children that ended by themselves with an error."""
        return tuple(c for c in self.children if c.code != 0 and not c.killed)

    @property
    def ok(self) -> bool:
        """Whether every child ended well within the deadline."""
        return not self.timed_out and all(c.code == 0 for c in self.children)


def run_group(
    tasks: Sequence[Task], deadline_s: float | None, *, grace_s: float = 2.0, straggle_s: float = 10.0
) -> Outcome:
    """Starts all tasks and waits for them.

    Past the deadline, or ``straggle_s`` after the first failure (the others then wait for it forever), every
    process group left gets SIGTERM and, ``grace_s`` later, SIGKILL. Groups of children that ended get SIGKILL too,
    so that nothing they started stays behind.
    """
    started = time.monotonic()
    running: dict[int, tuple[Task, subprocess.Popen[bytes]]] = {}
    ended: dict[str, Ended] = {}
    timed_out = False
    failed_at: float | None = None
    try:
        for task in tasks:
            running.update([_start(task)])
        while running:
            for pid in [p for p in running if _has_ended(p)]:
                task, process = running.pop(pid)
                ended[task.name] = _reap(task, process, killed=False)
                if ended[task.name].code != 0 and failed_at is None:
                    failed_at = time.monotonic()
            now = time.monotonic()
            timed_out = bool(running) and deadline_s is not None and now - started > deadline_s
            if timed_out or (running and failed_at is not None and now - failed_at > straggle_s):
                break
            if running:
                time.sleep(_POLL_S)
    finally:
        for done in _end(running, grace_s):
            ended[done.name] = done
    return Outcome(
        tuple(ended[t.name] for t in tasks if t.name in ended), timed_out, time.monotonic() - started
    )


def _start(task: Task) -> tuple[int, tuple[Task, subprocess.Popen[bytes]]]:
    output = task.output.open("ab") if task.output is not None else None
    try:
        process = subprocess.Popen(
            task.argv,
            env=dict(task.env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output is not None else None,
            start_new_session=True,
        )
    finally:
        if output is not None:
            output.close()
    return process.pid, (task, process)


def _has_ended(pid: int) -> bool:
    """Whether the child has ended, without reaping it: its process group id stays taken until then."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _reap(task: Task, process: subprocess.Popen[bytes], *, killed: bool) -> Ended:
    _signal(process.pid, signal.SIGKILL)
    code = process.wait()
    limit = time.monotonic() + _SETTLE_S
    while _has_members(process.pid) and time.monotonic() < limit:
        time.sleep(_POLL_S)
    return Ended(task.name, code, killed)


def _has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _end(running: dict[int, tuple[Task, subprocess.Popen[bytes]]], grace_s: float) -> list[Ended]:
    for pid in running:
        _signal(pid, signal.SIGTERM)
    limit = time.monotonic() + grace_s
    while time.monotonic() < limit and not all(_has_ended(pid) for pid in running):
        time.sleep(_POLL_S)
    return [_reap(task, process, killed=True) for task, process in running.values()]
