"""A fact of every rank against the majority of its communicator."""

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Ref
from nccl_insight.base.units import rank_words
from nccl_insight.facts.setup.settings import named

_EVIDENCE: Final = 3


@dataclass(frozen=True)
class Outlier:
    """Ranks of one communicator that differ from its majority in one fact.

    ``whole_hosts`` are hosts of which every known rank differs in the same way; they are named first. ``lines``: of the
    ranks that differ; ``usual_lines``: of the majority.
    """

    comm_id: str | None
    value: str
    majority: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    whole_hosts: tuple[str, ...]
    majority_ranks: int
    lines: tuple[Ref, ...]
    usual_lines: tuple[Ref, ...]

    @property
    def who(self) -> str:
        """``gpu02`` where all ranks of a host differ, else ``ranks 3 and 4``."""
        return named(self.whole_hosts) if self.whole_hosts else rank_words(self.ranks)

    @property
    def evidence(self) -> tuple[Ref, ...]:
        """Two lines of the ranks that differ, and those of the majority."""
        return (*self.lines[:2], *self.usual_lines)


def outliers(frame: pl.DataFrame, value: str) -> tuple[Outlier, ...]:
    """Minority values of a fact, one entry for each (communicator, value).

    ``frame`` has ``comm_id, rank, host, input_id, line`` and the fact's column; nulls are unknown and not
    compared. On a tie the value of the lowest rank counts as the majority. Linear in the rows.
    """
    values = frame[value]
    if values.n_unique() - values.has_nulls() < 2:
        return ()
    known = frame.filter(pl.col(value).is_not_null() & pl.col("rank").is_not_null()).with_columns(
        pl.col(value).cast(pl.String)
    )
    if known.is_empty():
        return ()
    votes = (
        known.group_by("comm_id", value, maintain_order=True)
        .agg(
            pl.len().alias("votes"),
            pl.col("rank").min().alias("lowest"),
            pl.col("input_id", "line").first().name.prefix("usual_"),
        )
        .sort("comm_id", "votes", "lowest", descending=[False, True, False], nulls_last=True)
    )
    majority = votes.group_by("comm_id", maintain_order=True).agg(
        pl.col(value).first().alias("majority"),
        pl.col("votes").first().alias("majority_ranks"),
        pl.col("usual_input_id", "usual_line").first(),
    )
    compared = known.join(majority, on="comm_id", how="left", nulls_equal=True, maintain_order="left")
    differ = compared.filter(pl.col(value) != pl.col("majority"))
    if differ.is_empty():
        return ()
    return tuple(_described(known, differ, value))


def _described(known: pl.DataFrame, differ: pl.DataFrame, value: str) -> Iterator[Outlier]:
    """The rows that differ, by communicator and value; all groups at once, as there can be one for each rank."""
    keys = ["comm_id", value]
    sizes = known.group_by("comm_id", "host").agg(pl.len().alias("on_host"))
    whole = (
        differ.filter(pl.col("host").is_not_null())
        .group_by(*keys, "host")
        .agg(odd=pl.len())
        .join(sizes, on=["comm_id", "host"], how="left", nulls_equal=True)
        .filter(pl.col("odd") == pl.col("on_host"))
        .group_by(keys)
        .agg(_whole=pl.col("host").sort())
    )
    lines = (
        differ.select(*keys, "input_id", "line")
        .drop_nulls(["input_id", "line"])
        .unique(maintain_order=True)
        .group_by(keys, maintain_order=True)
        .agg(pl.col("input_id", "line").head(_EVIDENCE).name.prefix("_"))
    )
    groups = differ.group_by(keys, maintain_order=True).agg(
        pl.col("rank", "host").drop_nulls().unique().sort(),
        pl.col("majority", "majority_ranks", "usual_input_id", "usual_line").first(),
    )
    for more in (whole, lines):
        groups = groups.join(more, on=keys, how="left", nulls_equal=True, maintain_order="left")
    for row in groups.iter_rows(named=True):
        yield Outlier(
            comm_id=None if row["comm_id"] is None else str(row["comm_id"]),
            value=str(row[value]),
            majority=str(row["majority"]),
            ranks=tuple(row["rank"]),
            hosts=tuple(row["host"]),
            whole_hosts=tuple(row["_whole"] or ()),
            majority_ranks=int(row["majority_ranks"]),
            lines=_refs(row["_input_id"] or (), row["_line"] or ()),
            usual_lines=_refs([row["usual_input_id"]], [row["usual_line"]]),
        )


def _refs(inputs: Sequence[int | None], lines: Sequence[int | None]) -> tuple[Ref, ...]:
    placed = zip(inputs, lines, strict=True)
    return tuple(Ref(i, n) for i, n in placed if i is not None and n is not None)
