"""What one look at a job shows: a report of RAS, new lines of logs, new records of Inspector."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import polars as pl

from nccl_insight.base.data import dataclass, field
from nccl_insight.facts.progress.calls import POINT_TO_POINT
from nccl_insight.facts.said.ends import ENDED, ends
from nccl_insight.readers.embedded.endings import DONE
from nccl_insight.tables.run import Run

OTHERS: Final = -1
DEAD: Final = "is considered dead"
_WHY: Final = ("does not answer", DEAD)
Key: TypeAlias = tuple[str, int]


@dataclass
class Seen:
    """One look.

    ``begun``: communicator -> rank -> collectives begun since the last look; ``counts``: the same, all since the
    start; rank ``OTHERS`` stands for all that are not listed. ``touched``: communicators of any operation.
    ``opened``: (communicator, rank) -> ranks in all, and whether init is complete; ``closed``. ``report``: all
    communicators there are, from a service that knows; ``alike``: it names only those whose ranks differ. ``gone``:
    why a rank, or the process named where its rank is not told, does not answer. ``places``: host and process;
    ``files``: the input that told; ``gpus``: (host, GPU) -> process. ``errors``: host and process that printed it,
    text, whether it can be a first cause. ``ends``: lines that say that a process or the job ended badly: text,
    ranks, hosts. ``step`` of ``total``, in ``step_s`` seconds each; ``pause``: what the program said last that it
    does between steps; ``done``: that it came to its end. ``grew``: there was anything new; ``failure``: why it
    cannot be read. ``anew``: files that were emptied or replaced, so that lines may be lost.
    """

    begun: dict[str, dict[int, int]] = field(default_factory=dict)
    counts: dict[str, dict[int, int]] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    opened: dict[Key, tuple[int | None, bool]] = field(default_factory=dict)
    closed: set[Key] = field(default_factory=set)
    report: frozenset[str] | None = None
    alike: bool = False
    gone: dict[tuple[str, int | str], str] = field(default_factory=dict)
    places: dict[Key, tuple[str, int | None]] = field(default_factory=dict)
    files: dict[Key, str] = field(default_factory=dict)
    gpus: dict[tuple[str, str], int] = field(default_factory=dict)
    errors: tuple[tuple[str, int | None, str, bool], ...] = ()
    ends: tuple[tuple[str, tuple[int, ...], tuple[str, ...]], ...] = ()
    step: int | None = None
    total: int | None = None
    step_s: float | None = None
    pause: str = ""
    done: str = ""
    grew: bool = False
    failure: str = ""
    anew: frozenset[str] = frozenset()


def look(
    run: Run, files: Mapping[int, str], writers: Mapping[tuple[str, int], str], anew: frozenset[str] = frozenset()
) -> Seen:
    """What a run of new lines shows. ``files``: input -> the file that it is a piece of; ``writers``: process -> its
    file, where lines of several and those of before are one input. ``anew`` as in :class:`Seen`."""
    seen = Seen(grew=True, anew=anew)
    if run.has("ras") or run.has("ras_ranks"):
        _ras(run, seen)
    _opened(run, seen, files)
    _calls(run, seen, files)
    _inspector(run, seen)
    _errors(run, seen)
    _steps(run, seen)
    for key, (host, pid) in seen.places.items():
        if pid is not None and (host, pid) in writers:
            seen.files[key] = writers[host, pid]
    return seen


def _opened(run: Run, seen: Seen, files: Mapping[int, str]) -> None:
    who = ("comm_id", "rank", "host", "pid", "nranks", "bus_id", "init_complete", "input_id")
    ended = pl.col("destroyed").cast(pl.String).is_in(["destroyed", "aborted"])
    rows = run.table("ranks").select(*who, closed=ended)
    for comm, rank, host, pid, size, bus, ready, input_id, closed in rows.iter_rows():
        if comm is None or rank is None:
            continue
        seen.places[comm, rank] = (host or "", pid)
        if input_id in files:
            seen.files[comm, rank] = files[input_id]
        if closed:
            seen.closed.add((comm, rank))
        else:
            seen.opened[comm, rank] = (size, bool(ready))
            if host and bus and pid is not None:
                seen.gpus[host, bus] = pid


def _calls(run: Run, seen: Seen, files: Mapping[int, str]) -> None:
    """Collectives are counted as they are printed: NCCL's own number counts kernels, and on one node often none."""
    calls = run.table("calls")
    if calls.is_empty():
        return
    process = ["host", "pid", "comm"]
    ranks = run.table("ranks").select(*process, "comm_id", "rank").unique(process, keep="last")
    # A pointer that no line explains is not that of the only communicator that is known.
    rows = calls.drop("comm_id", "rank").join(ranks, on=process, nulls_equal=True).drop_nulls(["comm_id", "rank"])
    collective = ~pl.col("op").cast(pl.String).is_in(POINT_TO_POINT)
    counted = rows.group_by("comm_id", "rank").agg(collective.sum(), pl.col("input_id").last())
    for comm, rank, count, input_id in counted.iter_rows():
        seen.touched.add(comm)
        if input_id in files:
            seen.files[comm, rank] = files[input_id]
        if count:
            seen.begun.setdefault(comm, {})[rank] = count


def _inspector(run: Run, seen: Seen) -> None:
    if not run.has("collectives"):
        return
    rows = run.table("collectives").filter(pl.col("source").cast(pl.String) == "inspector")
    for group, op, rank, seq in rows.select("process_group", "op", "rank", "seq").iter_rows():
        if group is not None and rank is not None and seq is not None:
            mine = seen.counts.setdefault(f"{group} {op or ''}".strip(), {})
            mine[rank] = max(seq, mine.get(rank, 0))


def _errors(run: Run, seen: Seen) -> None:
    said = []
    rows = run.table("errors")
    for host, pid, level, role, text in rows.select("host", "pid", "level", "role", "text").iter_rows():
        # Result codes that NCCL hands up its own call stack tell nothing new.
        if role != "benign" and not (role == "effect" and level == "INFO") and text:
            said.append((host or "", pid, f"{level or 'WARN'} {text[:200]}", role == "root"))
    seen.errors = tuple(said)
    if rows.height or run.has("tracebacks") or run.has("endings"):
        found = (end for end in ends(run) if end.strong or end.kind != ENDED)
        seen.ends = tuple((end.text, end.ranks, end.hosts) for end in found)


def _steps(run: Run, seen: Seen) -> None:
    """Where the program says it is: the newest step (table ``progress``), a pause between steps, its end."""
    if run.has("endings"):
        said = run.table("endings").filter(pl.col("kind") == DONE)["text"]
        seen.done = said[-1] if said.len() else ""
    if not run.has("progress"):
        return
    rows = run.table("progress")
    pauses = rows["pause"].drop_nulls()
    seen.pause = pauses[-1] if pauses.len() else ""
    counted = rows.filter(pl.col("counter").is_not_null() & pl.col("pause").is_null())
    for unit in ("step", "epoch", "it"):
        own = counted.filter(pl.col("unit") == unit)
        if own.height:
            row = own.row(-1, named=True)
            seen.step = int(row["counter"])
            # What a bar counts, such as files that are loaded, may be over before the job begins.
            seen.total = int(row["total"]) if row["total"] and unit != "it" else None
            seen.step_s = row["duration_s"]
            return


def _ras(run: Run, seen: Seen) -> None:
    ranks, numbers = run.table("ras_ranks"), run.table("ras_counts")
    seen.alike = ranks.is_empty()
    if ranks.height:
        seen.report = frozenset(ranks["comm_hash"].drop_nulls().to_list())
    for row in ranks.drop_nulls("rank").iter_rows(named=True) if ranks.height else ():
        key = row["comm_hash"], row["rank"]
        seen.places[key] = (row["host"] or "", row["pid"])
        if row["missing"]:
            seen.gone[key] = _WHY[bool(row["considered_dead"])]
    for comm, rank, count in numbers.select("comm_hash", "rank", "op_count").iter_rows() if numbers.height else ():
        if rank is not None:
            mine = seen.counts.setdefault(comm, {})
            mine[rank] = mine.get(rank, 0) + (count or 0)
    for row in run.table("ras").iter_rows(named=True):
        _ras_fact(row, seen)


def _ras_fact(row: Mapping[str, Any], seen: Seen) -> None:
    event, comm, rank, place = row["event"], row["comm_hash"], row["rank"], (row["host"] or "", row["pid"])
    if event in ("mismatch", "mismatch_member") and row["op_count"] is not None and comm is not None:
        mine = seen.counts.setdefault(comm, {})
        if event == "mismatch":
            mine[OTHERS] = max(row["op_count"], mine.get(OTHERS, 0))
        elif rank is not None:
            mine[rank] = row["op_count"]
            seen.places[comm, rank] = place
    elif event in ("incomplete_member", "dead_member") and seen.alike:
        of = f"process {row['pid']}" + (f" on {row['host']}" if row["host"] else "")
        seen.gone[comm or "", of if rank is None else rank] = _WHY[event == "dead_member"]
        if rank is not None and row["host"]:
            seen.places[comm or "", rank] = place
