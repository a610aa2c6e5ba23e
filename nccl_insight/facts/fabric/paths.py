"""Distances between GPUs (NVLink, PCIe switch, CPU), and the rings that NCCL found over them."""

import polars as pl

from nccl_insight.loading.assemble.places import placed
from nccl_insight.tables.declared import frame
from nccl_insight.tables.normalise.codes import RING
from nccl_insight.tables.run import Run, fact

_SCHEMA = frame("host str, src str, dst str, path str, bw_gbps f64, input_id u16, line u64")


@fact
def gpu_paths(run: Run) -> pl.DataFrame:
    """Paths between different GPUs as NCCL found them: ``host, src, dst, path`` (NVL, PIX, PXB, PHB, SYS ...),
    ``bw_gbps, input_id, line``; one row per pair of a host."""
    gpu = pl.col("src").str.starts_with("GPU") & pl.col("dst").str.starts_with("GPU")
    return (
        run.table("paths")
        .lazy()
        .filter(gpu & pl.col("path_type").ne_missing("LOC"))
        .with_columns(path=pl.col("path_type"))
        .unique(["host", "src", "dst"], keep="first", maintain_order=True)
        .select([pl.col(c).cast(t) for c, t in _SCHEMA.items()])
        .collect(engine="in-memory")
    )


@fact
def nvlink_per_gpu(run: Run) -> pl.DataFrame:
    """NVLink bandwidth of each GPU: ``host, gpu, bw_gbps`` (sum over its links), ``links, input_id, line``.

    A link that several ranks' dumps show is counted once.
    """
    return (
        nvlinks(run)
        .group_by("host", pl.col("src").alias("gpu"), maintain_order=True)
        .agg(pl.col("bw_gbps").sum(), pl.len().alias("links"), pl.col("input_id", "line").first())
    )


def nvlinks(run: Run) -> pl.DataFrame:
    """NVLinks of GPUs with their bandwidth, each direction once: ``host, src, dst, bw_gbps, input_id, line``."""
    return (
        run.lazy("topology_links")
        .filter((pl.col("link").cast(pl.String) == "NVL") & pl.col("src").str.starts_with("GPU"))
        .filter(pl.col("bw_gbps").is_not_null())  # nvidia-smi topo -m counts links, it does not rate them
        .unique(["host", "src", "dst"], keep="first", maintain_order=True)
        .select("host", "src", "dst", "bw_gbps", "input_id", "line")
        .collect(engine="in-memory")
    )


@fact
def has_nvlink(run: Run) -> bool:
    """Whether anything in the log shows NVLink between GPUs of the job."""
    graphs = run.table("graphs").filter(pl.col("type_intra").is_in(["NVL", "NVB"]) & (pl.col("n_channels") > 0))
    counts = run.table("channel_counts").filter(pl.col("nvls_channels") > 0)
    nvb = run.table("connections").filter(pl.col("intermediate_rank").is_not_null())
    paths = gpu_paths(run).filter(pl.col("path").is_in(["NVL", "NVB"]))
    return bool(graphs.height or counts.height or nvb.height or paths.height or nvlink_per_gpu(run).height)


@fact
def nvlink_mesh(run: Run) -> bool:
    """Whether NVLink joins the GPUs of the job throughout: rings over NVLink, NVLS, or all paths over it."""
    rings = run.table("graphs").filter((pl.col("pattern") == RING) & (pl.col("n_channels") > 0))
    over = rings.filter(pl.col("type_intra").is_in(["NVL", "NVB"]))
    paths = gpu_paths(run)
    return bool(
        (over.height and over.height == rings.height)
        or run.table("channel_counts").filter(pl.col("nvls_channels") > 0).height
        or (paths.height and paths.filter(pl.col("path").is_in(["NVL", "NVB"])).height == paths.height)
    )


def ring_graphs(run: Run, column: str) -> pl.DataFrame:
    """The searched ring of each rank that tells a kind of path in ``column``, with the host."""
    rings = run.table("graphs").filter((pl.col("n_channels") > 0) & (pl.col("pattern") == RING)).drop_nulls(column)
    return placed(run, rings.unique(["comm_id", "rank"], keep="first", maintain_order=True))
