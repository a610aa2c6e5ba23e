"""Running children with a deadline: each in a session and process group of its own, killed whole.

Whatever ends this process ends the children: SIGTERM and SIGHUP are turned into an interrupt while children run, and
a guard process ends their groups when this process is gone without a word (SIGKILL).
"""

import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT
from typing import IO

from nccl_insight.base.data import dataclass

_POLL_S = 0.05
_SETTLE_S = 1.0
_UNKILLABLE_S = 3.0
_HALTED_S = 3.0
_GUARD = Path(__file__).with_name("guard.py")
_STOPS = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Task:
    """One child: its command, environment and the file that gets its output (None: inherited)."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    output: Path | None = None


@dataclass(frozen=True)
class Ended:
    """How a child ended. ``code`` is negative for a signal, as subprocess gives it.

    ``stuck``: it got SIGKILL and is still there (uninterruptible sleep in the kernel or a driver).
    """

    name: str
    code: int
    killed: bool
    stuck: bool = False

    @property
    def way(self) -> str:
        """``signal 9`` or ``code 1``."""
        return f"{'signal' if self.code < 0 else 'code'} {abs(self.code)}"


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
    def stuck(self) -> tuple[Ended, ...]:
        """Children that could not be killed."""
        return tuple(c for c in self.children if c.stuck)

    @property
    def given_up(self) -> bool:
        """Whether children were ended before the deadline that none of them had failed."""
        return not self.timed_out and not self.failed and any(c.killed for c in self.children)

    @property
    def ok(self) -> bool:
        """Whether every child ended well within the deadline."""
        return not self.timed_out and all(c.code == 0 for c in self.children)


def run_group(
    tasks: Sequence[Task], deadline_s: float | None, *, grace_s: float = 2.0, straggle_s: float = 10.0,
    stopped: Callable[[str], None] = lambda name: None, hopeless: Callable[[], bool] = lambda: False,
) -> Outcome:  # fmt: skip
    """Starts all tasks and waits for them. ``stopped`` hears of a child that stays stopped (SIGSTOP, a debugger).

    ``hopeless`` tells that the children wait for one that does not come; they are ended like after a failure.

    Past the deadline, or ``straggle_s`` after the first failure (the others then wait for it forever), every
    process group left gets SIGTERM and, ``grace_s`` later, SIGKILL. Groups of children that ended get SIGKILL too,
    so that nothing they started stays behind.
    """
    started = time.monotonic()
    running: dict[int, tuple[Task, subprocess.Popen[bytes]]] = {}
    ended: dict[str, Ended] = {}
    timed_out = False
    failed_at = math.inf
    halted: dict[int, float] = {}
    with _handlers(None, _STOPS), _guarded() as guard:
        try:
            for task in tasks:
                running.update([_start(task)])
                guard.tell(f"+{next(reversed(running))}")
            while running:
                for pid in [p for p in running if _has_ended(p)]:
                    task, process = running.pop(pid)
                    ended[task.name] = _reap(task, process)
                    guard.tell(f"-{pid}")
                    if ended[task.name].code != 0:
                        failed_at = min(failed_at, time.monotonic())
                now = time.monotonic()
                if hopeless():
                    failed_at = min(failed_at, now)
                timed_out = bool(running) and deadline_s is not None and now - started > deadline_s
                if timed_out or (running and now - failed_at > straggle_s):
                    break
                if running:
                    time.sleep(_POLL_S)
                for pid in _long_halted(running, halted, now):
                    stopped(running[pid][0].name)
        finally:
            with _handlers(signal.SIG_IGN, (*_STOPS, signal.SIGINT)):  # a second one does not cut this short
                for done in _end(running, grace_s):
                    ended[done.name] = done
    return Outcome(tuple(ended[t.name] for t in tasks if t.name in ended), timed_out, time.monotonic() - started)


def _long_halted(running: Iterable[int], halted: dict[int, float], now: float) -> Iterator[int]:
    """The children that stay stopped, each once; ``halted``: since when each is, or that it was told."""
    for pid in running:
        if state_of(pid)[:1] not in (["T"], ["t"]):
            halted.pop(pid, None)
        elif now - halted.setdefault(pid, now) > _HALTED_S:
            halted[pid] = math.inf
            yield pid


@contextlib.contextmanager
def _handlers(handler: signal.Handlers | None, signals: Sequence[signal.Signals]) -> Iterator[None]:
    """Sets handlers (None: one that interrupts) and puts the old ones back; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, _: object) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    old = {number: signal.signal(number, handler if handler is not None else interrupt) for number in signals}
    try:
        yield
    finally:
        for number, before in old.items():
            signal.signal(number, before if before is not None else signal.SIG_DFL)


class _Guard:
    """Tells the guard process which groups to end when this process dies."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def tell(self, text: str) -> None:
        """``+7``: group 7 is to be ended with this process; ``-7``: it is gone, its number may be another's soon."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.write(f"{text}\n".encode())
                self._process.stdin.flush()

    def close(self) -> None:
        """All groups are gone."""
        self.tell("done")
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_SETTLE_S)


@contextlib.contextmanager
def _guarded() -> Iterator[_Guard]:
    guard = _Guard(_popen((sys.executable, "-I", "-S", str(_GUARD)), PIPE, DEVNULL, DEVNULL))
    try:
        yield guard
    finally:
        guard.close()


def _popen(
    argv: Sequence[str], into: int, out: int | IO[bytes] | None, err: int | None, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """A child in a session of its own."""
    return subprocess.Popen(tuple(argv), stdin=into, stdout=out, stderr=err, start_new_session=True, env=env)


def _start(task: Task) -> tuple[int, tuple[Task, subprocess.Popen[bytes]]]:
    with contextlib.ExitStack() as stack:
        output = None if task.output is None else stack.enter_context(task.output.open("ab"))
        process = _popen(task.argv, DEVNULL, output, None if output is None else STDOUT, dict(task.env))
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


def _reap(task: Task, process: subprocess.Popen[bytes], *, killed: bool = False) -> Ended:
    """Takes a child that has ended, and ends what it left in its group."""
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
    """SIGTERM, then SIGKILL; a child that neither ends is left and said to be stuck, so that the deadline holds."""
    for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, _UNKILLABLE_S)):
        for pid in running:
            _signal(pid, number)
            _signal(pid, signal.SIGCONT)  # a stopped process takes no SIGTERM
        limit = time.monotonic() + patience_s
        while time.monotonic() < limit and not all(_has_ended(pid) for pid in running):
            time.sleep(_POLL_S)
    return [
        _reap(task, process, killed=True)
        if _has_ended(pid)
        else Ended(task.name, -signal.SIGKILL, killed=True, stuck=True)
        for pid, (task, process) in running.items()
    ]


def state_of(pid: int) -> list[str]:
    """What the kernel tells of a process behind its name, its state first (``/proc/PID/stat``); none if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return []


@dataclass(frozen=True)
class Output:
    """What a short command gave. ``state``: ``ok``, ``missing``, ``failed`` or ``hung`` (it did not return in time).

    ``code``: its exit code; 0 where it has none.
    """

    state: str
    text: str = ""
    error: str = ""
    code: int = 0


def run_short(argv: Sequence[str], timeout_s: float) -> Output:
    """Runs a command that should return at once. The time limit holds even for one that cannot be killed."""
    try:
        process = _popen(argv, DEVNULL, PIPE, PIPE)
    except FileNotFoundError:
        return Output("missing")
    except OSError as error:
        return Output("failed", error=str(error.strerror or error))
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _signal(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_SETTLE_S)
        return Output("hung")
    state = "ok" if process.returncode == 0 else "failed"
    return Output(state, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), process.returncode)
