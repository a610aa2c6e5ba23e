"""Where each rank stands in its collectives, from the lines of torch's watchdog: who waits, and who did not come.

The numbers count the operations of a process group, alike on all its ranks. A rank that times out in operation n
issued it and waits; one whose last issued operation is below n never came to it. The oldest unfinished operation
of the group decides, so a gap of one is enough."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import polars as pl

from nccl_insight.base.model import Ref
from nccl_insight.facts.clock import with_time
from nccl_insight.facts.identity import identities
from nccl_insight.tables.run import Run, fact

DEFAULT: Final = "default"


@fact
def states(run: Run) -> pl.DataFrame:
    """The table ``watchdog`` with ``time_s``: one row per rank and process group that torch's watchdog reports."""
    return with_time(run, run.table("watchdog"), "timestamp")


@dataclass(frozen=True)
class Odd:
    """Ranks of the job that time out in the operation number of all others, and in another operation or size."""

    group: str
    seq: int
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    called: str
    usual: str
    first_s: float | None
    evidence: tuple[Ref, ...]


# Operations that every rank of a group issues, and those of them in which all pass as many elements.
_OF_ALL: Final = ("ALLREDUCE", "BROADCAST", "REDUCE", "ALLGATHER", "_ALLGATHER_BASE", "REDUCE_SCATTER",
                  "_REDUCE_SCATTER_BASE", "ALLTOALL", "ALLTOALL_BASE", "BARRIER")  # fmt: skip
_ONE_SIZE: Final = ("ALLREDUCE", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE")


@fact
def odd_calls(run: Run) -> tuple[Odd, ...]:
    """In each named process group whose ranks all wait in one number, the few whose operation differs."""
    return tuple(_odd_calls(run))


def _odd_calls(run: Run) -> Iterator[Odd]:
    size = pl.col("numel").cast(pl.String)
    sized = pl.when(pl.col("op").is_in(list(_ONE_SIZE)) & size.is_not_null()).then(
        pl.format("{} of {} elements", "op", size)
    )
    rows = states(run).filter(pl.col("timed_out_seq").is_not_null() & (pl.col("group") != "?"))
    for part in rows.partition_by("group", maintain_order=True):
        known = part["op"].null_count() == 0 and bool(part["op"].is_in(list(_OF_ALL)).all())
        world = str(part["group"][0]) == DEFAULT or part["global_rank"].null_count() == 0
        if part.height < 3 or part["timed_out_seq"].n_unique() > 1 or not known or not world:
            continue
        calls = part.with_columns(call=pl.coalesce(sized, "op"))
        counted = calls.group_by("call").len().sort("len", "call", descending=True)
        if counted.height != 2 or counted["len"][1] * 2 >= part.height:
            continue
        usual, called = counted["call"].to_list()
        late = calls.filter(pl.col("call") == called)
        ranks = numbers(late, world)
        began = part["time_s"].drop_nulls()
        yield Odd(
            str(part["group"][0]), int(part["timed_out_seq"][0]), ranks, identities(run).hosts(ranks), str(called),
            str(usual), float(began.min()) if began.len() else None,  # type: ignore[arg-type]
            (*refs(late, 2), *refs(calls.filter(pl.col("call") == usual), 2)),
        )  # fmt: skip


def refs(rows: pl.DataFrame, count: int) -> tuple[Ref, ...]:
    return tuple(Ref(int(i), int(n)) for i, n in rows.select("input_id", "line").head(count).iter_rows())


def numbers(rows: pl.DataFrame, world: bool) -> tuple[int, ...]:
    column = pl.coalesce("global_rank", "rank") if world else pl.coalesce("rank", "global_rank")
    return tuple(sorted(rows.select(column.alias("r"))["r"].drop_nulls().unique().to_list()))
