"""What the Flight Recorder dumps of a job say together: who waits, who is missing, who issued something else.

Collectives are matched by process group (name, description and members) and sequence number. Operations count
as done when retired or completed: Gloo never says ``completed``. Point-to-point numbers run per group and rank
and are matched by their pair of ranks (:func:`unpaired`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from nccl_insight.facts.lateness import SYNCHRONISING
from nccl_insight.tables.run import Run

_EQUAL_INPUT = ("AllReduce", "Reduce", "Broadcast")
_MOST_MISMATCHES = 20


@dataclass(frozen=True)
class Group:
    """A process group in the dumps. ``members`` is None where no dump lists them."""

    key: str
    name: str
    desc: str
    members: tuple[int, ...] | None

    @property
    def label(self) -> str:
        """``74 (EXPERT_MODEL_PARALLEL_GROUP)``."""
        return f"{self.name} ({self.desc})" if self.desc and self.desc != "undefined" else self.name


@dataclass(frozen=True)
class Operation:
    """A collective as the dumps describe it; ``input_id`` is the dump it was taken from."""

    seq: int
    op_name: str
    sizes: str
    dtypes: str
    created_ns: int
    input_id: int
    rank: int

    @property
    def label(self) -> str:
        """``all_to_all 4027x5120 BFloat16``."""
        sizes = self.sizes.strip("[]").replace("],[", " ").replace(",", "x")
        return " ".join(p for p in (self.op_name, sizes, self.dtypes) if p)

    @property
    def name(self) -> str:
        """``collective 1,204 (all_reduce 1024 Float)``."""
        return f"collective {self.seq:,} ({self.label})"


@dataclass(frozen=True)
class Starved:
    """``waiting`` ranks have issued an operation that ``missing`` ranks never issued."""

    group: Group
    operation: Operation
    waiting: tuple[int, ...]
    missing: tuple[int, ...]
    last_issued: int | None


@dataclass(frozen=True)
class Lagging:
    """``behind`` ranks never finished an operation that ``ahead`` ranks finished."""

    group: Group
    operation: Operation
    behind: tuple[int, ...]
    ahead: tuple[int, ...]
    ahead_seq: int


@dataclass(frozen=True)
class Mismatch:
    """Ranks issued different operations under one sequence number. ``what`` is type, dtype or size."""

    group: Group
    seq: int
    what: str
    variants: tuple[tuple[Operation, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Stalled:
    """All members have issued an operation and none finished it.

    ``started`` are the ranks on whose GPU it runs, ``waiting`` those whose GPU has not come to it (their dump tells
    starts), ``unknown`` those whose dump does not tell starts. ``whole``: every member of the group gave a dump.
    """

    group: Group
    operation: Operation
    started: tuple[int, ...]
    waiting: tuple[int, ...]
    unknown: tuple[int, ...]
    whole: bool

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks that are in it."""
        return tuple(sorted({*self.started, *self.waiting, *self.unknown}))


@dataclass(frozen=True)
class Unpaired:
    """Sends that wait without a receive (``op`` is ``Send``), or receives without a send; ranks are of the job."""

    group: Group
    op: str
    src: int
    dst: int
    count: int
    sizes: str
    input_id: int

    @property
    def waits(self) -> int:
        """The rank that waits."""
        return self.src if self.op == "Send" else self.dst

    @property
    def missing(self) -> int:
        """The rank that never came."""
        return self.dst if self.op == "Send" else self.src


@dataclass(frozen=True)
class Verdict:
    """The whole judgement. ``suspects`` are the ranks that explain the others; ``undumped`` gave no dump.

    ``silent``: every rank of a group that gave a dump waits in the same collective for those that gave none.
    """

    starved: tuple[Starved, ...]
    lagging: tuple[Lagging, ...]
    mismatches: tuple[Mismatch, ...]
    suspects: tuple[int, ...]
    undumped: tuple[int, ...]
    silent: tuple[Starved, ...]
    stuck_groups: int
    ranks: int
    stalled: tuple[Stalled, ...] = ()
    not_entered: tuple[Stalled, ...] = ()


def verdict(run: Run) -> Verdict | None:
    """The judgement over all dumps of the run, None when there is none of a known rank."""
    return run.memo("flight_recorder.verdict", _verdict)


def _verdict(run: Run) -> Verdict | None:
    entries = _entries(run)
    if entries.is_empty():
        return None
    groups = _groups(run, entries)
    ranks = frozenset(entries["rank"].to_list()) | frozenset(_status(run)["rank"].to_list())
    progress = _progress(run, entries)
    starved: list[Starved] = []
    lagging: list[Lagging] = []
    silent: list[Starved] = []
    stalls: list[Stalled] = []
    stuck = 0
    waiting = entries.filter(~pl.col("is_p2p") & ~pl.col("done"))
    open_by_group = waiting.partition_by("key", as_dict=True, maintain_order=True)
    unnamed = _unnamed(run)
    for key, frame in progress.partition_by("key", as_dict=True, maintain_order=True).items():
        pending = open_by_group.get(key)
        if pending is not None:
            group = groups[str(key[0])]
            stuck += 1
            late = _starved(group, frame, pending, ranks, unnamed)
            slow = _lagging(group, frame, pending)
            starved += late
            lagging += slow
            if not late and not slow:
                stalls += _stalled(group, pending, ranks, _timed(entries))
            silent += _silent(group, pending, ranks)
    starved.sort(key=lambda s: s.operation.created_ns)
    silent.sort(key=lambda s: s.operation.created_ns)
    lagging.sort(key=lambda s: s.operation.created_ns)
    members = {r for g in groups.values() for r in g.members or ()}
    return Verdict(
        starved=tuple(starved),
        lagging=tuple(lagging),
        mismatches=tuple(_mismatches(entries, groups)),
        suspects=_suspects(starved, lagging),
        silent=tuple(silent),
        undumped=tuple(sorted(members - ranks)),
        stuck_groups=stuck,
        ranks=len(ranks),
        stalled=tuple(sorted((s for s in stalls if not s.waiting), key=lambda s: s.operation.created_ns)),
        not_entered=tuple(
            sorted((s for s in stalls if s.waiting and s.started), key=lambda s: s.operation.created_ns)
        ),
    )


def progress(run: Run) -> tuple[pl.DataFrame, dict[str, Group]] | None:
    """How far each rank got in each process group, and the groups by key; None without dumps of known ranks.

    Columns: ``key, rank, enqueued`` (last collective issued), ``finished`` (last one known to be finished).
    """
    entries = _entries(run)
    if entries.is_empty():
        return None
    found = _progress(run, entries).select("key", "rank", "enqueued", "finished").sort("key", "rank")
    return found, _groups(run, entries)


def unpaired(run: Run) -> tuple[Unpaired, ...]:
    """Sends without receives and receives without sends, only between ranks that both gave a dump."""
    return run.memo("flight_recorder.unpaired", _unpaired)


def _unpaired(run: Run) -> tuple[Unpaired, ...]:
    entries = _entries(run)
    if entries.is_empty() or not entries["is_p2p"].any():
        return ()
    groups = _groups(run, entries)
    wrapped = dict(entries.group_by("rank").agg(pl.col("record_id").min() > 1).iter_rows())
    rows = _with_coalesced(entries).filter(
        pl.col("op").is_in(["Send", "Recv"]) & pl.col("src").is_not_null() & pl.col("dst").is_not_null()
    )
    dumped = set(entries["rank"].to_list())
    found: list[Unpaired] = []
    for (key, src, dst), part in rows.group_by("key", "src", "dst", maintain_order=True):
        group = groups[str(key)]
        a, b = _rank_in(group, int(str(src))), _rank_in(group, int(str(dst)))
        if a == b or not {a, b} <= dumped:
            continue
        sides = {op: part.filter(pl.col("op") == op) for op in ("Send", "Recv")}
        waiting = {op: side.filter(~pl.col("done")) for op, side in sides.items()}
        cut = wrapped.get(a, True) or wrapped.get(b, True)
        for op, other in (("Send", "Recv"), ("Recv", "Send")):
            more = (
                waiting[op].height - waiting[other].height if cut else sides[op].height - sides[other].height
            )
            if waiting[op].height and more > 0 and (not cut or not waiting[other].height):
                first = waiting[op].row(0, named=True)
                sizes = str(first["input_sizes"] or "")
                found.append(
                    Unpaired(group, op, a, b, min(more, waiting[op].height), sizes, first["input_id"])
                )
    return tuple(found)


def _rank_in(group: Group, place: int) -> int:
    """The rank of the job at a place of the group."""
    members = group.members
    return members[place] if members is not None and 0 <= place < len(members) else place


def _with_coalesced(entries: pl.DataFrame) -> pl.DataFrame:
    """Entries of which those inside a coalesced operation are done when it is: they have no state of their own."""
    ordered = entries.sort("key", "rank", "record_id")
    batch = pl.col("op_name") == "coalesced"
    outcome = pl.when(batch).then(pl.col("done")).backward_fill().over("key", "rank")
    inside = ~batch & (pl.col("state") == "scheduled") & outcome.is_not_null()
    return ordered.with_columns(done=pl.when(inside).then(pl.col("done") | outcome).otherwise("done"))


def _timed(entries: pl.DataFrame) -> frozenset[int]:
    """Ranks whose dump tells when operations started (torch records that only with timing enabled)."""
    return frozenset(entries.filter(pl.col("time_started_ns").is_not_null())["rank"].to_list())


def _stalled(
    group: Group, pending: pl.DataFrame, dumped: frozenset[int], timed: frozenset[int]
) -> list[Stalled]:
    """The first open operation of a group that all its dumped ranks, at least two, have issued and not finished."""
    first = pending["collective_seq"].min()
    rows = pending.filter((pl.col("collective_seq") == first) & pl.col("op").is_in(SYNCHRONISING)).unique(
        "rank", keep="first", maintain_order=True
    )
    here = set(rows["rank"].to_list())
    members = set(group.members) if group.members is not None else here
    if len(here) < 2 or here != members & dumped:
        return []
    running = {
        r for r, s, t in rows.select("rank", "state", "time_started_ns").iter_rows() if s == "started" or t
    }
    waiting = {r for r in here - running if r in timed}
    return [
        Stalled(
            group, _operation(rows.sort("rank").row(0, named=True)), tuple(sorted(running)), tuple(sorted(waiting)),
            tuple(sorted(here - running - waiting)), members <= dumped and group.members is not None,
        )
    ]  # fmt: skip


def _key() -> pl.Expr:
    members = pl.col("group_ranks").cast(pl.List(pl.String)).list.join(",").fill_null("")
    return pl.concat_str(pl.col("process_group"), pl.col("pg_desc").fill_null(""), members, separator="\x1f")


def _entries(run: Run) -> pl.DataFrame:
    """Entries of known ranks, one dump a rank kept (a rank may be dumped as pickle and as JSON)."""
    table = run.table("flight_recorder")
    known = table.filter(pl.col("rank").is_not_null())
    first = known.group_by("rank").agg(pl.col("input_id").min().alias("_first"))
    return (
        known.join(first, on="rank")
        .filter(pl.col("input_id") == pl.col("_first"))
        .with_columns(
            _key().alias("key"), (pl.col("retired") | (pl.col("state") == "completed")).alias("done")
        )
        .drop("_first")
    )


def _status(run: Run) -> pl.DataFrame:
    return run.table("flight_recorder_groups").filter(pl.col("rank").is_not_null())


def _groups(run: Run, entries: pl.DataFrame) -> dict[str, Group]:
    found = entries.unique("key", maintain_order=True).select(
        "key", "process_group", "pg_desc", "group_ranks"
    )
    return {
        key: Group(key, name or "?", desc or "", tuple(members) if members is not None else None)
        for key, name, desc, members in found.iter_rows()
    }


def _progress(run: Run, entries: pl.DataFrame) -> pl.DataFrame:
    """Per group and rank: last collective issued (``enqueued``) and last one known to be finished (``finished``).

    The counters of ``pg_status`` mix collectives and point-to-point operations, so they are used only in groups
    without the latter.
    """
    seen = (
        entries.group_by("key", "rank", maintain_order=True)
        .agg(
            pl.col("process_group").first(),
            pl.col("is_p2p").any().alias("_p2p"),
            pl.col("collective_seq").filter(~pl.col("is_p2p")).max().alias("_last"),
            pl.col("collective_seq").filter(~pl.col("is_p2p") & ~pl.col("done")).min().alias("_open"),
        )
        .with_columns(pl.col("_p2p").any().over("key"))
        .filter(pl.col("_last").is_not_null())
    )
    counters = (
        _status(run)
        .group_by("rank", "process_group")
        .agg(pl.col("last_enqueued").max(), pl.col("last_completed").max())
    )
    seen = seen.join(counters, on=["rank", "process_group"], how="left")
    usable = ~pl.col("_p2p")
    return seen.with_columns(
        pl.max_horizontal("_last", pl.when(usable).then(pl.col("last_enqueued"))).alias("enqueued"),
        pl.coalesce(pl.col("_open") - 1, pl.col("_last")).alias("finished"),
    )


def _operation(row: dict[str, object]) -> Operation:
    def number(name: str) -> int:
        value = row.get(name)
        return value if isinstance(value, int) else 0

    return Operation(
        number("collective_seq"), str(row.get("op_name") or "?"), str(row.get("input_sizes") or ""),
        str(row.get("input_dtypes") or ""), number("time_created_ns"), number("input_id"), number("rank"),
    )  # fmt: skip


def _unnamed(run: Run) -> dict[int, int]:
    """By rank, the highest counter of groups whose id no entry ties to a name.

    A dump of unfinished operations leaves out groups in which a rank has nothing open; such a rank may have
    finished what others still show as open.
    """
    rows = _status(run).filter(pl.col("process_group").is_null() & pl.col("last_enqueued").is_not_null())
    return dict(rows.group_by("rank").agg(pl.col("last_enqueued").max()).iter_rows())


def _starved(
    group: Group, frame: pl.DataFrame, pending: pl.DataFrame, dumped: frozenset[int], unnamed: dict[int, int]
) -> list[Starved]:
    """The first operation that some ranks wait in and others of the group never issued."""
    last = dict(zip(frame["rank"].to_list(), frame["enqueued"].to_list(), strict=True))
    first_open = pending["collective_seq"].min()
    silent = [
        r
        for r in group.members or ()
        if r in dumped and r not in last and isinstance(first_open, int) and unnamed.get(r, -1) < first_open
    ]
    lowest = min([v for v in last.values() if v is not None], default=None)
    if lowest is None:
        return []
    open_ops = pending.sort("collective_seq", "time_created_ns", "rank")
    first = open_ops.head(1) if silent else open_ops.filter(pl.col("collective_seq") > lowest).head(1)
    if first.is_empty():
        return []
    operation = _operation(first.row(0, named=True))
    missing = sorted([*(r for r, seq in last.items() if seq < operation.seq), *silent])
    waiting = open_ops.filter(pl.col("collective_seq") == operation.seq)["rank"].unique().sort().to_list()
    waiting = [r for r in waiting if r not in missing]
    if not missing or not waiting:
        return []
    issued = [last[r] for r in missing if r in last]
    return [Starved(group, operation, tuple(waiting), tuple(missing), max(issued) if issued else None)]


def _silent(group: Group, pending: pl.DataFrame, dumped: frozenset[int]) -> list[Starved]:
    """A group whose dumped ranks, at least two and at least half, wait in one collective; others gave no dump."""
    members = set(group.members or ())
    here, absent = members & dumped, members - dumped
    if not absent or len(here) < 2 or len(here) * 2 < len(members):
        return []
    first = pending.sort("collective_seq", "time_created_ns", "rank").head(1)
    operation = _operation(first.row(0, named=True))
    waiting = set(pending.filter(pl.col("collective_seq") == operation.seq)["rank"].to_list())
    if waiting != here:
        return []
    return [Starved(group, operation, tuple(sorted(waiting)), tuple(sorted(absent)), None)]


def _lagging(group: Group, frame: pl.DataFrame, pending: pl.DataFrame) -> list[Lagging]:
    """A synchronising operation that some ranks finished and others, having issued it, did not."""
    finished = dict(zip(frame["rank"].to_list(), frame["finished"].to_list(), strict=True))
    ahead_seq = max(finished.values())
    behind = sorted(r for r, seq in finished.items() if seq < ahead_seq)
    if not behind:
        return []
    late = pending.filter(pl.col("rank").is_in(behind)).sort("collective_seq", "time_created_ns", "rank")
    late = late.filter((pl.col("collective_seq") <= ahead_seq) & pl.col("op").is_in(SYNCHRONISING))
    if late.is_empty():
        return []
    behind = sorted(set(late["rank"].to_list()))
    ahead = tuple(sorted(r for r, seq in finished.items() if r not in behind and seq >= ahead_seq))
    return [Lagging(group, _operation(late.row(0, named=True)), tuple(behind), ahead, ahead_seq)]


def _suspects(starved: Sequence[Starved], lagging: Sequence[Lagging]) -> tuple[int, ...]:
    """Ranks that explain the others: missing ones that do not themselves wait for a missing rank, and laggards."""
    waits_for: dict[int, set[int]] = {}
    missing = {r for s in starved for r in s.missing}
    for item in starved:
        for rank in item.waiting:
            waits_for.setdefault(rank, set()).update(item.missing)
    roots = {r for r in missing if not waits_for.get(r, set()) - {r}}
    if missing and not roots:
        roots = set(starved[0].missing)
    return tuple(sorted(roots | {r for item in lagging for r in item.behind}))


def _mismatches(entries: pl.DataFrame, groups: dict[str, Group]) -> list[Mismatch]:
    """The first difference in each group: operation, then data type, then size where sizes must agree."""
    plain = entries.filter(
        ~pl.col("is_p2p") & pl.col("collective_seq").is_not_null() & (pl.col("op_name") != "coalesced")
    )
    base = pl.col("op_name").str.ends_with("_base")
    inputs, outputs = pl.col("input_numel").list.sum(), pl.col("output_numel").list.sum()
    numel = (
        pl.when(pl.col("op").is_in(_EQUAL_INPUT) | ((pl.col("op") == "AllGather") & base))
        .then(inputs)
        .when((pl.col("op") == "ReduceScatter") & base)
        .then(outputs)
    )
    plain = plain.with_columns(numel.alias("_numel"))
    differing = (
        plain.group_by("key", "collective_seq")
        .agg(
            pl.col("rank").n_unique().alias("_ranks"),
            pl.col("op").n_unique().gt(1).alias("type"),
            pl.col("input_dtypes").drop_nulls().n_unique().gt(1).alias("data type"),
            pl.col("_numel").drop_nulls().n_unique().gt(1).alias("size"),
        )
        .filter((pl.col("_ranks") > 1) & pl.any_horizontal("type", "data type", "size"))
        .sort("key", "collective_seq")
        .unique("key", keep="first", maintain_order=True)
    )
    found = []
    for row in differing.head(_MOST_MISMATCHES).iter_rows(named=True):
        what = next(w for w in ("type", "data type", "size") if row[w])
        column = {"type": "op", "data type": "input_dtypes", "size": "_numel"}[what]
        same = plain.filter(
            (pl.col("key") == row["key"]) & (pl.col("collective_seq") == row["collective_seq"])
        )
        variants = []
        for part in same.filter(pl.col(column).is_not_null()).partition_by(column, maintain_order=True):
            ranks = tuple(sorted(set(part["rank"].to_list())))
            variants.append((_operation(part.sort("rank").row(0, named=True)), ranks))
        variants.sort(key=lambda v: (len(v[1]), v[1]))
        found.append(Mismatch(groups[row["key"]], row["collective_seq"], what, tuple(variants)))
    return sorted(found, key=lambda m: min(v[0].created_ns for v in m.variants))
