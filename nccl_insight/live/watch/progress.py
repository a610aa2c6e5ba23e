"""How far each rank of each communicator is, what changed, and what to do on a stall."""

import re
import statistics
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from nccl_insight.base.data import dataclass, field
from nccl_insight.base.units import format_ranks, listed, plural
from nccl_insight.live.watch.seen import DEAD, OTHERS, Key, Seen

_MOST_SAID: Final = 10_000
_MOST_GROUPS: Final = 50_000
_NAMED: Final = 3
#: Ranks that are all at the same operation may compute, save or evaluate: so much longer they may be silent.
_EVEN: Final = 4
#: A pause that ended by itself may come again, and take a little longer.
_AGAIN: Final = 2.0
_TURNS: Final = 5


@dataclass(frozen=True)
class Event:
    """One change. ``kind``: behind, caught-up, missing, answers, stall, resumed, init, warning, end, restart, ended,
    dump, overdue, on-time, file or note. ``commands`` are what to do next."""

    kind: str
    text: str
    comm: str = ""
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    operation: int | None = None
    of: int | None = None
    since_s: float | None = None
    commands: tuple[str, ...] = ()


@dataclass
class _Rank:
    """``count``: operations begun, the last one at ``since``; ``passed``: since when another rank is ahead;
    ``patience_s``: how long it once was behind before it caught up by itself.

    ``least``: the fewest operations that it was behind at any of the ``looks`` at which it went on; ``missing``: so
    many of its lines are taken for lost (a log that was rotated before or while it was read).
    """

    count: int
    since: float
    passed: float | None = None
    least: int = 0
    looks: int = 0
    missing: int = 0
    patience_s: float = 0.0

    @property
    def place(self) -> int:
        """The operation that it is at."""
        return self.count + self.missing

    def went_on(self, behind: int) -> None:
        """It began operations, and is so many behind in what is counted."""
        self.least = min(behind, self.least) if self.looks else behind
        self.looks += 1
        if self.looks >= _TURNS:
            self.missing = self.least

    def seen(self, top: int, now: float) -> None:
        """The first rank of its communicator is at ``top``: others wait for it from now on, or no more."""
        self.passed = None if self.place >= top else now if self.passed is None else self.passed

    def behind_s(self, now: float) -> float:
        """How long others wait for it."""
        return 0.0 if self.passed is None else now - max(self.passed, self.since)


@dataclass
class Comm:
    """A communicator: the ranks that have begun operations, when one last did, and those in init and beyond.

    ``gaps``: seconds between the last looks at which the first rank went on, the last of them at ``led``.
    """

    since: float
    led: float | None = None
    gaps: deque[float] = field(default_factory=lambda: deque(maxlen=_TURNS))
    size: int | None = None
    ranks: dict[int, _Rank] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)
    ready: set[int] = field(default_factory=set)
    absolute: bool = False

    @property
    def top(self) -> int:
        """The operation that the first rank is at."""
        return max((rank.place for rank in self.ranks.values()), default=0)

    @property
    def spread(self) -> int:
        """Operations between the first and the last rank."""
        return self.top - min((rank.place for rank in self.ranks.values()), default=0)


class Watch:
    """Keeps the last look at each rank; memory grows with ranks and communicators, not with time."""

    def __init__(self, patience_s: float, stall_s: float) -> None:
        self.patience_s, self._stall_s = patience_s, stall_s
        self.comms: dict[str, Comm] = {}
        self.behind: dict[str, tuple[int, ...]] = {}
        self.warnings = 0
        self.step: int | None = None
        self.step_s: float | None = None
        self._total: int | None = None
        self._alive: float | None = None
        self._grown = self._pause_s = self._step_at = 0.0
        self._stalled = self._initing = self._faulty = False
        self._failed, self._failed_at = "", 0.0
        self._paused: float | None = None
        self._done, self._done_at = "", 0.0
        self._ended = ""
        self._warned: float | None = None
        self._warner: tuple[str, int | None] = ("", None)
        self._closed = 0
        self._gone: dict[tuple[str, int | str], str] = {}
        self._places: dict[Key, tuple[str, int | None]] = {}
        self._files: dict[Key, str] = {}
        self._gpus: dict[tuple[str, str], int] = {}
        self._over: set[Key] = set()
        self._told: set[str] = set()
        self._said: set[str] = set()

    @property
    def compares(self) -> bool:
        """Whether anything said how far a rank is."""
        return bool(self.comms or self._gone) or self.step is not None

    @property
    def troubled(self) -> bool:
        """Whether something went wrong: a stall or a lost process at any time, or ranks that lag, do not answer or were
        warned of and silent since, at the end."""
        silent = self._silent_since_warned and not self.over
        return self._faulty or silent or bool(self.behind or self._gone or self._failed)

    @property
    def _silent_since_warned(self) -> bool:
        return self._warned is not None and self._warned >= (self._alive or 0.0)

    @property
    def state(self) -> str:
        """``starting``, ``running``, ``behind``, ``stalled``, ``failed`` or ``ended``."""
        states = {"failed": self._failed, "ended": self._ended, "stalled": self._stalled or self._initing}
        states |= {"behind": self.behind or self._gone, "running": self._alive is not None}
        return next((name for name, holds in states.items() if holds), "starting")

    @property
    def over(self) -> bool:
        """Whether the job has ended, well or not."""
        return bool(self._ended)

    def quiet_s(self, now: float) -> float:
        """Seconds since anything new was seen."""
        return now - max(self._grown, self._alive or 0.0)

    def since_s(self, now: float) -> float | None:
        """Seconds since the last operation or step of the job."""
        return None if self._alive is None else max(0.0, now - self._alive)

    def processes(self) -> Mapping[tuple[str, int], str]:
        """Host and number of each process that has a communicator open, and the file that said so."""
        open_ = {(name, rank) for name, comm in self.comms.items() for rank in comm.begun | comm.ready}
        return {
            (host, pid): self._files.get(key, "")
            for key, (host, pid) in self._places.items()
            if key in open_ and pid is not None
        }

    def take(self, seen: Seen, now: float) -> Iterator[Event]:
        """What a look shows, at ``now`` seconds: an event for each message and each rank that is gone or back."""
        self._places.update(seen.places)
        self._take_files(seen)
        if seen.grew:
            self._grown = now
        failed = bool(self._failed)  # before this look
        yield from self._take_errors(seen, now)
        yield from self._take_missing(seen)
        if self._take_open(seen, now) and failed:
            self._failed = ""
            yield Event("restart", "ranks begin again: the job was restarted")
        self._take_counts(seen, now)
        if seen.step not in (None, self.step):
            self._take_step(seen, seen.step, now)
        if seen.pause:
            self._paused = now
        if seen.done:
            self._done, self._done_at = seen.done, now

    def judge(self, now: float, unread: frozenset[str] = frozenset(), silent: bool = False) -> Iterator[Event]:
        """Who is behind, whether anything goes on; ranks whose files cannot be read (``unread``) are not judged, nor
        communicators that a service counts while it is ``silent``."""
        if self._ended or self._failed:
            return
        known = {self._places.get((name, rank)) for name, ranks in self.behind.items() for rank in ranks}
        found = {
            name: self.behind.get(name) if silent and comm.absolute else self._lagging(name, comm, now, unread)
            for name, comm in self.comms.items()
        }
        lagging = {name: ranks for name, ranks in found.items() if ranks}
        for name, ranks in lagging.items():
            places = {self._places.get((name, rank)) for rank in ranks}
            if ranks != self.behind.get(name) and (not places <= known or None in places or name in self._told):
                self._told.add(name)
                yield self._behind(name, ranks, now)
            known |= places
        for name in self._told - lagging.keys():
            yield from self._caught_up(name)
        self._told &= lagging.keys()
        self.behind = lagging
        yield from self._judge_init(now, unread)
        yield from self._judge_silence(now)

    def ended(self, now: float) -> Iterator[Event]:
        """That the job is over, when everything is closed, it failed or reached its last step, and is silent since."""
        quiet_s = self.quiet_s(now)
        open_ranks = any(comm.begun or comm.ready or comm.ranks for comm in self.comms.values())
        if self._failed and quiet_s >= self._stall_s:
            yield self.end(self._failed)
        elif self._closed and not open_ranks and quiet_s >= self.patience_s:
            yield self.end("all ranks have closed their communicators")
        elif quiet_s >= self._stall_s and not self.behind and self._done:
            yield self.end(f"the program says {self._done.strip()!r}")
        elif quiet_s >= self._stall_s and not self.behind and self._total and self.step == self._total:
            yield self.end(f"step {self._total:,} was the last one")

    def end(self, why: str) -> Event:
        """The event that the job is over."""
        self._ended = self._ended or why
        return Event("ended", f"the job has ended: {why}")

    def lost(self, gone: Iterable[tuple[str, int]]) -> Iterator[Event]:
        """Processes that were seen running and are not there any more, though they had communicators open."""
        left = set(gone)
        keys = [key for key, place in self._places.items() if place in left and self._has(key)]
        others = any(self._has(key) for key, place in self._places.items() if place not in left)
        names = sorted({self._name(*key) for key in keys})
        if keys and others:
            self._faulty = True
            text = f"{listed(names, _NAMED)}: the process is gone, without having closed its communicators"
            ranks, hosts = tuple(sorted({rank for _, rank in keys})), tuple(sorted({host for host, _ in left}))
            yield Event("end", text, ranks=ranks, hosts=hosts)
        for name, rank in keys:
            self._close(name, rank)

    # What a look shows

    def _take_files(self, seen: Seen) -> None:
        """Of ranks whose files are others now, or were emptied, lines may be lost."""
        for (name, rank), file in self._files.items():
            other = seen.files.get((name, rank), file) != file
            if (other or file in seen.anew) and self._has((name, rank)) and rank in self.comms[name].ranks:
                self.comms[name].ranks[rank].looks = 0
        self._files.update(seen.files)

    def _take_counts(self, seen: Seen, now: float) -> None:
        for name in self.comms.keys() & seen.touched:
            self.comms[name].since = now
            self._went_on(now)
        for name, comm in self.comms.items() if seen.alike else ():
            if comm.absolute and name not in seen.counts:
                comm.ranks.clear()
        for every, absolute in ((seen.begun, False), (seen.counts, True)):
            for name, counts in every.items():
                self._count(name, counts, absolute, now)

    def _take_step(self, seen: Seen, step: int, now: float) -> None:
        steps = step - (step if self.step is None else self.step)
        self.step_s = seen.step_s or ((now - self._step_at) / steps if steps > 0 else self.step_s)
        self.step, self._step_at, self._total = step, now, seen.total or self._total
        self._went_on(now)

    def _take_errors(self, seen: Seen, now: float) -> Iterator[Event]:
        ends = {text for text, *_ in seen.ends}
        for host, pid, text, root in seen.errors:
            if any(text.endswith(end) for end in ends):
                continue
            folded = re.sub(r"(?<![0-9a-fA-Fx])[a-fA-Fx]*[0-9][0-9a-fA-Fx]*", "#", text)
            self.warnings += 1
            if root:
                self._warned, self._warner = now, (host, pid)
            if folded not in self._said and len(self._said) < _MOST_SAID:
                self._said.add(folded)
                who = " ".join(str(part) for part in (host, pid) if part not in ("", None))
                yield Event("warning", f"{who}: {text}" if who else text, hosts=(host,) if host else ())
        for text, ranks, hosts in seen.ends:
            if not self._failed:
                self._faulty, self._failed, self._failed_at = True, text, now
            if text not in self._said and len(self._said) < _MOST_SAID:
                self._said.add(text)
                yield Event("end", text, ranks=ranks, hosts=hosts)

    def _take_missing(self, seen: Seen) -> Iterator[Event]:
        for (comm, rank), why in seen.gone.items():
            if self._gone.get((comm, rank)) != why:
                self._gone[comm, rank] = why
                self._faulty |= why == DEAD
                yield self._presence("missing", comm, rank, why)
        if seen.counts or seen.gone:
            for comm, rank in [key for key in self._gone if key[0] in seen.counts and key not in seen.gone]:
                del self._gone[comm, rank]
                yield self._presence("answers", comm, rank, "answers again")

    def _presence(self, kind: str, comm: str, rank: int | str, what: str) -> Event:
        ranks = (rank,) if isinstance(rank, int) else ()
        return Event(kind, f"{self._name(comm, rank)} {what}{_of(comm)}", comm, ranks)

    def _take_open(self, seen: Seen, now: float) -> bool:
        """Ranks that began or ended a communicator; whether any began."""
        for (host, gpu), pid in seen.gpus.items():
            before = self._gpus.get((host, gpu))
            self._gpus[host, gpu] = pid
            if before not in (None, pid):  # the GPU has another process now: the one before is over
                for key in [k for k, place in self._places.items() if place == (host, before)]:
                    self._close(*key)
        fresh = False
        for (name, rank), (size, ready) in seen.opened.items():
            if (name, rank) in seen.closed | self._over or (name not in self.comms and len(self.comms) >= _MOST_GROUPS):
                continue
            comm = self.comms.setdefault(name, Comm(now))
            comm.size = size or comm.size
            group = comm.ready if ready else comm.begun
            if rank not in comm.ready | group:
                fresh, comm.since = True, now
            group.add(rank)
        for name, rank in seen.closed:
            self._close(name, rank)
            self._closed += 1
            self._went_on(now)
        if seen.report is not None:  # a service that lists all there are
            for name in [n for n, comm in self.comms.items() if comm.absolute and n not in seen.report]:
                self._closed += 1
                del self.comms[name]
        return fresh

    def _close(self, name: str, rank: int) -> None:
        self._over.add((name, rank))
        comm = self.comms.get(name)
        if comm is not None:
            comm.ranks.pop(rank, None)
            comm.begun.discard(rank)
            comm.ready.discard(rank)
            if not (comm.ranks or comm.begun or comm.ready):
                del self.comms[name]
        self._gone.pop((name, rank), None)

    def _has(self, key: Key) -> bool:
        comm = self.comms.get(key[0])
        return comm is not None and (key[1] in comm.ranks or key[1] in comm.begun or key[1] in comm.ready)

    def _count(self, name: str, counts: Mapping[int, int], absolute: bool, now: float) -> None:
        if name not in self.comms and (
            len(self.comms) >= _MOST_GROUPS or all((name, rank) in self._over for rank in counts)
        ):
            return
        comm = self.comms.setdefault(name, Comm(now))
        comm.absolute |= absolute
        before = comm.top
        lagging = self.behind.get(name, ())
        moved = []
        for rank in comm.ranks.keys() - counts.keys() if OTHERS in counts else ():
            del comm.ranks[rank]  # it is among the others again
        for rank, count in counts.items():
            if (name, rank) in self._over:
                continue
            mark = comm.ranks.setdefault(rank, _Rank(-1 if absolute else 0, now))
            number = count if absolute else mark.count + count
            if number != mark.count:
                if rank in lagging:
                    mark.patience_s = max(mark.patience_s, 1.5 * mark.behind_s(now))
                mark.count, mark.since = number, now
                moved.append(mark)
        if moved:
            most = max(mark.count for mark in comm.ranks.values())
            for mark in moved:
                mark.went_on(most - mark.count)
            top = comm.top
            for mark in comm.ranks.values():
                mark.seen(top, now)
            if top > before:
                comm.gaps.extend([] if comm.led is None else [now - comm.led])
                comm.led = now
            comm.since = now
            self._went_on(now)

    def _went_on(self, now: float) -> None:
        if self._alive is not None and not self.behind:
            self._pause_s = max(self._pause_s, now - self._alive)
        self._alive = now
        if now - self._done_at > self.patience_s:
            self._done = ""
        if self._failed and now - self._failed_at > self.patience_s:
            self._failed = ""  # the others go on without it

    # Judgment

    def _lagging(self, name: str, comm: Comm, now: float, unread: frozenset[str]) -> tuple[int, ...]:
        """Ranks below the others' operation, while these have stopped: else lines come late, and the rank does not."""
        if now - comm.since < self.patience_s / 2:
            return ()
        rhythm_s = statistics.median(comm.gaps) if comm.gaps else 0.0
        patience_s = self._long_s if self._announced else max(self.patience_s, rhythm_s)
        late = (
            rank
            for rank, mark in comm.ranks.items()
            if mark.place < comm.top and mark.behind_s(now) >= max(patience_s, mark.patience_s)
        )
        return tuple(sorted(rank for rank in late if self._files.get((name, rank)) not in unread))

    def _behind(self, name: str, ranks: tuple[int, ...], now: float) -> Event:
        marks = [self.comms[name].ranks[rank] for rank in ranks]
        least, top = min(mark.place for mark in marks), self.comms[name].top
        waited = max(mark.behind_s(now) for mark in marks)
        text = (
            f"{self._names(name, ranks)} {'is' if len(ranks) == 1 else 'are'} behind{_of(name)}: at operation {least} "
            f"of {top}, since {waited:.0f} s"
        )
        return Event("behind", text, name, ranks, self._hosts(name, ranks), least, top, waited)

    def _caught_up(self, name: str) -> Iterator[Event]:
        ranks, comm = self.behind[name], self.comms.get(name)
        if comm is not None and all(rank in comm.ranks for rank in ranks):
            text = f"{self._names(name, ranks)} caught up{_of(name)}: all ranks at operation {comm.top} or near it"
            yield Event("caught-up", text, name, ranks, self._hosts(name, ranks), comm.top, comm.top)

    def _judge_init(self, now: float, unread: frozenset[str]) -> Iterator[Event]:
        """Communicators that ranks wait in since their init began."""
        stuck = []
        for name, comm in self.comms.items():
            waits = comm.begun - comm.ready
            absent = comm.size is not None and comm.size > len(comm.begun | comm.ready)
            limit = _EVEN * self._stall_s / (2 if absent else 1)
            hidden = any(self._files.get((name, rank)) in unread for rank in waits)
            if waits and now - comm.since >= limit and not hidden:
                stuck.append((name, comm, now - comm.since))
        if stuck and not self._initing:
            name, comm, waited = max(stuck, key=lambda item: (item[1].size or 0, item[0]))
            missing = tuple(sorted(set(range(comm.size or 0)) - comm.begun - comm.ready))
            size = f" of {comm.size}" if comm.size else ""
            who = "all ranks have begun"
            if missing:
                who = f"{self._names(name, missing)} {'has' if len(missing) == 1 else 'have'} not begun"
            self._initing = self._faulty = True
            there = f"{len(comm.begun | comm.ready)}{size} ranks are in it"
            said = f"init{_of(name)} is not complete after {waited:.0f} s: {there}, {who}"
            ask, ready = self._commands([(name, rank) for rank in sorted(comm.begun - comm.ready)[:1]]), len(comm.ready)
            yield Event("init", said, name, missing, operation=ready, of=comm.size, since_s=waited, commands=ask)
        self._initing = bool(stuck)

    def _judge_silence(self, now: float) -> Iterator[Event]:
        if self._alive is None or not (self.comms or self.step is not None):
            return
        silent = now - self._alive
        waited_for = self._waited_for()
        apart = bool(self._gone or self._silent_since_warned) or not self._saves(waited_for)
        limit = self._stall_s if apart else self._long_s
        if self._stalled and silent < self._stall_s:
            self._stalled = False
            yield Event("resumed", "the job makes progress again")
        elif not self._stalled and silent >= limit:
            self._stalled = self._faulty = True
            yield self._stall(silent, waited_for)

    @property
    def _long_s(self) -> float:
        """Silence that a pause of the program's own may take."""
        return max(_EVEN * self._stall_s, _AGAIN * self._pause_s)

    @property
    def _announced(self) -> bool:
        """Whether the program said, when it was silent or shortly before, that it saves or evaluates."""
        return self._paused is not None and self._paused >= (self._alive or 0.0) - self._stall_s / 2

    def _saves(self, waited_for: Mapping[str, tuple[int, ...]]) -> bool:
        """Whether those that all wait for may save or evaluate for them: the first rank alone does so in most jobs."""
        if not waited_for or self._announced:
            return True
        whole = max(self.comms, key=lambda name: len(self.comms[name].ranks))
        first = self._places.get((whole, 0))
        places = {self._places.get((name, rank)) for name, ranks in waited_for.items() for rank in ranks}
        return places == {first} and first is not None

    def _stall(self, silent: float, waited_for: Mapping[str, tuple[int, ...]]) -> Event:
        head = f"stall: no rank has begun an operation for {silent:.0f} s"
        for name, ranks in waited_for.items():
            comm = self.comms[name]
            least = min(comm.ranks[rank].place for rank in ranks)
            said = f"{head}, waiting for {self._names(name, ranks)}{_of(name)}"
            hosts, ask = self._hosts(name, ranks), self._commands([(name, r) for r in ranks])
            return Event("stall", said, name, ranks, hosts, least, comm.top, silent, ask)
        gone = [(name, rank) for name, rank in self._gone if isinstance(rank, int)]
        if self._gone:
            names = ", ".join(self._name(*key) for key in list(self._gone)[:_NAMED])
            return Event("stall", f"{head}, without {names}", since_s=silent, commands=self._commands(gone))
        at = f"step {self.step}"
        counting = [comm for comm in self.comms.values() if comm.ranks]
        if counting:
            at = f"operation {max(counting, key=lambda comm: (comm.since, len(comm.ranks))).top}"
        why = "they hang in it, pause longer than before, or exited silently"
        places = [place for key, place in self._places.items() if self._has(key)]
        if self._silent_since_warned:
            why, places = "nothing goes on since the warning", [self._warner, *places]
        return Event("stall", f"{head}, all ranks at {at}: {why}", since_s=silent, commands=_next(places[:1]))

    def _waited_for(self) -> dict[str, tuple[int, ...]]:
        """Of the ranks that are behind, those that wait for nobody in another communicator."""
        waiting = {
            self._places.get((name, rank))
            for name, ranks in self.behind.items()
            for rank in self.comms[name].ranks.keys() - set(ranks)
        } - {None}
        roots = {
            name: tuple(r for r in ranks if self._places.get((name, r)) not in waiting)
            for name, ranks in self.behind.items()
        }
        found = {name: ranks for name, ranks in roots.items() if ranks} or self.behind
        return dict(sorted(found.items(), key=lambda item: (len(item[1]), item[0])))

    # Words

    def _commands(self, keys: Sequence[Key]) -> tuple[str, ...]:
        return _next([self._places[key] for key in keys if key in self._places])

    def _name(self, comm: str, rank: int | str) -> str:
        if isinstance(rank, str):
            return rank  # a process whose rank is not told
        host, pid = self._places.get((comm, rank), ("", None))
        place = ", ".join(part for part in (host, f"process {pid}" if pid is not None else "") if part)
        return f"rank {rank}" + (f" ({place})" if place else "")

    def _names(self, comm: str, ranks: tuple[int, ...]) -> str:
        listed = tuple(rank for rank in ranks if rank != OTHERS)
        if not listed:
            return "the other ranks"
        if len(listed) <= _NAMED:
            return ", ".join(self._name(comm, rank) for rank in listed)
        return f"{plural(len(listed), 'rank')} ({format_ranks(listed)})"

    def _hosts(self, comm: str, ranks: tuple[int, ...]) -> tuple[str, ...]:
        hosts = {self._places.get((comm, rank), ("", None))[0] for rank in ranks}
        return tuple(sorted(host for host in hosts if host))


def _next(places: Sequence[tuple[str, int | None]]) -> tuple[str, ...]:
    """What tells most about processes that others wait for, or about any where all wait inside."""
    found = [f"ssh {host or 'HOST'} py-spy dump --pid {pid}" for host, pid in places[:_NAMED] if pid is not None]
    if places and places[0][0]:
        found.append(f"ssh {places[0][0]} 'dmesg -T | grep -i xid; nvidia-smi'")
    return (*found, "nccl-insight analyze LOGS (logs and Flight Recorder dumps of all ranks)")


def _of(comm: str) -> str:
    return f" in {comm}" if comm else ""
