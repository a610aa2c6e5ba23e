"""A self-diagnosis of NCCL found something wrong."""

from typing import Final

import polars as pl

from nccl_insight.base.model import Severity
from nccl_insight.facts.said.diagnostics import findings
from nccl_insight.facts.said.errors import causes
from nccl_insight.facts.said.topics import told
from nccl_insight.facts.setup.settings import refs
from nccl_insight.language.load import playing
from nccl_insight.rules._diag import MOST, diagnosed, located, slow_pairs
from nccl_insight.rules._errors import Trouble
from nccl_insight.rules.context import Context, Hits

# Checks whose findings are properties of a machine that only matter where something else is wrong.
_REMARKS: Final = ("Paths", "IOMMU mode", "IOMMU groups", "ATS state", "rdma_topo")


def check(ctx: Context) -> Hits:
    """One finding per check; settings, drivers, NVLinks, ports and Xids have diagnoses of their own."""
    run = ctx.run
    yield from _edges(ctx)
    yield from slow_pairs(run)
    yield from _ecc(ctx)
    yield from diagnosed(ctx, "inventory", findings(run, "GPU inventory"))
    yield from _ports(ctx)
    yield from _remarks(ctx)
    # Lines of the diagnostics whose wording is not known.
    lines = causes(run).filter(pl.col("level") == "DIAG")
    lines = lines.with_columns(told(lines, "diag-line").alias("_word"))
    said = (pl.col("_word") == "stated").fill_null(False)
    lines = lines.filter(pl.col("_word").ne_missing("notice") & (pl.col("message").is_null() | said))
    if lines.is_empty():
        return
    stated = lines.filter(said)
    severity = Severity.ERROR if stated.height else Severity.INFO
    yield from ctx.tells(
        "unknown", severity=severity, quiet=severity, rows=Trouble(stated if stated.height else lines), stated=stated
    )


def _edges(ctx: Context) -> Hits:
    rows = findings(ctx.run, "p2p")
    edges = rows.filter(pl.col("src_rank").is_not_null())
    short = rows.filter(pl.col("n_passed") < pl.col("n_tested"))
    others = rows.filter(pl.col("src_rank").is_null() & pl.col("n_tested").is_null())
    if edges.is_empty() and short.is_empty() and others.is_empty():
        return
    shown = pl.concat([edges, short, others])
    first = shown.row(0, named=True)
    usual: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    if edges.height:
        ends = pl.concat([edges["src_rank"], edges["dst_rank"]]).value_counts()
        ends = ends.sort("count", "src_rank", descending=[True, False])
        usual = tuple(ends["src_rank"][:1]) if edges.height > 1 and ends.item(0, "count") == edges.height else ()
        ranks = tuple(sorted({int(r) for c in ("src_rank", "dst_rank") for r in edges[c].to_list()}))
    yield ctx.says(
        "edges",
        refs(shown, MOST),
        whom=(*ranks[:16], *(located(ctx.run, edges, ranks)[1] if ranks else ())),
        edges=edges,
        short=short,
        first=first,
        usual=usual,
        advice=edges.height and first["advice"],
        mismatch=edges["diag_failure"].str.contains("mismatch").any(),
    )


def _ecc(ctx: Context) -> Hits:
    rows = findings(ctx.run, "ECC")
    hard = rows.filter(pl.col("message").is_in(playing("lost-bits")))
    shown = hard if hard.height else rows
    if shown.is_empty():
        return
    ranks, hosts, words = located(ctx.run, shown)
    kind = "uncorrected" if hard.height else "corrected"
    worst = f"{shown.sort('worst', descending=True).item(0, 'worst')} {kind} errors"
    yield ctx.says("ecc", refs(rows, MOST), whom=(*ranks, *hosts), words=words, worst=worst, hard=hard)


def _ports(ctx: Context) -> Hits:
    rows = findings(ctx.run, "Net device").filter(
        ~pl.col("message").is_in([*playing("port-differs"), *playing("port-missing")])
    )
    down = rows.filter(pl.col("port_note").str.contains("not active").fill_null(False))
    shown = down if down.height else rows
    if shown.height:
        yield ctx.says("ports", refs(shown, MOST), down=down, first=shown.row(0, named=True))


def _remarks(ctx: Context) -> Hits:
    rows = findings(ctx.run, *_REMARKS)
    if rows.height:
        checks = rows["diag_check"].unique(maintain_order=True)
        yield ctx.says("remarks", refs(rows, MOST), checks=checks, rows=rows)
