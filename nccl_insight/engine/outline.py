"""The job in at most three lines: communicators, who talks over what, algorithms and channels."""

from collections import Counter
from collections.abc import Iterator

import polars as pl

from nccl_insight.base.units import plural
from nccl_insight.facts.setup.choices import choices
from nccl_insight.facts.who.members import comms
from nccl_insight.tables.run import Run


def outline(run: Run) -> tuple[str, ...]:
    """The lines; fewer where the inputs say less."""
    return tuple(line for lines in (_communicators(run), _transports(run), _how(run)) for line in lines)


def _communicators(run: Run) -> Iterator[str]:
    everyone = comms(run)
    if not everyone:
        return
    sizes = Counter((c.nranks, c.nodes or len(c.hosts)) for c in everyone)
    parts = [
        f"{plural(count, 'communicator')} of {plural(nranks, 'rank')}"
        + (f" on {plural(nodes, 'node')}" if nodes else "")
        for (nranks, nodes), count in sorted(sizes.items(), reverse=True)[:3]
    ]
    yield ", ".join(parts) + (" and others" if len(sizes) > 3 else "")


def _transports(run: Run) -> Iterator[str]:
    table = run.table("connections").filter(
        pl.col("transport").is_not_null() & (pl.col("src_rank") != pl.col("dst_rank"))
    )
    if table.is_empty():
        return
    ways = (
        table.with_columns(
            pl.col("transport").cast(pl.String),
            pl.col("network").fill_null(""),
            pl.col("gdr").fill_null(False),
            pl.col("method").fill_null(""),
        )
        .group_by("transport", "network", "gdr")
        .agg(pairs=pl.struct("comm_id", "src_rank", "dst_rank").n_unique())
        .sort("pairs", "transport", "network", "gdr", descending=[True, False, False, False])
    )
    parts = []
    for row in ways.head(3).iter_rows(named=True):
        name = f"{row['transport']}/{row['network']}" if row["network"] else row["transport"]
        gdr = " with GPUDirect RDMA" if row["gdr"] else ""
        parts.append(f"{plural(int(row['pairs']), 'rank pair')} over {name}{gdr}")
    yield ", ".join(parts)


def _how(run: Run) -> Iterator[str]:
    most = run.table("channel_counts").select(pl.col("coll_channels", "nvls_channels").max().fill_null(0)).row(0)
    parts = [plural(n, what) for n, what in zip(most, ("collective channel", "NVLS channel"), strict=True) if n]
    if run.has("tuning_choice"):
        pairs = choices(run).counts
        top = pairs.sort("len", "algorithm", "protocol", descending=[True, False, False]).head(3)
        names = [f"{row['algorithm']}/{row['protocol']}" for row in top.iter_rows(named=True)]
        parts.append("algorithms: " + ", ".join(names))
    if parts:
        yield ", ".join(parts)
