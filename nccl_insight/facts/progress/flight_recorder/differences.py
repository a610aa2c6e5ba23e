"""Ranks that issued different operations under one sequence number."""

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.facts.progress.flight_recorder.entries import Group

_EQUAL_INPUT = ("AllReduce", "Reduce", "Broadcast")
_MOST_MISMATCHES = 20


@dataclass(frozen=True)
class Mismatch:
    """Ranks issued different operations under one sequence number. ``what`` is type, dtype or size.

    ``variants``: operation, the input that tells it, and its ranks.
    """

    group: Group
    seq: int
    what: str
    variants: tuple[tuple[str, int, tuple[int, ...]], ...]
    created_ns: int


def mismatches_of(entries: pl.DataFrame, groups: dict[str, Group]) -> list[Mismatch]:
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
            size=pl.col("_numel").drop_nulls().n_unique().gt(1),
        )
        .filter((pl.col("_ranks") > 1) & pl.any_horizontal("type", "data type", "size"))
        .sort("key", "collective_seq")
        .unique("key", keep="first", maintain_order=True)
    )
    found = []
    for row in differing.head(_MOST_MISMATCHES).iter_rows(named=True):
        what = next(w for w in ("type", "data type", "size") if row[w])
        column = {"type": "op", "data type": "input_dtypes", "size": "_numel"}[what]
        same = plain.filter((pl.col("key") == row["key"]) & (pl.col("collective_seq") == row["collective_seq"]))
        variants = []
        for part in same.filter(pl.col(column).is_not_null()).partition_by(column, maintain_order=True):
            ranks = tuple(sorted(set(part["rank"].to_list())))
            first = part.sort("rank").row(0, named=True)
            variants.append((str(first["label"]), int(first["input_id"]), ranks))
        variants.sort(key=lambda v: (len(v[2]), v[2]))
        created = same["time_created_ns"].drop_nulls().min()
        began = int(created) if isinstance(created, int) else 0
        found.append(Mismatch(groups[row["key"]], row["collective_seq"], what, tuple(variants), began))
    return sorted(found, key=lambda m: m.created_ns)
