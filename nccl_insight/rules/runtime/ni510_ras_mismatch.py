"""NCCL's RAS report says that ranks of a communicator have launched different numbers of operations."""

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from nccl_insight.base.model import Hit, Ref
from nccl_insight.facts.progress.absent import absences
from nccl_insight.facts.progress.claims import RAS
from nccl_insight.facts.said.course import left_in_order
from nccl_insight.loading.assemble.places import places
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run

# So many ranks with one count for each that is behind it.
_FEW = 8


def check(ctx: Context) -> Hits:
    """One finding per communicator and kind of operation."""
    run = ctx.run
    rows = run.table("ras").filter(
        pl.col("event").is_in(["mismatch", "mismatch_member"])
        & pl.col("report").is_not_null()
        & pl.col("comm_hash").is_not_null()
    )
    for part in rows.partition_by("input_id", "report", "comm_hash", "op", maintain_order=True):
        if _told(run, part["comm_hash"][0], part["op"][0]):
            continue
        if part.filter(pl.col("op_count").is_not_null() | pl.col("status").is_not_null()).height:
            found = _from_text(ctx, part, stopped=run.has("processes") and not left_in_order(run))
            # RAS knows nodes by their addresses.
            yield replace(found, hosts=places(run).hosts(found.ranks) or found.hosts)
    yield from (hit for hit, comm, op in _from_json(ctx, run.table("ras_counts")) if not _told(run, comm, op))


def _told(run: Run, comm: str, op: str | None) -> bool:
    """Whether the ranks behind are named as those that did not come."""
    claims = (c for a in absences(run) for c in a.claims if c.source == RAS)
    return any(c.comm_id == comm and c.op == op for c in claims)


def _from_text(ctx: Context, part: pl.DataFrame, stopped: bool) -> Hit:
    """``stopped``: the log of the job is there, and shows no end: then few ranks behind all others are why."""
    claims = part.filter(pl.col("event") == "mismatch")
    members = part.filter(pl.col("event") == "mismatch_member")
    comm, op = part["comm_hash"][0], part["op"][0]
    ranks = tuple(sorted({r for r in members["rank"].to_list() if r is not None and 0 <= r < 2**31}))
    observed = "; ".join(t for t in claims["text"].to_list() if t)[:300]
    values = claims["op_count"].drop_nulls()
    every = part["op_count"].drop_nulls()
    # Ranks that are listed one by one are the smaller set: behind the count of the others, or ahead of it.
    most = values.max() if values.len() else None
    behind = members.filter(pl.col("op_count") < most)["rank"].drop_nulls().to_list() if most is not None else []
    ahead = claims["count"].drop_nulls().sum() or 0
    alone = stopped and bool(behind) and len(behind) * _FEW <= ahead
    refs = part.select("input_id", "line", "text").iter_rows()
    return ctx.says(
        "from-text",
        tuple(Ref(i, n, t) for i, n, t in refs),
        whom=(*(tuple(behind) if alone else ranks), *sorted({h for h in members["host"].to_list() if h})),
        observed=observed,
        comm_id=f"0x{comm.lstrip('0')}",
        op="" if op in (None, "collective") else f"{op} ",
        status=op == "status",
        apart=max(every, default=0) - min(every, default=0) if every.len() > 1 else None,
        spread=every.len() > 1,
        behind=behind,
        alone=alone,
        certain=ranks and not behind,
    )


def _from_json(ctx: Context, counts: pl.DataFrame) -> Iterator[tuple[Hit, str, str]]:
    summary = counts.group_by("input_id", "comm_hash", "op", maintain_order=True).agg(
        low=pl.col("op_count").min(),
        high=pl.col("op_count").max(),
        behind=pl.col("rank").filter(pl.col("op_count") == pl.col("op_count").min()).sort(),
        ranks=pl.len(),
    )
    for row in summary.filter(pl.col("low") < pl.col("high")).iter_rows(named=True):
        behind = [r for r in row["behind"] if r is not None]
        observed = f"{row['low']:,} to {row['high']:,} {row['op']} operations"
        found = ctx.says(
            "from-json",
            (Ref(row["input_id"], 0, f"collective_counts {row['op']}: {observed}"),),
            whom=tuple(behind) if len(behind) * 2 <= row["ranks"] else (),
            comm_id=f"0x{row['comm_hash'].lstrip('0')}",
            row=row,
            observed_said=observed,
            behind=behind,
        )
        yield found, row["comm_hash"], row["op"]
