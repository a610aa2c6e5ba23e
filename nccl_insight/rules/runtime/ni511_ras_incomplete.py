"""NCCL's RAS report lacks data of some processes, or calls them dead."""

import polars as pl

from nccl_insight.base.model import Ref
from nccl_insight.base.units import plural, rank_words
from nccl_insight.facts.absent import tells
from nccl_insight.facts.claims import RAS
from nccl_insight.facts.settings import named as named_hosts
from nccl_insight.loading.assemble.places import places
from nccl_insight.rules.context import Context, Hits

_EVENTS = ("incomplete", "incomplete_member", "dead", "dead_member")


def check(ctx: Context) -> Hits:
    """One finding for all that is missing."""
    run = ctx.run
    ras = run.table("ras").filter(pl.col("report").is_not_null())
    lost = pl.col("event").is_in(_EVENTS) | ((pl.col("event") == "peer") & (pl.col("status") == "PEER_DEAD"))
    rows = ras.filter(lost)
    if rows.is_empty():
        return
    corrupt = _corrupt(ras, rows)
    sound = rows.join(corrupt, on=["input_id", "line"], how="anti", nulls_equal=True) if corrupt.height else rows
    members = sound.filter(pl.col("pid").is_not_null() | pl.col("rank").is_not_null())
    dead = rows.filter(pl.col("event").is_in(["dead", "dead_member", "peer"]))
    ranks = tuple(sorted({r for r in members["rank"].drop_nulls().to_list() if 0 <= r < 2**31}))
    processes = members.filter(pl.col("pid").is_not_null()).unique(["host", "pid"], maintain_order=True)
    named = [f"{p} on {h}" for h, p in processes.select("host", "pid").iter_rows()]
    known = places(run)
    placed = set(members["global_rank"])
    # Each communicator of a report numbers its ranks.
    if None not in placed or members["comm_hash"].n_unique() > 1:
        ranks = tuple(sorted(r for r in placed if r is not None))
    if not corrupt.height and tells(run, RAS, ranks):
        return  # ranks that did not come, which more than RAS says: one finding
    hosts = tuple(sorted(known.hosts_at(processes, "host")))
    if None not in placed:
        hosts = known.hosts(ranks) or hosts
    what = []
    if named:
        shown = ", ".join(named[:4]) + (f" and {len(named) - 4:,} more" if len(named) > 4 else "")
        what.append(f"{plural(len(named), 'process', 'processes')} missing ({shown})")
    elif sound.height:
        what.append(f"data of {plural(_most(sound), 'process', 'processes')} missing")
    if ranks:
        what.append(rank_words(ranks))
    if corrupt.height:
        what.append(f"{plural(corrupt.height, 'entry', 'entries')} with impossible values, which are corrupt")
    yield ctx.says(
        "found",
        tuple(Ref(i, n or 0, t) for i, n, t in rows.select("input_id", "line", "text").iter_rows()),
        whom=(*ranks, *hosts),
        what="; ".join(what),
        silent=dead["pid"].null_count() < dead.height and ranks and not corrupt.height,
        gone=", processes dead" if dead.height else "",
        who="the processes" if len(ranks) > 1 else "the process",
        do="they do" if len(ranks) > 1 else "it does",
        named_ranks=rank_words(ranks),
        at=f" on {named_hosts(hosts)}" if hosts else "",
        pids=", ".join(str(p) for p in processes["pid"].head(4)),
        observed="; ".join(rows["text"].drop_nulls().head(4).to_list())[:300],
        corrupt=corrupt,
        dead=dead,
    )


def _corrupt(ras: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Entries with more missing ranks than their communicator has, or ranks beyond it."""
    sizes = ras.filter(pl.col("event") == "group").select("input_id", "report", "group", _size=pl.col("ranks_per_comm"))
    known = rows.filter(pl.col("group").is_not_null()).join(sizes, on=["input_id", "report", "group"], how="left")
    return known.filter(
        (pl.col("count") > pl.col("_size")) | (pl.col("rank") >= pl.max_horizontal(pl.col("_size"), pl.lit(1)))
    )


def _most(rows: pl.DataFrame) -> int:
    value = rows["count"].max()
    return value if isinstance(value, int) else 1
