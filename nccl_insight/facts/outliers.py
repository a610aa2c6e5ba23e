"""A fact of every rank against the majority of its communicator."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from nccl_insight.facts.settings import refs
from nccl_insight.model import Ref


@dataclass(frozen=True)
class Outlier:
    """Ranks of one communicator that differ from its majority in one fact.

    ``whole_hosts`` are hosts of which every known rank differs in the same way; they are named first.
    """

    comm_id: str | None
    value: str
    majority: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    whole_hosts: tuple[str, ...]
    majority_ranks: int
    evidence: tuple[Ref, ...]
    majority_evidence: tuple[Ref, ...]


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
    sizes = known.group_by("comm_id", "host").agg(pl.len().alias("on_host"))
    found: list[Outlier] = []
    for (comm_id, odd), rows in differ.group_by("comm_id", value, maintain_order=True):
        per_host = rows.group_by("comm_id", "host").agg(pl.len().alias("odd"))
        whole = per_host.join(sizes, on=["comm_id", "host"], how="left", nulls_equal=True).filter(
            (pl.col("odd") == pl.col("on_host")) & pl.col("host").is_not_null()
        )
        found.append(
            Outlier(
                comm_id=None if comm_id is None else str(comm_id),
                value=str(odd),
                majority=str(rows.item(0, "majority")),
                ranks=tuple(sorted(rows.get_column("rank").drop_nulls().unique().to_list())),
                hosts=tuple(sorted(rows.get_column("host").drop_nulls().unique().to_list())),
                whole_hosts=tuple(sorted(whole.get_column("host").to_list())),
                majority_ranks=int(rows.item(0, "majority_ranks")),
                evidence=refs(rows),
                majority_evidence=refs(
                    rows.head(1).select(
                        pl.col("usual_input_id").alias("input_id"), pl.col("usual_line").alias("line")
                    )
                ),
            )
        )
    return tuple(found)
