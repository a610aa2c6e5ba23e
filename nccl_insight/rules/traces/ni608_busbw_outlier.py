"""Some transfers are clearly slower than others of the same operation and size."""

import polars as pl

from nccl_insight.base.units import format_bytes, format_ns, rank_words
from nccl_insight.facts.lateness.replay import TRANSFERS, WIRE
from nccl_insight.facts.lateness.wire import transfers
from nccl_insight.rules._gains import mended, replayed, slow_steps_hit, wire_hit
from nccl_insight.rules._late_reason import Why
from nccl_insight.rules._traces import nodes_of_ranks, trace_refs, with_hosts
from nccl_insight.rules.context import Context, Hits

_ALIKE = ("AllReduce", "AllGather", "ReduceScatter")
_SOURCES = ("kernel", "inspector", "nccl_tests")
_OPERATION_SHARE = 0.4
_LEAST_PER_GROUP = 5
_GROUP_SHARE = 0.7
_OF_TWO_SHARE = 0.6
_PAIR_SHARE = 0.5
_LEAST_PAIR_NS = 20_000
_FEW = 3
_SIMILAR = 4
_BESIDE = 0.5
_BESIDE_SHARE = 0.6
_LARGE_BYTES = 8 << 20
_SLOW_FACTOR = 2.0
_LEAST_EXTRA_NS = 100_000
_LEAST = 20
_OCCASIONS = 0.05
_COST = 0.01
_UNEQUAL = 1.1
_CONGESTED = "look for other traffic on the same links at these times (congestion counters, other jobs)"


def check(ctx: Context) -> Hits:
    """Groups, pairs and steps whose mending gains; else operations, then occasions."""
    run = ctx.run
    rows = transfers(run).filter(
        pl.col("source").is_in(_SOURCES)
        # a benchmark's times are those of all its processes together
        & ((pl.col("matched") & pl.col("complete")) | (pl.col("source") == "nccl_tests"))
        & (pl.col("wire_ns") > 0)
    )
    if rows.is_empty():
        return
    mends = [wire_hit(run, one) for one in mended(run, WIRE)] + [
        slow_steps_hit(run, one, "Transfers are slow", Why(), _CONGESTED)
        for one in mended(run, {"step"})
        if one.scenario.cause == TRANSFERS
    ]
    # Records without a start (NCCL Inspector) cannot be replayed.
    apart = mends if replayed(run) else [*_unlike_others(ctx, rows)]
    yield from apart or [*_operations(ctx, rows)] or _occasions(ctx, rows)


def _unlike_others(ctx: Context, rows: pl.DataFrame) -> Hits:
    """Groups, and pairs by direction, far below the median of the others like them.

    Alike are groups of one operation and layout, and pairs that cross nodes, or stay in one, as they do. Of more than
    a few slow ones the worst is told, with the ranks that all of them have.
    """
    node, pair = nodes_of_ranks(ctx.run), pl.col("src").is_not_null()
    layout = pl.col("ranks").list.diff(null_behavior="drop").cast(pl.List(pl.String)).list.join(",")
    apart = [None if a is None else str(node.get(a) != node.get(b)) for a, b in rows.select("src", "dst").iter_rows()]
    rate = pl.when(pair).then(pl.col("size_bytes") / pl.col("wire_ns")).otherwise(pl.col("busbw_gbps"))
    keys = ["like", "size_bytes", "dtype"]
    who = pl.when(pair).then(pl.concat_list("src", "dst")).otherwise(pl.col("ranks"))
    like = pl.coalesce(pl.Series(apart, dtype=pl.String), pl.concat_str("op", layout, separator=" "))
    medians = (
        rows.with_columns(pair=pair, rate=rate, who=who, like=like)
        .drop_nulls(["rate", "size_bytes"])
        .group_by("pair", *keys, "who", maintain_order=True)
        .agg(pl.col("rate", "wire_ns").median(), pl.col("op", "input_id").first(), count=pl.len())
        .filter(pl.col("count") >= _LEAST_PER_GROUP)
        .with_columns(peers=pl.len().over(keys))
        .filter(pl.col("peers") >= pl.when("pair").then(3).otherwise(2))
    )
    others = medians.join(medians.select(*keys, "rate", other="who"), on=keys, nulls_equal=True, suffix="_other")
    others = others.filter(pl.col("who") != pl.col("other")).group_by(*keys, "who").agg(pl.col("rate_other").median())
    found = medians.join(others, on=[*keys, "who"], nulls_equal=True).with_columns(usual=pl.col("rate_other"))
    share = pl.when("pair").then(_PAIR_SHARE).when(pl.col("peers") == 2).then(_OF_TWO_SHARE).otherwise(_GROUP_SHARE)
    extra = pl.col("wire_ns") * (1 - pl.col("rate") / pl.col("usual"))
    slow = found.filter((pl.col("rate") < share * pl.col("usual")) & (~pl.col("pair") | (extra >= _LEAST_PAIR_NS)))
    slow = slow.sort("size_bytes", "rate", descending=[True, False]).unique("who", keep="first", maintain_order=True)
    sets = [set(who) for who in slow["who"]]
    many = slow.height > _FEW
    for row in slow.head(1 if many else _FEW).iter_rows(named=True):
        common = set.intersection(*sets) or set.union(*sets)
        ranks = tuple(sorted(common if many else row["who"]))
        refs = trace_refs([(row["input_id"], f"median of {row['count']} {row['op']}")])
        whom, owner, rest = with_hosts(ctx.run, ranks), row["who"], row["peers"] - 1
        yield ctx.says("unlike", refs, whom=whom, row=row, many=many, who=owner, slow=slow, own=ranks, n_others=rest)


def _operations(ctx: Context, rows: pl.DataFrame) -> Hits:
    """One operation far below another of similar size on the same ranks."""
    kinds = (
        rows.filter(
            pl.col("op").is_in(_ALIKE) & pl.col("busbw_gbps").is_not_null() & (pl.col("size_bytes") >= _LARGE_BYTES)
        )
        .group_by("ranks", "op", "size_bytes", maintain_order=True)
        .agg(
            busbw=pl.col("busbw_gbps").median(),
            count=pl.len(),
            input_id=pl.col("input_id").first(),
            beside=pl.col("beside").median().fill_null(0.0),
        )
        .filter(pl.col("count") >= _LEAST_PER_GROUP)
    )
    for part in kinds.partition_by("ranks", maintain_order=True):
        best = part.sort("busbw", descending=True).unique("op", keep="first", maintain_order=True)
        top, *others = best.iter_rows(named=True)
        for row in others:
            near = row["size_bytes"] * _SIMILAR >= top["size_bytes"]
            hidden = row["beside"] - top["beside"] >= _BESIDE
            share = _BESIDE_SHARE * _OPERATION_SHARE if hidden else _OPERATION_SHARE
            if not near or row["busbw"] >= share * top["busbw"]:
                continue
            ranks = tuple(row["ranks"])
            yield ctx.says(
                "operations",
                trace_refs([(row["input_id"], f"median of {row['count']} {row['op']}")]),
                whom=with_hosts(ctx.run, ranks),
                row=row,
                top=top,
            )


def _occasions(ctx: Context, rows: pl.DataFrame) -> Hits:
    """Single collectives that took far longer than the median of their kind.

    An exchange of unequal parts takes as long as the largest of them: its own size says nothing.
    """
    keys = ["op", "size_bytes", "dtype", "ranks", "hidden"]
    alike = pl.col("unequal").fill_null(1.0) < _UNEQUAL
    rows = rows.filter(pl.col("src").is_null() & alike).with_columns(
        hidden=(pl.col("beside") >= _BESIDE).fill_null(False)
    )
    span = rows.select(pl.col("start_ns").max() - pl.col("start_ns").min()).item()
    if span is None:  # NCCL Inspector writes no start: the time in collectives stands for it
        span = rows.group_by("ranks").agg((pl.col("wire_ns") + pl.col("waited").fill_null(0)).sum())["wire_ns"].max()
    # Without sizes, different messages would be compared with each other.
    marked = (
        rows.filter(pl.col("size_bytes").is_not_null())
        .with_columns(usual=pl.col("wire_ns").median().over(keys), count=pl.len().over(keys))
        .filter(pl.col("count") >= _LEAST)
    )
    slow = marked.filter(
        (pl.col("wire_ns") > _SLOW_FACTOR * pl.col("usual")) & (pl.col("wire_ns") - pl.col("usual") >= _LEAST_EXTRA_NS)
    )
    if slow.is_empty():
        return
    cost = int(slow.select((pl.col("wire_ns") - pl.col("usual")).sum()).item())
    if slow.height < _OCCASIONS * marked.height or not span or cost < _COST * span:
        return
    counts = {"slow": pl.len(), "count": pl.col("count").first()}
    times = {"wire": pl.col("wire_ns").median(), "usual": pl.col("usual").first()}
    kinds = slow.group_by(keys, maintain_order=True).agg(**counts, **times, input_id=pl.col("input_id").first())
    kinds = kinds.sort("slow", descending=True)
    worst = kinds.row(0, named=True)
    yield ctx.says(
        "occasions",
        trace_refs(
            (i, f"{op}{on}: {n} of {c} slow, {format_ns(w)} against {format_ns(u)}")
            for op, _, _, r, _, n, c, w, u, i in kinds.iter_rows()
            for on in [f" on {rank_words(r)}" if any(rank is not None for rank in r) else ""]
        ),
        next_step=_CONGESTED,
        worst=worst,
        size=format_bytes(worst["size_bytes"]),
        cost=cost,
        span=span,
    )
