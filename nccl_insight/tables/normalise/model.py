"""Normalisers of NCCL's model of the machine: paths between nodes, the table of the tuning model."""

from collections.abc import Callable, Mapping
from typing import Final

import polars as pl

_PATH: Final = r"[A-Z]+/[0-9A-Fa-f-]+ \([0-9]+/[0-9.]+/[A-Z0-9]+\)"
_PATH_PARTS: Final = r"^([^ ]+) \(([0-9]+)/([0-9.]+)/([A-Z0-9]+)\)$"


def topo_paths(frame: pl.DataFrame) -> pl.DataFrame:
    """``GPU/0-1a000 :NVS/0-0 (1/360.0/NVL) ...``: one row a target, ``src, dst, hops, bw_gbps, path_type``."""
    rows = frame.with_columns(
        src=pl.concat_str(pl.col("node"), pl.lit("/"), pl.col("node_id")), _path=pl.col("paths").str.extract_all(_PATH)
    )
    rows = rows.explode("_path").filter(pl.col("_path").is_not_null())
    part = [pl.col("_path").str.extract(_PATH_PARTS, i) for i in range(1, 5)]
    return rows.with_columns(
        dst=part[0],
        hops=part[1].cast(pl.Int32, strict=False),
        bw_gbps=part[2].cast(pl.Float64, strict=False),
        path_type=part[3],
    ).drop("node", "node_id", "paths", "_path")


def _cells(text: pl.Expr) -> pl.Expr:
    """The cells of a row that ends in ``|``."""
    return text.str.strip_chars(" |").str.split("|").list.eval(pl.element().str.strip_chars(" "))


def _span(frame: pl.DataFrame, *names: str) -> pl.Expr:
    return pl.coalesce([pl.col(n) for n in names if n in frame.columns])


def tuning_header(frame: pl.DataFrame) -> pl.DataFrame:
    """A header of the table: ``labels`` (algorithms, protocols, or both with a slash) and ``n_cells``."""
    labels = _cells(_span(frame, "model_algorithms", "model_protocols", "model_columns"))
    labels = labels.list.eval(pl.element().str.replace_all(" ", ""))
    rows = frame.with_columns(labels=labels)
    return rows.with_columns(n_cells=pl.col("labels").list.len().cast(pl.Int32)).drop(
        "model_algorithms", "model_protocols", "model_columns", strict=False
    )


def tuning_row(frame: pl.DataFrame) -> pl.DataFrame:
    """A row of the table: ``latency_us`` and ``model_bw_gbps`` a cell, or ``max_threads``; and ``n_cells``."""
    rows = frame.with_columns(_cells=_cells(_span(frame, "model_threads", "model_cells")))
    rows = rows.with_columns(n_cells=pl.col("_cells").list.len().cast(pl.Int32))
    if "model_threads" in frame.columns:
        rows = rows.with_columns(max_threads=pl.col("_cells").cast(pl.List(pl.Int32), strict=False))
    else:
        pair = pl.element().str.split("/")
        rows = rows.with_columns(
            latency_us=_numbers(pl.col("_cells").list.eval(pair.list.get(0, null_on_oob=True))),
            model_bw_gbps=_numbers(pl.col("_cells").list.eval(pair.list.get(1, null_on_oob=True))),
        )
    return rows.drop("_cells", "model_threads", "model_cells", strict=False)


def _numbers(texts: pl.Expr) -> pl.Expr:
    return texts.list.eval(pl.element().str.strip_chars(" ").cast(pl.Float64, strict=False))


NORMALISERS: Final[Mapping[str, Callable[[pl.DataFrame], pl.DataFrame]]] = {
    f.__name__: f for f in (topo_paths, tuning_header, tuning_row)
}
