"""Connection lines: flags to booleans, the method's name, and what the number in brackets means."""

from typing import Final

import polars as pl

from nccl_insight.base.versions import at_least, between, version_key
from nccl_insight.loading.assemble.base import column

_SUFFIX: Final = r" comm (?:0x[0-9a-f]+|\(nil\)) nRanks [0-9]+.*$"


def _era(versions: pl.DataFrame) -> pl.DataFrame:
    """Meaning of the bracket by version: CUDA device (2.3), NVML device (2.4), bus id (2.5-2.18.1), NVML device."""
    rows = []
    for version, library in versions.select("nccl_version", "library").unique().iter_rows():
        if version_key(version) is None:
            continue
        kind = "nvml_dev"
        if not at_least(version, "2.4"):
            kind = "cuda_dev"
        elif between(version, "2.5", "2.18.3") or library == "rccl":
            kind = "bus_id"
        rows.append((version, library, kind))
    return pl.DataFrame(
        rows, schema={"nccl_version": pl.String, "library": pl.String, "dev_kind": pl.String}, orient="row"
    )


def connection_rows(rows: pl.DataFrame, versions: pl.DataFrame) -> pl.DataFrame:
    """The contract's columns of ``connections``; ``via`` is the text behind "via " without RCCL's suffix."""
    net = pl.col("transport").is_in(["NET", "COLLNET"])
    peer = pl.col("transport") == "P2P"
    method = pl.coalesce(
        column(rows, "method", pl.String),
        column(rows, "p2p_method", pl.String),
        pl.concat_str(
            column(rows, "shm_send", pl.String), column(rows, "shm_recv", pl.String), separator="/", ignore_nulls=True
        ).replace({"": None}),
    )
    out = rows.with_columns(
        via=pl.col("_via").str.replace(_SUFFIX, "").str.strip_chars_end(),
        method=method,
        gdr=pl.when(net).then(column(rows, "gdr_flag", pl.String).is_not_null()),
        shared=pl.when(net).then(column(rows, "shared_flag", pl.String).is_not_null()),
        read=pl.when(peer).then(column(rows, "read_flag", pl.String).is_not_null()),
    )
    # A log may hold CollNet connections only, which name no device.
    out = out.with_columns(column(out, "src_dev", pl.String))
    era = _era(versions)
    agreed = era["dev_kind"].unique().to_list()
    long = pl.coalesce(pl.col("src_dev").str.len_bytes() > 3, pl.lit(False)) | pl.col("src_dev").str.contains("[a-f]")
    fallback = agreed[0] if len(agreed) == 1 else "nvml_dev"
    kind = pl.when(pl.col("src_dev").is_null()).then(None).when(long).then(pl.lit("bus_id")).otherwise(pl.lit(fallback))
    drop = ("p2p_method", "shm_send", "shm_recv", "gdr_flag", "shared_flag", "read_flag")
    return out.with_columns(dev_kind=kind).drop(drop, strict=False)
