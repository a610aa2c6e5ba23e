"""Sends and receives that have no other side."""

from collections.abc import Mapping

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.facts.progress.flight_recorder.entries import Group, entries_of, groups_of, timed_ranks
from nccl_insight.tables.run import Run, fact


@dataclass(frozen=True)
class Unpaired:
    """Sends that wait without a receive (``op`` is ``Send``), or receives without a send; ranks are of the job.

    ``met``: the other side came as well, and neither is done.
    """

    group: Group
    op: str
    src: int
    dst: int
    count: int
    sizes: str
    input_id: int
    met: bool = False

    @property
    def waits(self) -> int:
        """The rank that waits."""
        return self.src if self.op == "Send" else self.dst

    @property
    def missing(self) -> int:
        """The rank that never came."""
        return self.dst if self.op == "Send" else self.src


def unpaired(run: Run) -> tuple[Unpaired, ...]:
    """Sends without receives and receives without sends, where the rank that waits gave a dump."""
    return tuple(p for p in _pairs(run) if not p.met)


def stuck(run: Run) -> tuple[Unpaired, ...]:
    """The transfers that both ranks have begun and neither has finished, the send of each."""
    return tuple(p for p in _pairs(run) if p.met)


@fact
def _pairs(run: Run) -> tuple[Unpaired, ...]:
    entries = entries_of(run)
    if entries.is_empty() or not entries["is_p2p"].any():
        return ()
    groups = groups_of(entries)
    wrapped = dict(entries.group_by("rank").agg(pl.col("record_id").min() > 1).iter_rows())
    rows = _with_behind(_with_coalesced(entries), groups).filter(
        pl.col("op").is_in(["Send", "Recv"]) & pl.col("src").is_not_null() & pl.col("dst").is_not_null()
    )
    dumped = set(entries["rank"].to_list())
    found: list[Unpaired] = []
    for (key, src, dst), part in rows.group_by("key", "src", "dst", maintain_order=True):
        group = groups[str(key)]
        a, b = _rank_in(group, int(str(src))), _rank_in(group, int(str(dst)))
        if a == b or not {a, b} & dumped:
            continue
        sides = {op: part.filter(pl.col("op") == op) for op in ("Send", "Recv")}
        waiting = {op: side.filter(~pl.col("done") & ~pl.col("_behind")) for op, side in sides.items()}
        cut = wrapped.get(a, True) or wrapped.get(b, True)
        for op, other in (("Send", "Recv"), ("Recv", "Send")):
            more = waiting[op].height - waiting[other].height if cut else sides[op].height - sides[other].height
            # What both have begun they are in together.
            met = all((side["state"] == "started").any() for side in waiting.values())
            alone = more > 0 and (not cut or not waiting[other].height)
            if waiting[op].height and (op == "Send" if met else alone):
                first = waiting[op].row(0, named=True)
                sizes, count = str(first["input_sizes"] or ""), min(more, waiting[op].height)
                found.append(Unpaired(group, op, a, b, count, sizes, first["input_id"], met))
    return tuple(found)


def in_transfer(run: Run) -> frozenset[int]:
    """The ranks with a send or receive that is not finished."""
    entries = entries_of(run)
    if entries.is_empty() or not entries["is_p2p"].any():
        return frozenset()
    return frozenset(_with_coalesced(entries).filter(pl.col("is_p2p") & ~pl.col("done"))["rank"].to_list())


def _rank_in(group: Group, place: int) -> int:
    """The rank of the job at a place of the group."""
    members = group.members
    return members[place] if members is not None and 0 <= place < len(members) else place


def _with_behind(entries: pl.DataFrame, groups: Mapping[str, Group]) -> pl.DataFrame:
    """``_behind``: not begun, while an earlier one of the rank in another group has begun and is not done.

    Where a rank records no times, a collective has begun that every member of its group has enqueued.
    """
    sizes = {key: len(group.members) for key, group in groups.items() if group.members is not None}
    size = pl.col("key").cast(pl.String).replace_strict(sizes, default=None, return_dtype=pl.Int64)
    at, collectives = ["key", "collective_seq"], entries.filter(~pl.col("is_p2p"))
    untimed = collectives.filter(~pl.col("done") & ~pl.col("rank").is_in(list(timed_ranks(entries))))
    alike = collectives.join(untimed.select(at).unique(), on=at, how="semi")
    all_came = alike.group_by(at).agg(pl.col("rank").n_unique()).filter(pl.col("rank") == size)
    begun = entries.filter(~pl.col("done") & (pl.col("state") == "started"))
    begun = pl.concat([begun, untimed.join(all_came, on=at, how="semi")]).sort("record_id")
    first = begun.group_by("rank").agg(_at=pl.col("record_id").first(), _in=pl.col("key").first())
    behind = (pl.col("state") == "scheduled") & (pl.col("record_id") > pl.col("_at")) & (pl.col("key") != pl.col("_in"))
    return entries.join(first, on="rank", how="left").with_columns(_behind=behind.fill_null(False)).drop("_at", "_in")


def _with_coalesced(entries: pl.DataFrame) -> pl.DataFrame:
    """Entries of which those inside a coalesced operation are done when it is: they have no state of their own."""
    ordered = entries.sort("key", "rank", "record_id")
    batch = pl.col("op_name") == "coalesced"
    outcome = pl.when(batch).then(pl.col("done")).backward_fill().over("key", "rank")
    inside = ~batch & (pl.col("state") == "scheduled") & outcome.is_not_null()
    return ordered.with_columns(done=pl.when(inside).then(pl.col("done") | outcome).otherwise("done"))
