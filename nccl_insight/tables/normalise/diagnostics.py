"""Normalisers of NCCL's own diagnostics: sets of ranks, properties of ports, the tag of a line."""

from collections.abc import Callable, Mapping
from typing import Final

import polars as pl

_LISTED: Final = r"^\{([0-9,]+)"
_TOTAL: Final = r"\(N=([0-9]+)\)$"


def rank_set(frame: pl.DataFrame) -> pl.DataFrame:
    """``{0,3,5}``, or ``{0,1,...} (N=20)``: ``ranks`` as far as they are printed, and ``n_ranks``."""
    printed = pl.col("rank_set")
    ranks = printed.str.extract(_LISTED).str.strip_chars(",").str.split(",").cast(pl.List(pl.Int32), strict=False)
    total = printed.str.extract(_TOTAL).cast(pl.Int64, strict=False)
    return frame.with_columns(ranks=ranks, n_ranks=pl.coalesce(total, ranks.list.len().cast(pl.Int64)).cast(pl.Int64))


def port_properties(frame: pl.DataFrame) -> pl.DataFrame:
    """``net device type=Host, speed=200000 Mbps, link layer=Ethernet, state=ACTIVE/LinkUp`` as columns."""
    printed = pl.col("port_properties")
    return frame.with_columns(
        net_device_type=printed.str.extract(r"net device type=([^,]+)"),
        speed_mbps=printed.str.extract(r"speed=([0-9]+) Mbps").cast(pl.Int64, strict=False),
        link_layer_name=printed.str.extract(r"link layer=([^,]+)"),
        data_direct=printed.str.contains(", Data Direct", literal=True),
        port_state=printed.str.extract(r"state=([^/,]+)/"),
        port_physical_state=printed.str.extract(r"state=[^/,]+/([^,]+)$"),
    )


def diag_tag(frame: pl.DataFrame) -> pl.DataFrame:
    """``diag_result`` of a line whose tag only says whether all is well."""
    fine = pl.col("diag_tag") == "[OK]"
    return frame.with_columns(diag_result=pl.when(fine).then(pl.lit("ok")).otherwise(pl.lit("finding"))).drop(
        "diag_tag"
    )


NORMALISERS: Final[Mapping[str, Callable[[pl.DataFrame], pl.DataFrame]]] = {
    f.__name__: f for f in (rank_set, port_properties, diag_tag)
}
