"""Pairs of ranks, and nodes, whose transfers are slower than those of others like them."""

import statistics
from collections.abc import Iterator, Mapping
from typing import Final

import polars as pl

from nccl_insight.base.model import Hit, Ref
from nccl_insight.base.units import format_bytes, format_gbps, format_ranks
from nccl_insight.rules._traces import nodes_of_ranks, trace_refs, with_hosts
from nccl_insight.rules.context import says
from nccl_insight.tables.run import Run

LEAST_PER_GROUP: Final = 5
_PAIR_SHARE: Final = 0.5
_MOST_PAIRS: Final = 3
_LEAST_EXTRA_PAIR_NS: Final = 20_000


def against_others(medians: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Adds ``peers`` (rows with the same keys) and ``usual``, the median of the others'."""
    if medians.is_empty():
        return medians.with_columns(peers=pl.lit(0, pl.UInt32), usual=pl.lit(None, pl.Float64))
    parts = []
    for part in medians.partition_by(keys, maintain_order=True):
        values = part["busbw"].to_list()
        others = [
            statistics.median(values[:i] + values[i + 1 :]) if len(values) > 1 else None for i in range(len(values))
        ]
        parts.append(part.with_columns(peers=pl.len(), usual=pl.Series(others, dtype=pl.Float64)))
    return pl.concat(parts)


def slow_node(run: Run, medians: pl.DataFrame, slow: pl.DataFrame, next_step: str) -> Hit | None:
    """The one node whose process groups across nodes are slow, all of them and no others; None without one.

    ``medians`` and ``slow``: all groups and the slow ones, with ``ranks, op, size_bytes, busbw``; ``slow`` also with
    ``usual, input_id``.
    """
    node = nodes_of_ranks(run)

    def nodes(ranks: list[int]) -> frozenset[str]:
        return frozenset(node[r] for r in ranks if r in node)

    every = {tuple(ranks): nodes(ranks) for ranks in medians["ranks"].to_list()}
    across = {ranks: where for ranks, where in every.items() if len(where) > 1}
    late = {tuple(ranks) for ranks in slow["ranks"].to_list()}
    if len(late) < 2 or not late <= set(across) or len(across) - len(late) < 2:
        return None
    shared = frozenset.intersection(*(across[ranks] for ranks in late))
    names = [n for n in sorted(shared) if all(ranks in late for ranks, where in across.items() if n in where)]
    if len(names) != 1:
        return None
    name = names[0]
    own = tuple(sorted({r for ranks in late for r in ranks if node.get(r) == name}))
    return says(
        "busbw-outlier.slow-node",
        trace_refs(
            (i, f"{op} of {format_bytes(s)} on ranks {format_ranks(r)}: {format_gbps(b)}")
            for i, op, s, r, b in slow.select("input_id", "op", "size_bytes", "ranks", "busbw").iter_rows()
        ),
        whom=with_hosts(run, own),
        next_step=next_step,
        late=late,
        name=name,
        own=own,
        worst=slow.row(0, named=True),
        n_others=len(across) - len(late),
    )


def slow_pairs(run: Run, rows: pl.DataFrame, next_step: str) -> Iterator[Hit]:
    """Nodes first, then pairs of ranks by direction against the pairs that cross nodes, or stay in one, as they do.

    ``rows`` are those of :func:`nccl_insight.facts.wire.transfers`.
    """
    sends = rows.filter(pl.col("src").is_not_null() & pl.col("size_bytes").is_not_null())
    if sends.is_empty():
        return
    node = nodes_of_ranks(run)
    crosses = [node.get(a) != node.get(b) for a, b in sends.select("src", "dst").iter_rows()]
    keys = ["size_bytes", "dtype", "crosses"]
    medians = (
        sends.with_columns(crosses=pl.Series(crosses, dtype=pl.Boolean), busbw=pl.col("size_bytes") / pl.col("wire_ns"))
        .group_by(*keys, "src", "dst", maintain_order=True)
        .agg(pl.col("busbw", "wire_ns").median(), count=pl.len(), input_id=pl.col("input_id").first())
        .filter(pl.col("count") >= LEAST_PER_GROUP)
    )
    medians, hits = _slow_nodes(run, medians, node, next_step)
    yield from hits
    slow = (
        against_others(medians, keys)
        .filter(
            (pl.col("peers") >= 3)
            & (pl.col("busbw") < _PAIR_SHARE * pl.col("usual"))
            & (pl.col("wire_ns") * (1 - pl.col("busbw") / pl.col("usual")) >= _LEAST_EXTRA_PAIR_NS)
        )
        .sort("size_bytes", "busbw", descending=[True, False])
        .unique(["src", "dst"], keep="first", maintain_order=True)
    )
    if slow.height > _MOST_PAIRS:
        yield _many_pairs(run, slow, next_step)
        return
    for row in slow.iter_rows(named=True):
        ranks = tuple(sorted((row["src"], row["dst"])))
        yield says(
            "busbw-outlier.slow-pairs",
            trace_refs([(row["input_id"], f"median of {row['count']} transfers")]),
            whom=with_hosts(run, ranks),
            next_step=next_step,
            row=row,
            n_others=row["peers"] - 1,
        )


def _slow_nodes(
    run: Run, medians: pl.DataFrame, node: Mapping[int, str], next_step: str
) -> tuple[pl.DataFrame, list[Hit]]:
    """Nodes all of whose pairs with several other nodes are slow, and the pairs without them.

    Compared by the slowest pair without the node, so a slow link between two other nodes blames nobody here.
    """
    hits: list[Hit] = []
    rows = medians.filter("crosses").with_columns(
        pl.col(end).replace_strict(dict(node), default=None, return_dtype=pl.String).alias(f"{end}_node")
        for end in ("src", "dst")
    )
    rows = rows.drop_nulls(["src_node", "dst_node"])
    for part in rows.partition_by("size_bytes", "dtype", maintain_order=True):
        for name in sorted({*part["src_node"], *part["dst_node"]}):
            here = (pl.col("src_node") == name) | (pl.col("dst_node") == name)
            own, others = part.filter(here), part.filter(~here)
            far = {*own["src_node"], *own["dst_node"]} - {name}
            if len(far) < 2 or others.height < 2:
                continue
            best, usual = float(own["busbw"].max()), float(others["busbw"].min())  # type: ignore[arg-type]
            extra = float(own["wire_ns"].median()) * (1 - best / usual)  # type: ignore[arg-type]
            if best >= _PAIR_SHARE * usual or extra < _LEAST_EXTRA_PAIR_NS:
                continue
            ends = own.select(rank=pl.when(pl.col("src_node") == name).then("src").otherwise("dst").unique().sort())
            ranks = tuple(ends["rank"].to_list())
            hits.append(
                says(
                    "busbw-outlier.slow-nodes",
                    _pair_refs(own),
                    whom=with_hosts(run, ranks),
                    next_step=next_step,
                    name=name,
                    best=best,
                    usual=usual,
                )
            )
            medians = medians.filter(~(pl.col("src").is_in(ranks) | pl.col("dst").is_in(ranks)))
    return medians, hits


def _many_pairs(run: Run, slow: pl.DataFrame, next_step: str) -> Hit:
    """Several slow pairs as one finding; a rank that is in all of them is named alone."""
    ends = [{a, b} for a, b in slow.select("src", "dst").iter_rows()]
    common = set.intersection(*ends)
    ranks = tuple(sorted(common or set.union(*ends)))
    who = f"all with rank {format_ranks(ranks)}" if common else f"among ranks {format_ranks(ranks)}"
    return says(
        "busbw-outlier.many-pairs",
        _pair_refs(slow),
        whom=with_hosts(run, ranks),
        next_step=next_step,
        slow=slow,
        who=who,
        worst=slow.sort("busbw").row(0, named=True),
    )


def _pair_refs(pairs: pl.DataFrame) -> tuple[Ref, ...]:
    """``3 -> 5: 12.0 GB/s`` of each pair, with its trace."""
    rows = pairs.select("input_id", "src", "dst", "busbw").iter_rows()
    return trace_refs((i, f"{src} -> {dst}: {format_gbps(busbw)}") for i, src, dst, busbw in rows)
