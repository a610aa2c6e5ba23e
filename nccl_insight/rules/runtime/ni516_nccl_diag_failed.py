"""A self-diagnosis of NCCL found something wrong."""

from collections.abc import Iterator
from typing import Final

import polars as pl

from nccl_insight.base.model import Action, Hit, Severity
from nccl_insight.base.units import plural
from nccl_insight.facts.diagnostics import findings
from nccl_insight.facts.errors import causes
from nccl_insight.facts.topics import told
from nccl_insight.rules._diag import lines_of, located, slow_pairs
from nccl_insight.rules._errors import Trouble
from nccl_insight.rules.context import Context, Hits, hit
from nccl_insight.tables.run import Run

_REPEAT: Final = "NCCL_RUN_DIAGNOSTICS=1 <the same job>   # to repeat it"
# Checks whose findings are properties of a machine that only matter where something else is wrong.
_REMARKS: Final = ("Paths", "IOMMU mode", "IOMMU groups", "ATS state", "rdma_topo")


def check(ctx: Context) -> Hits:
    """One finding per check; settings, drivers, NVLinks, ports and Xids have diagnoses of their own."""
    run = ctx.run
    yield from _edges(run)
    yield from slow_pairs(run)
    yield from _ecc(run)
    yield from _inventory(run)
    yield from _ports(run)
    yield from _remarks(run)
    yield from _unknown(ctx)


def _edges(run: Run) -> Iterator[Hit]:
    rows = findings(run, "p2p")
    edges = rows.filter(pl.col("src_rank").is_not_null())
    short = rows.filter(pl.col("n_passed") < pl.col("n_tested"))
    others = rows.filter(pl.col("src_rank").is_null() & pl.col("n_tested").is_null())
    if edges.is_empty() and short.is_empty() and others.is_empty():
        return
    shown = pl.concat([edges, short, others])
    if edges.height:
        first = edges.row(0, named=True)
        ends = pl.concat([edges["src_rank"], edges["dst_rank"]]).value_counts()
        ends = ends.sort("count", "src_rank", descending=[True, False])
        usual = int(ends.item(0, "src_rank")) if edges.height > 1 and ends.item(0, "count") == edges.height else None
        title = (
            f"{plural(edges.height, 'pair')} of GPUs failed NCCL's P2P check: {first['diag_failure']} from rank "
            + (f"{first['src_rank']} to rank {first['dst_rank']} over {first['diag_path']} ({first['diag_handle']})")
        )
        title += f"; rank {usual} is in all of them" if usual is not None else ""
        ranks = tuple(sorted({int(r) for c in ("src_rank", "dst_rank") for r in edges[c].to_list()}))
        advice = (
            f"nvidia-smi topo -p2p r; nvidia-smi topo -p2p w   # NCCL says: {first['advice']}"
            if first["advice"]
            else _REPEAT
        )
    else:
        row = (short if short.height else others).row(0, named=True)
        title = (
            f"Only {row['n_passed']} of {row['n_tested']} pairs of GPUs passed NCCL's P2P check"
            if short.height
            else "NCCL's P2P check did not run to its end"
        )
        ranks, advice = (), _REPEAT
    yield hit(
        lines_of(shown),
        whom=(*ranks[:16], *(located(run, edges, ranks)[1] if ranks else ())),
        title=title,
        explanation="NCCL wrote to and read from the memory of every GPU it can reach and compared the data.",
        observed=str(edges.item(0, "diag_failure")) if edges.height else "not all pairs passed",
        next_step=advice,
        severity=Severity.ERROR if edges["diag_failure"].str.contains("mismatch").any() else None,
    )


def _ecc(run: Run) -> Iterator[Hit]:
    rows = findings(run, "ECC")
    hard = rows.filter(pl.col("message") == "diag_ecc_uncorrected")
    shown = hard if hard.height else rows
    if shown.is_empty():
        return
    ranks, hosts, words = located(run, shown)
    kind = "uncorrected" if hard.height else "corrected"
    worst = f"{shown.sort('worst', descending=True).item(0, 'worst')} {kind} errors"
    yield hit(
        lines_of(rows),
        whom=(*ranks, *hosts),
        title=f"GPU memory of {words}: ECC counted {worst} on the worst GPU since its last reset",
        explanation="An uncorrected error means lost data: the program that used the memory is killed, and the row is "
        "taken out of service at the next reset."
        if hard.height
        else "Corrected errors lose no data; many of them announce a failing GPU.",
        observed=worst,
        next_step="nvidia-smi -q -d ECC,ROW_REMAPPER   # then reset the GPU, or drain the host when it repeats",
        severity=Severity.WARNING if hard.height else Severity.INFO,
        action=Action.ISOLATE if hard.height else Action.MONITOR,
    )


def _inventory(run: Run) -> Iterator[Hit]:
    rows = findings(run, "GPU inventory")
    if rows.is_empty():
        return
    ranks, hosts, words = located(run, rows)
    first = rows.row(0, named=True)
    what = "number of GPUs" if first["diag_what"] == "count" else "GPU model"
    yield hit(
        lines_of(rows),
        whom=(*ranks, *hosts),
        title=f"{words}: another {what} than rank {first['reference_rank']} ({first['reference_value']})",
        explanation="NCCL counts the GPUs that NVML sees on a host. A missing GPU has fallen off the bus or is hidden "
        "from the container; mixed models run at the pace of the slowest.",
        observed=f"another {what}",
        expected=str(first["reference_value"]),
        next_step="nvidia-smi -L; dmesg -T | grep -i xid   # on these hosts",
    )


def _ports(run: Run) -> Iterator[Hit]:
    rows = findings(run, "Net device").filter(~pl.col("message").is_in(["diag_port_differs", "diag_port_missing"]))
    down = rows.filter(pl.col("port_note").str.contains("not active").fill_null(False))
    shown = down if down.height else rows
    if shown.is_empty():
        return
    first = shown.row(0, named=True)
    yield hit(
        lines_of(shown),
        title=f"Port {first['hca_name']}:{first['port']} is not active ({first['port_properties']})"
        if down.height
        else "NCCL's diagnostics: network ports differ in speed, state or kind within hosts",
        explanation="NCCL listed the properties of all network ports that it could use.",
        observed=str(first["port_state"] or "differences"),
        next_step="ibstat   # state, rate and width of every port of the host",
        severity=Severity.INFO,
    )


def _remarks(run: Run) -> Iterator[Hit]:
    rows = findings(run, *_REMARKS)
    if rows.is_empty():
        return
    checks = rows["diag_check"].unique(maintain_order=True).to_list()
    yield hit(
        lines_of(rows),
        title=f"NCCL's diagnostics have remarks on {', '.join(checks)} ({plural(rows.height, 'line')})",
        explanation="How GPUs and NICs are connected, and how the IOMMU treats them. It matters when bandwidth is low "
        "or P2P fails.",
        observed=plural(rows.height, "remark"),
        next_step=_REPEAT,
        severity=Severity.INFO,
    )


def _unknown(ctx: Context) -> Iterator[Hit]:
    """Lines of the diagnostics whose wording is not known."""
    run = ctx.run
    lines = causes(run).filter(pl.col("level") == "DIAG")
    lines = lines.with_columns(told(lines, "diag-line").alias("_word"))
    said = (pl.col("_word") == "stated").fill_null(False)
    lines = lines.filter(pl.col("_word").ne_missing("notice") & (pl.col("message").is_null() | said))
    if lines.is_empty():
        return
    stated = lines.filter(said)
    severity = Severity.ERROR if stated.height else Severity.INFO
    yield from ctx.report(
        "NCCL's own diagnosis reports a problem" if stated.height else "NCCL's own diagnosis has a remark",
        next_step=_REPEAT,
        explanation="The text of the first line is NCCL's own judgment.",
        severity=severity,
        quiet=severity,
        rows=Trouble(stated if stated.height else lines),
    )
