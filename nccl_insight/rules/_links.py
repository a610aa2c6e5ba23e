"""What a group of ranks can expect of its links: NVLink inside a node, the node's NICs across nodes."""

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.facts.fabric.networks import nics
from nccl_insight.facts.figures.expected import HARDWARE, Band, beside, expected, machine_of
from nccl_insight.facts.lateness.wire import recorded, transfers
from nccl_insight.facts.who.transports import links
from nccl_insight.rules._traces import on_one_node
from nccl_insight.tables.run import Run, fact

_NET_SHARE = 0.8
_LARGE_BYTES = 1 << 30
_BESIDE = 0.5
_ENOUGH = 5


@dataclass(frozen=True)
class Expectation:
    """Bus bandwidth that large messages of a group reach at least, and where the figure comes from."""

    gbps: float
    why: str


def expected_busbw(run: Run, ranks: tuple[int, ...], group_size: int) -> Expectation | None:
    """Expected large-message AllReduce busbw; None where node layout, GPU model or NIC speed is unknown.

    Few GPUs of a node are not judged where the links of pairs are unequal, or a bridge may be missing.
    """
    if not on_one_node(run, ranks, group_size):
        return _across_nodes(run, group_size)
    machine = machine_of(run, group_size, 1)
    if machine is None or group_size < {"nvswitch": 4, "mesh": 8}.get(machine.gpu.fabric, group_size + 1):
        return None
    band = expected(run, "AllReduce", _LARGE_BYTES, group_size, 1)
    return Expectation(band.busbw_gbps, band.source) if band is not None else None


@fact
def traced_efficiency(run: Run) -> pl.DataFrame:
    """Traced collectives by group, operation and size, beside what they should reach.

    Columns: ``members, n, op, size_bytes, comm_id, input_id, count, busbw_gbps, wire_ns`` (medians without waiting),
    ``beside`` (median share of the transfer in which the GPU computed; such transfers are left out where enough others
    are), ``expected_gbps, expected_low_gbps, expected_high_gbps, expected_from`` (null where nothing is known) and
    ``of_expected``. Only collectives of which all members were recorded, by a profiler, the Inspector or PyTorch's
    flight recorder. NCCL's own model comes first; the hardware table only where the links of the group are known
    (:func:`expected_busbw`).
    """
    traced = transfers(run).filter(
        pl.col("complete")
        & pl.col("src").is_null()
        & (pl.col("busbw_gbps") > 0)
        & (pl.col("size_bytes") > 0)
        & pl.col("source").is_in(["kernel", "inspector"])
    )
    # The same collectives again are not counted twice where a profiler saw them, too.
    dumped = recorded(run).filter(pl.col("busbw_gbps") > 0) if traced.is_empty() else recorded(run).clear()
    kind = ["members", "n", "op", "size_bytes"]
    busy = (pl.col("beside") >= _BESIDE).fill_null(False)
    rows = (
        pl.concat([traced, dumped], how="diagonal_relaxed")
        .with_columns(
            members=pl.coalesce("group_ranks", "ranks"),
            n=pl.coalesce(pl.col("group_size"), pl.col("ranks").list.len().cast(pl.Int32)),
        )
        .filter(~busy | ((~busy).sum().over(kind) < _ENOUGH))
        .group_by("members", "n", "op", "size_bytes", maintain_order=True)
        .agg(
            pl.col("comm_id").drop_nulls().unique(),
            pl.col("input_id").first(),
            count=pl.len(),
            busbw_gbps=pl.col("busbw_gbps").median(),
            wire_ns=pl.col("wire_ns").median(),
            beside=pl.col("beside").median(),
        )
        .with_columns(comm_id=pl.when(pl.col("comm_id").list.len() == 1).then(pl.col("comm_id").list.first()))
    )
    bands = [
        _of_group(run, op, size, tuple(members), n, comm)
        for members, n, op, size, comm in rows.select("members", "n", "op", "size_bytes", "comm_id").iter_rows()
    ]
    return beside(rows, bands).with_columns(of_expected=pl.col("busbw_gbps") / pl.col("expected_gbps"))


def _of_group(run: Run, op: str, size: int, members: tuple[int, ...], n: int, comm_id: str | None) -> Band | None:
    band = expected(run, op, size, n, 1 if on_one_node(run, members, n) else None, comm_id)
    if band is None or (band.source == HARDWARE and expected_busbw(run, members, n) is None):
        return None
    return band


def _across_nodes(run: Run, group_size: int) -> Expectation | None:
    """Sum of the RDMA NICs of the poorest host, for a communicator of the log with the same number of ranks."""
    comms = run.table("communicators").filter(
        (pl.col("nranks") == group_size) & (pl.col("n_nodes") > 1) & (pl.col("n_nodes") * 2 <= pl.col("nranks"))
    )
    if comms.is_empty():
        return None
    rdma = nics(run).filter((pl.col("speed_gbit") > 0) & (pl.col("link_layer").cast(pl.String) != "Socket"))
    if rdma.is_empty() or rdma["host"].n_unique() < int(comms["n_nodes"].max() or 0):  # type: ignore[arg-type]
        return None
    poorest = rdma.group_by("host").agg(pl.col("speed_gbit").sum(), pl.len()).sort("speed_gbit", "host").row(0)
    total = poorest[1] / 8
    return Expectation(_NET_SHARE * total, f"{_NET_SHARE:.0%} of {poorest[2]} NICs, {total:.0f} GB/s per node")


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
