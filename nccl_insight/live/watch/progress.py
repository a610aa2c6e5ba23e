"""How far each rank of each communicator is, what changed, and what to do on a stall."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nccl_insight.tables.run import Run
from nccl_insight.units import format_ranks, plural

OTHERS = -1
_MOST_SAID = 10_000
_MOST_GROUPS = 50_000
_NAMED = 3
_WHY = ("does not answer", "is considered dead")


@dataclass(frozen=True)
class Seen:
    """What one look at a job shows.

    ``counts``: communicator -> rank -> operations begun; rank ``OTHERS`` stands for all that are not listed.
    ``gone``: (communicator, rank) -> why a rank does not answer. ``places``: (communicator, rank) -> host and process.
    ``errors``: messages of NCCL, with who printed them.
    """

    counts: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    gone: Mapping[tuple[str, int | None], str] = field(default_factory=dict)
    places: Mapping[tuple[str, int], tuple[str, int | None]] = field(default_factory=dict)
    errors: tuple[tuple[str, str], ...] = ()


def look(run: Run) -> Seen:
    """What a report of RAS, new lines of logs or new records of Inspector show."""
    counts: dict[str, dict[int, int]] = {}
    gone: dict[tuple[str, int | None], str] = {}
    places: dict[tuple[str, int], tuple[str, int | None]] = {}
    if run.has("ras") or run.has("ras_ranks"):
        _from_ras(run, counts, gone, places)
    calls = run.table("calls")
    if calls.height:
        columns = calls.select("comm_id", "rank", "host", "pid", "op_count")
        for comm, rank, host, pid, count in columns.iter_rows():
            if comm is not None and rank is not None and count is not None:
                mine = counts.setdefault(comm, {})
                mine[rank] = max(count, mine.get(rank, 0))
                places[comm, rank] = (host or "", pid)
    records = run.table("collectives")
    if records.height:
        rows = records.select("process_group", "op", "rank", "seq", "source").iter_rows()
        for group, op, rank, seq, source in rows:
            if source == "inspector" and group is not None and rank is not None and seq is not None:
                mine = counts.setdefault(f"{group} {op or ''}".strip(), {})
                mine[rank] = max(seq, mine.get(rank, 0))
    errors = run.table("errors")
    said: list[tuple[str, str]] = []
    if errors.height:
        for host, pid, level, role, text in errors.select("host", "pid", "level", "role", "text").iter_rows():
            # Result codes that NCCL hands up its own call stack tell nothing new.
            if role != "benign" and not (role == "effect" and level == "INFO") and text:
                who = " ".join(str(part) for part in (host, pid) if part is not None)
                said.append((who, f"{level or 'WARN'} {text[:200]}"))
    return Seen(counts, gone, places, tuple(said))


def _from_ras(
    run: Run,
    counts: dict[str, dict[int, int]],
    gone: dict[tuple[str, int | None], str],
    places: dict[tuple[str, int], tuple[str, int | None]],
) -> None:
    ranks, numbers, facts = run.table("ras_ranks"), run.table("ras_counts"), run.table("ras")
    if ranks.height:
        for row in ranks.iter_rows(named=True):
            if row["rank"] is not None:
                places[row["comm_hash"], row["rank"]] = (row["host"] or "", row["pid"])
                if row["missing"]:
                    gone[row["comm_hash"], row["rank"]] = _WHY[bool(row["considered_dead"])]
    if numbers.height:
        for comm, rank, count in numbers.select("comm_hash", "rank", "op_count").iter_rows():
            if rank is not None:
                mine = counts.setdefault(comm, {})
                mine[rank] = mine.get(rank, 0) + (count or 0)
    for row in facts.iter_rows(named=True):
        event, comm, rank = row["event"], row["comm_hash"], row["rank"]
        if event in ("mismatch", "mismatch_member") and row["op_count"] is not None and comm is not None:
            mine = counts.setdefault(comm, {})
            if event == "mismatch":
                mine[OTHERS] = max(row["op_count"], mine.get(OTHERS, 0))
            elif rank is not None:
                mine[rank] = row["op_count"]
                places[comm, rank] = (row["host"] or "", row["pid"])
        elif event in ("incomplete_member", "dead_member") and not ranks.height:
            gone[comm or "", rank if rank is not None else row["pid"]] = _WHY[event == "dead_member"]
            if rank is not None and row["host"]:
                places[comm or "", rank] = (row["host"], row["pid"])


@dataclass
class _Mark:
    count: int
    since: float


class Watch:
    """Keeps the last look at each rank; memory grows with ranks and communicators, not with time."""

    def __init__(self, patience_s: float, stall_s: float) -> None:
        self._patience_s, self._stall_s = patience_s, stall_s
        self._marks: dict[str, dict[int, _Mark]] = {}
        self._behind: dict[str, tuple[int, ...]] = {}
        self._stalled: set[str] = set()
        self._gone: dict[tuple[str, int | None], str] = {}
        self._places: dict[tuple[str, int], tuple[str, int | None]] = {}
        self._said: set[str] = set()

    @property
    def compares(self) -> bool:
        """Whether anything said how far a rank is."""
        return bool(self._marks or self._gone)

    @property
    def troubled(self) -> bool:
        """Whether ranks lag, do not answer or nothing goes on."""
        return bool(self._behind or self._stalled or self._gone)

    def take(self, seen: Seen, now: float, clock: str) -> Iterator[str]:
        """One line for each change. ``now`` in seconds; ``clock`` is how the time is written."""
        self._places.update(seen.places)
        for who, text in seen.errors:
            folded = re.sub(r"[0-9a-fA-Fx]*[0-9][0-9a-fA-Fx]*", "#", text)
            if folded not in self._said and len(self._said) < _MOST_SAID:
                self._said.add(folded)
                yield f"{clock} {who}: {text}" if who else f"{clock} {text}"
        yield from self._missing(seen, clock)
        for comm, counts in seen.counts.items():
            if comm not in self._marks and len(self._marks) >= _MOST_GROUPS:
                continue
            marks = self._marks.setdefault(comm, {})
            for rank, count in counts.items():
                if rank not in marks or marks[rank].count != count:
                    marks[rank] = _Mark(count, now)
        for comm in self._marks:
            yield from self._judge(comm, now, clock)

    def _missing(self, seen: Seen, clock: str) -> Iterator[str]:
        for (comm, rank), why in seen.gone.items():
            if self._gone.get((comm, rank)) != why:
                self._gone[comm, rank] = why
                yield f"{clock} {self._name(comm, rank)} {why}{_of(comm)}"
        if seen.counts or seen.gone:
            for comm, rank in [key for key in self._gone if key[0] in seen.counts and key not in seen.gone]:
                del self._gone[comm, rank]
                yield f"{clock} {self._name(comm, rank)} answers again{_of(comm)}"

    def _judge(self, comm: str, now: float, clock: str) -> Iterator[str]:
        marks = self._marks[comm]
        top = max(mark.count for mark in marks.values())
        behind = {
            rank: mark
            for rank, mark in marks.items()
            if mark.count < top and now - mark.since >= self._patience_s
        }
        ranks = tuple(sorted(behind))
        if ranks and ranks != self._behind.get(comm):
            self._behind[comm] = ranks
            slowest = min(behind.values(), key=lambda mark: mark.count)
            waited = max(now - mark.since for mark in behind.values())
            who = self._names(comm, ranks)
            yield (
                f"{clock} {who} {'is' if len(ranks) == 1 else 'are'} behind{_of(comm)}: at operation {slowest.count} "
                f"of {top}, since {waited:.0f} s"
            )
        elif not ranks and comm in self._behind:
            gone = self._behind.pop(comm)
            yield f"{clock} {self._names(comm, gone)} caught up{_of(comm)}: all ranks at operation {top} or near it"
        latest = max(mark.since for mark in marks.values())
        if now - latest >= self._stall_s and comm not in self._stalled:
            self._stalled.add(comm)
            waits = f"waiting for {self._names(comm, ranks)}" if ranks else f"all ranks at operation {top}"
            yield f"{clock} stall{_of(comm)}: no rank has begun an operation for {now - latest:.0f} s, {waits}"
            yield from (f"{' ' * len(clock)} next: {command}" for command in self._commands(comm, ranks))
        elif now - latest < self._stall_s and comm in self._stalled:
            self._stalled.discard(comm)
            yield f"{clock} goes on{_of(comm)}"

    def _commands(self, comm: str, ranks: tuple[int, ...]) -> Iterator[str]:
        """What tells most about ranks that others wait for, or about any rank where all wait inside."""
        chosen = [self._places[comm, rank] for rank in ranks if (comm, rank) in self._places]
        chosen = chosen or [place for (c, _), place in self._places.items() if c == comm][:1]
        for host, pid in chosen[:_NAMED]:
            if pid is not None:
                yield f"ssh {host or 'HOST'} py-spy dump --pid {pid}"
        if chosen and chosen[0][0]:
            yield f"ssh {chosen[0][0]} 'dmesg -T | grep -i xid; nvidia-smi'"
        yield "nccl-insight analyze LOGS (logs and Flight Recorder dumps of all ranks)"

    def _name(self, comm: str, rank: int | None) -> str:
        if rank is None:
            return "a rank"
        if not comm:
            return f"process {rank}"
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


def _of(comm: str) -> str:
    return f" in {comm}" if comm else ""
