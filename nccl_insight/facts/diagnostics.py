"""What NCCL's own diagnostics found (table ``diagnostics``, NCCL 2.31 and later), with the hosts of the ranks."""

from typing import Final

import polars as pl

from nccl_insight.loading.assemble.places import rank_hosts
from nccl_insight.tables.run import Run, fact
from nccl_insight.tables.schema import Columns

_COLUMNS: Final[Columns] = {
    "input_id": pl.UInt16, "line": pl.UInt64, "host": pl.String, "pid": pl.Int64, "message": pl.String,
    "diag_check": pl.String, "diag_result": pl.String, "comm_id": pl.String, "nranks": pl.Int64,
    "ranks": pl.List(pl.Int32), "n_ranks": pl.Int64, "rank": pl.Int64, "rank_set": pl.String,
    "reference_rank": pl.Int64, "reference_value": pl.String, "setting_value": pl.String,
    "diag_setting": pl.String, "name": pl.String, "worst": pl.Int64, "threshold": pl.Int64,
    "n_found": pl.Int64, "n_nodes": pl.Int64, "n_passed": pl.Int64, "n_tested": pl.Int64,
    "src_rank": pl.Int64, "dst_rank": pl.Int64, "diag_failure": pl.String, "diag_path": pl.String,
    "diag_handle": pl.String, "diag_reason": pl.String, "advice": pl.String, "diag_what": pl.String,
    "hca_name": pl.String, "port": pl.Int64, "port_properties": pl.String, "port_note": pl.String,
    "speed_mbps": pl.Int64, "port_state": pl.String, "node_name": pl.String, "xid": pl.Int64,
    "n_events": pl.Int64, "guidance": pl.String, "sxid_class": pl.String, "bw_min_gbit": pl.Float64,
    "bw_median_gbit": pl.Float64, "diag_mode": pl.String,
}  # fmt: skip


@fact
def diagnostics(run: Run) -> pl.DataFrame:
    """All lines of NCCL's diagnostics in reading order, each statement once: the columns of table ``diagnostics``."""
    rows = run.table("diagnostics")
    rows = rows.select(pl.col(name).cast(dtype, strict=False) for name, dtype in _COLUMNS.items())
    # One report may be read twice: from the job's output and from the RAS client.
    said = [c for c in _COLUMNS if c not in {"input_id", "line", "host", "pid", "ranks"}]
    return rows.unique(said, keep="first", maintain_order=True)


def findings(run: Run, *checks: str) -> pl.DataFrame:
    """The rows of :func:`diagnostics` that report a finding, of the named checks or of all."""
    rows = diagnostics(run)
    if rows.is_empty():
        return rows
    rows = rows.filter(pl.col("diag_result") == "finding")
    return rows.filter(pl.col("diag_check").is_in(list(checks))) if checks else rows


def hosts_in(run: Run, comm_id: str | None, ranks: tuple[int, ...]) -> tuple[str, ...]:
    """Hosts of some ranks of a communicator, as far as the log names them."""
    known = rank_hosts(run).filter(pl.col("rank").is_in(ranks))
    if comm_id is not None and (known["comm_id"] == comm_id).any():
        known = known.filter(pl.col("comm_id") == comm_id)
    elif known["comm_id"].n_unique() > 1:
        return ()
    return tuple(known["host"].drop_nulls().unique().sort())
