"""What NCCL's own diagnostics found (table ``diagnostics``, NCCL 2.31 and later), with the hosts of the ranks."""

from typing import Final

import polars as pl

from nccl_insight.loading.assemble.places import rank_hosts
from nccl_insight.tables.declared import frame
from nccl_insight.tables.run import Run, fact

_COLUMNS: Final = frame("""input_id u16, line u64, host str, pid i64, message str, diag_check str, diag_result str,
    comm_id str, nranks i64, ranks list[i32], n_ranks i64, rank i64, rank_set str, reference_rank i64,
    reference_value str, setting_value str, diag_setting str, name str, worst i64, threshold i64, n_found i64,
    n_nodes i64, n_passed i64, n_tested i64, src_rank i64, dst_rank i64, diag_failure str, diag_path str,
    diag_handle str, diag_reason str, advice str, diag_what str, hca_name str, port i64, port_properties str,
    port_note str, speed_mbps i64, port_state str, node_name str, xid i64, n_events i64, guidance str,
    sxid_class str, bw_min_gbit f64, bw_median_gbit f64, diag_mode str""")


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
