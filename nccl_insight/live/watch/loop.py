"""Looks again and again at a running job: its RAS service, and what its logs and Inspector files grew by."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass, field
from nccl_insight.base.errors import InsightError, NotJudgedError, UsageError
from nccl_insight.inputs import temporary
from nccl_insight.inputs.find import discard
from nccl_insight.live.capture.processes import state_of
from nccl_insight.live.watch import ras
from nccl_insight.live.watch.files import Follower, Growth
from nccl_insight.live.watch.progress import Event, Watch
from nccl_insight.live.watch.seen import Seen, look
from nccl_insight.share import api

#: A look takes at most this share of a core: the next one comes later where one takes long.
_SHARE: Final = 0.04
_LONGEST_PAUSE_S: Final = 60.0
_MOST_DUMP_BYTES: Final = 512 << 20
_HEAD: Final = re.compile(rb"([\w.-]+):([0-9]{1,9}):")


@dataclass
class Every:
    """A rule of the user: a line like ``pattern`` comes every ``seconds``."""

    pattern: str
    seconds: float
    since: float = 0.0
    overdue: bool = False

    @classmethod
    def parse(cls, text: str) -> Every:
        """``SECONDS:PATTERN``. Raises UsageError: it has another form, or the pattern is none."""
        seconds, colon, pattern = text.partition(":")
        if not colon or not pattern or not re.fullmatch(r"[0-9]+(\.[0-9]+)?", seconds) or not float(seconds):
            raise UsageError(f"--every {text!r}: write SECONDS:PATTERN, such as '300:saved checkpoint'")
        try:
            pl.Series([""]).str.contains(pattern)
        except pl.exceptions.ComputeError as error:
            raise UsageError(f"--every {text!r}: no regular expression ({str(error).splitlines()[-1]})") from error
        return cls(pattern, float(seconds))

    def judge(self, growth: Growth, now: float) -> Iterator[Event]:
        """Whether such a line is late, or came again."""
        lines = pl.Series([piece.decode("utf-8", "replace") for _, piece in growth.pieces], dtype=pl.String)
        if lines.str.contains(f"(?m){self.pattern}").any():
            if self.overdue:
                yield Event("on-time", f"a line like {self.pattern!r} came again, after {now - self.since:.0f} s")
            self.since, self.overdue = now, False
        elif now - self.since > self.seconds and not self.overdue:
            self.overdue = True
            said = f"no line like {self.pattern!r} for {now - self.since:.0f} s"
            yield Event("overdue", f"{said}: one every {self.seconds:g} s was expected", since_s=now - self.since)


@dataclass
class _Processes:
    """Processes of this host that write the files: seen while they run, missed when they are gone."""

    host: str = field(default_factory=lambda: socket.gethostname().partition(".")[0])
    running: dict[tuple[str, int], str] = field(default_factory=dict)
    asked: set[tuple[str, int]] = field(default_factory=set)

    def gone(self, state: Watch) -> list[tuple[str, int]]:
        """Those that are not there any more."""
        known = state.processes()
        for place, file in known.items():
            if place[0].partition(".")[0] == self.host and place not in self.asked:
                self.asked.add(place)
                if file and _writes(place[1], file):
                    self.running[place] = _start_of(place[1])
        gone = [place for place, begun in self.running.items() if _start_of(place[1]) != begun]
        for place in gone:
            del self.running[place]
        return [place for place in gone if place in known]


def _start_of(pid: int) -> str:
    """When a process began; empty if there is none. A dead one that waits for its parent is none."""
    fields = state_of(pid)
    return "" if not fields or fields[0] in "ZX" else fields[19]


def _writes(pid: int, file: str) -> bool:
    """Whether a process has a file open: its number is then not that of another container's process."""
    try:
        return any(os.path.samefile(fd, file) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.exists())
    except OSError:
        return False


@dataclass
class Job:
    """What is watched: files, a RAS service, the launcher's process, rules of the user."""

    paths: Sequence[str]
    address: tuple[str, int] | None = None
    pid: int | None = None
    every: Sequence[Every] = ()


@dataclass(frozen=True)
class Clock:
    """How time passes for who watches; ``busy`` tells the seconds that looks have cost."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    busy: Callable[[], float] = time.process_time


def watch(
    job: Job,
    state: Watch,
    interval_s: float,
    for_s: float | None = None,
    *,
    clock: Clock | None = None,
    looked: Callable[[float], None] | None = None,
) -> Iterator[Event]:
    """What changed, until the job has ended, for ``for_s`` seconds at most. ``looked`` is called after each look.

    Raises NotJudgedError: RAS is asked for and does not answer at the first look, or no file can be read then or at the
    end.
    """
    watcher, clock = _Watcher(job, state, Follower(job.paths)), clock or Clock()
    now = clock.now
    started = now()
    for rule in job.every:
        rule.since = started
    first = True
    while True:
        begun = clock.busy()
        yield from watcher.look(now, first)
        if first and not state.compares:
            yield Event("note", "watching; nothing says yet how far ranks are (RAS, COLL lines, Inspector, steps do)")
        if looked is not None:
            looked(now())
        if state.over:
            return
        if for_s is not None and now() - started >= for_s:
            if watcher.blind:
                raise NotJudgedError("none of the files can be read any more, so how far ranks are is not known")
            return
        # The first look reads what was there before, and the grammar.
        spent = 0.0 if first else clock.busy() - begun
        first = False
        left = float("inf") if for_s is None else max(0.0, started + for_s - now())
        clock.sleep(max(min(interval_s, left), min(spent / _SHARE, _LONGEST_PAUSE_S, max(left, interval_s))))


@dataclass
class _Watcher:
    job: Job
    state: Watch
    follower: Follower
    processes: _Processes = field(default_factory=_Processes)
    unanswered: str = ""
    dumps: dict[Path, int] = field(default_factory=dict)
    judged: int = 0
    failed: bool = False

    @property
    def blind(self) -> bool:
        """Files that say nothing because nobody can read them show no stall."""
        return self.follower.blind and self.job.address is None

    def look(self, now: Callable[[], float], first: bool) -> Iterator[Event]:
        """One look: all that is new, then one judgment of all at one time."""
        state = self.state
        alive = self.job.pid is None or bool(_start_of(self.job.pid))
        if self.job.address is not None:
            yield from self._ask(now(), first)
        growth = self.follower.grown()
        while True:
            at = now()
            seen = _read(growth)
            if seen.failure and not self.failed:
                self.failed = True
                yield Event("note", f"what the files say cannot be read: {seen.failure}")
            yield from state.take(seen, at)
            for rule in self.job.every:
                yield from rule.judge(growth, at)
            if not growth.more:
                break
            growth = self.follower.grown()
        yield from (Event("file", news) for news in self.follower.news())
        if self.blind and first:
            raise NotJudgedError("none of the files can be read")
        yield from self._judge_dumps(growth)
        gone = self.processes.gone(state)
        if gone:
            running = bool(self.processes.running)
            yield from state.lost(gone)
            if not running and not state.processes() and state.state != "failed":
                yield state.end("its processes are gone")
        if not self.blind:
            yield from state.judge(at, self.follower.unread, bool(self.unanswered))
        if not state.over:
            yield from state.ended(at)
        if not alive and not state.over:
            yield state.end(f"process {self.job.pid} is gone")

    def _ask(self, at: float, first: bool) -> Iterator[Event]:
        assert self.job.address is not None
        try:
            text = ras.status(*self.job.address)
        except NotJudgedError as error:
            if first:
                raise
            if not self.unanswered:
                self.unanswered = str(error)
                yield Event("note", f"{error} (the job may have ended)")
            elif not self.job.paths and self.state.quiet_s(at) >= self.state.patience_s:
                yield self.state.end("RAS does not answer any more")
            return
        if self.unanswered:
            self.unanswered = ""
            yield Event("note", "RAS answers again")
        name = "ras.json" if text.lstrip()[:1] == "{" else "ras.txt"
        yield from self.state.take(_read(Growth([(Path(name), text.encode())])), at)

    def _judge_dumps(self, growth: Growth) -> Iterator[Event]:
        """The verdict on Flight Recorder dumps, once no more of them come."""
        new = growth.documents.get("flight_recorder", ())
        for path in new:
            with contextlib.suppress(OSError):
                self.dumps[path] = path.stat().st_size
        if new or len(self.dumps) == self.judged:
            return
        self.judged = len(self.dumps)
        if sum(self.dumps.values()) > _MOST_DUMP_BYTES:
            yield Event("dump", f"{len(self.dumps)} Flight Recorder dumps: nccl-insight analyze reads them")
            return
        with contextlib.suppress(InsightError):
            found = api.analyze(sorted(self.dumps))
            for finding in found.findings[:1]:
                said, ranks = f"{len(self.dumps)} Flight Recorder dumps: {finding.title}", tuple(finding.ranks)
                yield Event("dump", said, ranks=ranks, commands=(finding.next_step,))


def _read(growth: Growth) -> Seen:
    """The new pieces, read as one run behind the lines of context; what cannot be read shows nothing."""
    packed = [*growth.documents.get("packed", ()), *growth.documents.get("ras", ())]
    if not growth.pieces and not packed:
        return Seen()
    top = temporary.place("look")
    # Making thousands of files takes longer than reading them: lines of one process need no file of their own.
    together, writers = [growth.context], {}
    files = {}
    try:
        top.mkdir()
        for number, (path, piece) in enumerate(growth.pieces):
            process = _only_process(piece)
            if process is not None:
                writers[process] = str(path)
                together.append(piece)
            else:
                place = top / f"{number:05}-{path.name}"
                place.write_bytes(piece)
                files[place] = str(path)
        context = top / "0"
        context.write_bytes(b"".join(together))
        run = api.load([*([context] if any(together) else []), *files, *packed])
    except (InsightError, OSError) as error:
        return Seen(grew=True, failure=str(error))
    else:
        try:
            names = {f.input_id: files.get(f.path, str(f.path)) for f in run.inputs if f.path != context}
            return look(run, names, writers, growth.anew)
        finally:
            discard(run.inputs)
    finally:
        shutil.rmtree(top.parent, ignore_errors=True)


def _only_process(piece: bytes) -> tuple[str, int] | None:
    """Host and number of the process that printed every line of a piece."""
    head = _HEAD.match(piece)
    if head is None or piece.count(b"\n" + head[0]) + 1 != piece.count(b"\n"):
        return None
    return head[1].decode(), int(head[2])
