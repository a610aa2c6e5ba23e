"""What a group of ranks can expect of its links: NVLink inside a node, the node's NICs across nodes."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from nccl_insight.facts.networks import nics
from nccl_insight.facts.transports import links
from nccl_insight.rules._traces import one_node_gpu
from nccl_insight.tables.run import Run

_NET_SHARE = 0.8


@dataclass(frozen=True)
class Expectation:
    """Bus bandwidth that large messages of a group reach at least, and where the figure comes from."""

    gbps: float
    why: str


def expected_busbw(run: Run, ranks: tuple[int, ...], group_size: int) -> Expectation | None:
    """Expected large-message AllReduce busbw; None where node layout, GPU model or NIC speed is unknown."""
    gpu = one_node_gpu(run, ranks, group_size)
    if gpu is not None:
        if gpu.expected_gbps is None or group_size < (8 if gpu.model == "V100" else 4):
            return None
        return Expectation(gpu.expected_gbps, f"published nccl-tests results of {gpu.model} inside one node")
    return _across_nodes(run, group_size)


def _across_nodes(run: Run, group_size: int) -> Expectation | None:
    """Sum of the RDMA NICs of the poorest host, for a communicator of the log with the same number of ranks."""
    comms = run.table("communicators").filter(
        (pl.col("nranks") == group_size)
        & (pl.col("n_nodes") > 1)
        & (pl.col("n_nodes") * 2 <= pl.col("nranks"))
    )
    if comms.is_empty():
        return None
    rdma = nics(run).filter((pl.col("speed_gbit") > 0) & (pl.col("link_layer").cast(pl.String) != "Socket"))
    if rdma.is_empty() or rdma["host"].n_unique() < int(comms["n_nodes"].max() or 0):  # type: ignore[arg-type]
        return None
    poorest = (
        rdma.group_by("host").agg(pl.col("speed_gbit").sum(), pl.len()).sort("speed_gbit", "host").row(0)
    )
    total = poorest[1] / 8
    return Expectation(_NET_SHARE * total, f"{_NET_SHARE:.0%} of {poorest[2]} NICs, {total:.0f} GB/s a node")


def transport_text(run: Run, comm_id: str | None) -> str:
    """Transports that the log shows for a communicator, with their shares; empty if the log shows none."""
    rows = links(run).filter(pl.col("comm_id") == comm_id) if comm_id is not None else links(run).clear()
    if rows.is_empty():
        return ""
    name = pl.concat_str(pl.col("transport"), pl.col("network"), separator="/", ignore_nulls=True)
    counts = rows.group_by(name=name).len().sort(["len", "name"], descending=[True, False])
    parts = [f"{n} {c / rows.height:.0%}" for n, c in counts.head(3).iter_rows()]
    without = rows.filter((pl.col("transport") == "NET") & ~pl.col("gdr").fill_null(True)).height
    return f"The log shows for communicator {comm_id}: {', '.join(parts)}" + (
        ", NET without GDRDMA." if without else "."
    )
