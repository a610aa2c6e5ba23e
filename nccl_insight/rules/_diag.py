"""Findings of NCCL's own diagnostics as hits of the diagnosis that names their cause."""

from collections.abc import Iterator

import polars as pl

from nccl_insight.base.model import Hit
from nccl_insight.base.units import rank_words
from nccl_insight.facts.said.diagnostics import findings, hosts_in
from nccl_insight.facts.setup.settings import hosts_of, named, refs
from nccl_insight.language.load import playing
from nccl_insight.rules.context import Context, says
from nccl_insight.tables.run import Run

MOST = 4


def _comm(rows: pl.DataFrame) -> str | None:
    known = rows["comm_id"].drop_nulls()
    return str(known[0]) if known.len() else None


def located(
    run: Run, rows: pl.DataFrame, ranks: tuple[int, ...] | None = None
) -> tuple[tuple[int, ...], tuple[str, ...], str]:
    """Ranks (of the lines' rank sets unless given) and their hosts, and both in words."""
    ranks = tuple(rows["ranks"].explode().drop_nulls().unique().sort()) if ranks is None else ranks
    hosts = hosts_in(run, _comm(rows), ranks) if ranks else ()
    words = rank_words(ranks) if ranks else "some ranks"
    total = rows["n_ranks"].max()
    if isinstance(total, int) and total > len(ranks) > 0:
        words += f" and {total - len(ranks)} more"
    return ranks, hosts, f"{words} on {named(hosts)}" if hosts else words


def settings_differ(run: Run, known: frozenset[str]) -> Iterator[Hit]:
    """Settings that differ between ranks, one hit each, but for the names in ``known``."""
    rows = findings(run, "NCCL environment")
    values = rows.filter(pl.col("diag_setting").is_not_null())
    for (name,), part in values.group_by("diag_setting", maintain_order=True):
        if name in known:
            continue
        shown = [
            f"{row['setting_value'] or '(empty)'} on {row['rank_set']}" for row in part.head(3).iter_rows(named=True)
        ]
        fewest = part.sort("n_ranks", maintain_order=True).head(1)
        ranks, hosts, who = located(run, fewest)
        heading = rows.filter(pl.col("name") == name)
        yield says(
            "env-mismatch.settings-differ",
            refs(pl.concat([heading, part]), MOST),
            whom=(*ranks, *hosts),
            comm_id=_comm(heading),
            name=name,
            all_shown="; ".join(shown),
            setting_value=fewest.item(0, "setting_value") or "(empty)",
            who=who,
        )


def diagnosed(ctx: Context, key: str, rows: pl.DataFrame, **given: object) -> Iterator[Hit]:
    """A hit in words of the check's page for these lines, who prints them included; none without lines."""
    if rows.height:
        ranks, hosts, who = located(ctx.run, rows)
        first = rows.row(0, named=True)
        yield ctx.says(key, refs(rows, MOST), whom=(*ranks, *hosts), who=who, rows=rows, first=first, **given)


def ports_missing(run: Run) -> Iterator[Hit]:
    """Network devices that only some hosts have: one hit."""
    rows = findings(run, "Net device").filter(pl.col("message").is_in(playing("port-missing")))
    if rows.is_empty():
        return
    first = rows.row(0, named=True)
    names = rows["hca_name"].unique(maintain_order=True).to_list()
    yield says(
        "nic-count-mismatch.ports-missing", refs(rows, MOST), first_names=", ".join(names[:4]), first=first, names=names
    )


def slow_pairs(run: Run) -> Iterator[Hit]:
    """Ranks whose NIC measured more than 30% off the median: one hit."""
    rows = findings(run, "net bw").filter(pl.col("bw_min_gbit").is_not_null() & pl.col("rank").is_not_null())
    if rows.is_empty():
        return
    slow = rows.sort("bw_min_gbit", maintain_order=True)
    ranks = tuple(sorted({int(r) for r in slow["rank"].to_list()}))
    yield says("nccl-diag-failed.slow-pairs", refs(rows, MOST), whom=(*ranks, *hosts_of(slow, "node_name")), slow=slow)


def events(run: Run) -> Iterator[tuple[int, bool, Hit]]:
    """Xid and SXid numbers in the kernel logs of hosts: number, whether NVSwitch's, and a hit without advice."""
    rows = findings(run, "Xid", "SXid").filter(pl.col("xid").is_not_null())
    for (check, number), part in list(rows.group_by("diag_check", "xid", maintain_order=True))[:MOST]:
        fatal = check == "SXid" and (part["sxid_class"] == "Fatal").any()
        switch = check == "SXid"
        yield (
            int(str(number)),
            switch,
            says(
                "xid-error.events",
                refs(part, MOST),
                whom=tuple(part["node_name"].drop_nulls().unique().sort()),
                explanation=str(part.item(0, "guidance") or ""),
                observed=f"{check} {number}",
                check=check,
                number=number,
                count=int(part["n_events"].sum()),
                fatal=fatal,
            ),
        )
