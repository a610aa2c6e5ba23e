"""Transfers as the wire saw them: one row per collective, with waiting removed where several ranks were traced."""

import polars as pl

from nccl_insight.base import bandwidth
from nccl_insight.base.words import words
from nccl_insight.tables.run import Run, fact

_TRACED = ("kernel", "cpu_op", "inspector", "nccl_tests")
_POINT_TO_POINT = ("Send", "Recv")


@fact
def transfers(run: Run) -> pl.DataFrame:
    """One row per matched collective or transfer, or per event where no other rank's was found.

    Columns: ``match_id, input_id, rank, ranks, src, dst, process_group, comm_id, group_ranks, op, size_bytes, dtype,
    group_size, step, start_ns, wire_ns, busbw_gbps, waited, beside, unequal, source, matched, complete``.
    ``unequal`` is the largest part or sum of an exchange over the mean, 1 where all are alike, null where unknown.
    ``beside`` is the share of ``wire_ns`` in which that rank computed, which takes bandwidth from the transfer; null
    where it is unknown. ``wire_ns`` is the shortest
    duration over ranks (the last to arrive waits for nobody); for unmatched rows it is the duration and ``waited`` is
    unknown (null). ``complete``: all members were recorded. Otherwise ``wire_ns`` may hold waiting for a rank that was
    not recorded, and says nothing about the links. A Send and its Recv are one row with op ``Send``, ``src``, ``dst``.
    """
    table = run.table("collectives").filter(pl.col("source").cast(pl.String).is_in(_TRACED))
    op = pl.col("op").cast(pl.String)
    point = op.is_in(_POINT_TO_POINT)
    table = table.with_columns(
        src=pl.when(point).then(pl.when(op == "Send").then("rank").otherwise("peer")),
        dst=pl.when(point).then(pl.when(op == "Send").then("peer").otherwise("rank")),
        op=pl.when(op == "Recv").then(pl.lit("Send")).otherwise(op),
    )
    wanted = words("src dst process_group comm_id group_ranks op size_bytes dtype group_size step")
    whole = pl.coalesce(pl.col("group_size"), pl.col("group_ranks").list.len().cast(pl.Int32))
    matched = (
        table.filter(pl.col("match_id").is_not_null())
        .sort("match_id", "duration_ns")
        .group_by("match_id", maintain_order=True)
        .agg(
            pl.col("input_id", "rank").first(),
            pl.col("rank").sort().alias("ranks"),
            pl.col(wanted).first(),
            pl.col("start_ns").max(),
            wire_ns=pl.col("duration_ns").min(),
            waited=pl.col("duration_ns").max() - pl.col("duration_ns").min(),
            beside=_beside().first(),
            unequal=pl.max_horizontal(
                pl.col("split_max_share").max(), pl.col("size_bytes").max() / pl.col("size_bytes").mean()
            ),
            source=pl.col("source").first().cast(pl.String),
            matched=pl.lit(True),
        )
    )
    ran = {"ranks": pl.concat_list("rank"), "wire_ns": pl.col("duration_ns"), "waited": pl.lit(None, pl.Int64)}
    kept = {"beside": _beside(), "unequal": pl.col("split_max_share"), "source": pl.col("source").cast(pl.String)}
    alone = table.filter(pl.col("match_id").is_null())
    single = alone.select("match_id", "input_id", "rank", *wanted, "start_ns", **ran, **kept, matched=pl.lit(False))
    rows = pl.concat([matched, single.select(matched.columns)], how="vertical_relaxed")
    return rows.with_columns(
        busbw_gbps=bandwidth.busbw_expr(pl.col("op"), pl.col("size_bytes"), pl.col("wire_ns"), whole),
        complete=pl.col("matched") & (pl.col("src").is_not_null() | (pl.col("ranks").list.len() >= whole.fill_null(2))),
    )


def _beside() -> pl.Expr:
    return 1 - pl.col("exposed_ns") / pl.when(pl.col("duration_ns") > 0).then("duration_ns")


def recorded(run: Run) -> pl.DataFrame:
    """Collectives that PyTorch's flight recorder timed (``TORCH_NCCL_ENABLE_TIMING=1``) on every member of a group.

    Columns: ``input_id, comm_id, ranks, group_ranks, group_size, op, size_bytes, wire_ns, busbw_gbps``. Dumps of
    different ranks are matched by process group and sequence number. ``wire_ns`` is the shortest duration over ranks.
    """
    table = run.table("collectives")
    n = pl.coalesce(pl.col("group_size"), pl.col("group_ranks").list.len().cast(pl.Int32))
    op = pl.col("op").cast(pl.String)
    return (
        table.drop_nulls(["seq", "rank", "op"])
        .filter(pl.col("source").cast(pl.String) == "flight_recorder", ~op.is_in(_POINT_TO_POINT))
        .filter(pl.col("duration_ns") > 0, pl.col("size_bytes") > 0)
        .with_columns(group_size=n, op=op, _members=pl.col("group_ranks").cast(pl.List(pl.String)).list.join(","))
        .group_by("process_group", "_members", "seq", "op", "size_bytes", maintain_order=True)
        .agg(
            pl.col("input_id").first(),
            pl.col("comm_id").drop_nulls().first(),
            pl.col("rank").unique().sort().alias("ranks"),
            pl.col("group_ranks", "group_size").first(),
            wire_ns=pl.col("duration_ns").min(),
        )
        .filter(pl.col("ranks").list.len() >= pl.col("group_size"))
        .with_columns(
            busbw_gbps=bandwidth.busbw_expr(pl.col("op"), pl.col("size_bytes"), pl.col("wire_ns"), pl.col("group_size"))
        )
        .drop("process_group", "_members", "seq")
    )


def missing_members(run: Run) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Ranks without a trace, by process group (its members), for groups of which at least two ranks have one."""
    table = run.table("collectives").filter(
        pl.col("rank").is_not_null() & pl.col("source").cast(pl.String).is_in(_TRACED)
    )
    recorded = set(table["rank"]) | set(run.table("trace_info")["rank"].drop_nulls())
    by_size = pl.int_ranges(0, pl.col("group_size").cast(pl.Int64)).cast(pl.List(pl.Int32))
    inspector = pl.col("source").cast(pl.String) == "inspector"
    groups = (
        table.with_columns(
            members=pl.coalesce("group_ranks", pl.when(inspector & (pl.col("group_size") > 0)).then(by_size))
        )
        .filter(pl.col("members").is_not_null())
        .group_by("members", "process_group")
        .agg(seen=pl.col("rank").n_unique())
        .filter(pl.col("seen") >= 2)
    )
    found = {tuple(sorted(m)): tuple(sorted(set(m) - recorded)) for m in groups["members"].to_list()}
    return {members: absent for members, absent in sorted(found.items()) if absent}
