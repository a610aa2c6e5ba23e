"""Large collectives reach much less bus bandwidth than their links allow."""

from collections import Counter
from typing import Any, Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Hit
from nccl_insight.base.units import format_bytes, format_gbps, format_ns, rank_words
from nccl_insight.facts.lateness.wire import transfers
from nccl_insight.rules._links import expected_busbw, traced_efficiency, transport_text
from nccl_insight.rules._traces import trace_refs, with_hosts
from nccl_insight.rules.context import Context, Hits

_SHOWN: Final = 3
_BESIDE_SHARE = 0.6
"""Of the limit, where compute runs beside all transfers and takes SMs and memory bandwidth from them."""
_OPS = ("AllReduce", "AllGather", "ReduceScatter")


def check(ctx: Context) -> Hits:
    """One finding for each operation and kind of group, told by the best size of its best group."""
    run = ctx.run
    least_bytes = ctx["least_bytes"]
    rows = transfers(run).filter(
        pl.col("op").cast(pl.String).is_in(_OPS)
        & (pl.col("size_bytes") >= least_bytes)
        & pl.col("busbw_gbps").is_not_null()
        & pl.col("source").is_in(["kernel", "inspector"])
    )
    table = traced_efficiency(run).filter(pl.col("op").is_in(_OPS) & (pl.col("size_bytes") >= least_bytes))
    if rows.is_empty() and table.is_empty():
        return
    partial = rows.filter(~pl.col("complete"))
    if partial.height:
        yield ctx.cannot("untold", partial=partial)
    unknown: set[tuple[int, ...]] = set()
    slow: dict[tuple[str, int, str], list[_Slow]] = {}
    alike: Counter[tuple[str, int]] = Counter()
    for part in table.partition_by("members", "n", "op", maintain_order=True):
        members, n = tuple(part["members"][0].to_list()), int(part["n"][0])
        wanted = expected_busbw(run, members, n)
        if wanted is not None:
            part = part.with_columns(
                pl.col("expected_gbps").fill_null(wanted.gbps), pl.col("expected_from").fill_null(wanted.why)
            )
        if part["expected_gbps"].null_count() == part.height:
            unknown.add(members)
            continue
        alike[str(part["op"][0]), n] += 1
        found = _judge(ctx, part, members, n)
        if found is not None:
            # Groups of one size and with equal links are slow for one reason.
            key = (str(found.best["op"]), n, format_gbps(found.best["expected_gbps"]))
            slow.setdefault(key, []).append(found)
    for (op, n, _), groups in slow.items():
        yield _hit(ctx, groups, alike[op, n])
    if unknown:
        yield ctx.cannot("untold-links-unknown", unknown=unknown)


@dataclass(frozen=True)
class _Slow:
    """A group of ``n`` ranks whose every size is slow: its sizes, and the row of the best one."""

    members: tuple[int, ...]
    n: int
    kinds: pl.DataFrame
    best: dict[str, Any]

    @property
    def comm_id(self) -> str | None:
        """The communicator, where there is only one."""
        ids = self.kinds["comm_id"].drop_nulls().unique().to_list()
        return ids[0] if len(ids) == 1 else None


def _judge(ctx: Context, part: pl.DataFrame, members: tuple[int, ...], n: int) -> _Slow | None:
    limit = ctx["share"]
    kinds = part.filter((pl.col("count") >= ctx["least"]) & pl.col("expected_gbps").is_not_null()).with_columns(
        reached=pl.col("busbw_gbps") / pl.col("expected_gbps")
    )
    allowed = pl.when(pl.col("beside").fill_null(0.0) >= 0.5).then(limit * _BESIDE_SHARE).otherwise(limit)
    # If the best size reaches enough, others are a matter of latency or of what runs beside them.
    if kinds.is_empty() or kinds.select((pl.col("reached") >= allowed).any()).item():
        return None
    return _Slow(members, n, kinds, kinds.sort("reached", "size_bytes", descending=True).row(0, named=True))


def _hit(ctx: Context, groups: list[_Slow], alike: int) -> Hit:
    """The slow groups, of so many in which the operation was judged."""
    groups = sorted(groups, key=lambda g: -float(g.best["reached"]))
    first, best = groups[0], groups[0].best
    comm_id = first.comm_id if len(groups) == 1 else None
    observed, wanted = format_gbps(best["busbw_gbps"]), format_gbps(best["expected_gbps"])
    where = f"on {first.n} ranks reaches {observed} busbw"
    more = ""
    if len(groups) > 1:
        count = f"{len(groups)} of {alike}" if alike > len(groups) else f"{alike}"
        where = f"in {count} groups of {first.n} ranks reaches {observed} busbw at best"
        more = (
            f"That is the best group, {rank_words(first.members)}; the slowest, {rank_words(groups[-1].members)}, "
            f"reaches {format_gbps(groups[-1].best['busbw_gbps'])}. "
        )
    members = tuple(sorted({rank for group in groups for rank in group.members}))
    return ctx.says(
        "found",
        trace_refs(
            (i, f"{op} {format_bytes(s)}: {format_gbps(b)} over {c} collectives, {format_ns(w)} each")
            for group in groups[:_SHOWN]
            for op, s, b, c, w, i in group.kinds.sort("size_bytes", descending=True)
            .head(_SHOWN if len(groups) > 1 else group.kinds.height)
            .select("op", "size_bytes", "busbw_gbps", "count", "wire_ns", "input_id")
            .iter_rows()
        ),
        whom=with_hosts(ctx.run, members),
        comm_id=comm_id,
        best=best,
        where=where,
        wanted=wanted,
        more=more,
        transport_text=transport_text(ctx.run, comm_id),
        observed_said=observed,
    )
