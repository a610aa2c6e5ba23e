"""NCCL's RAS report lacks data of some processes, or calls them dead."""

from collections.abc import Iterator

import polars as pl

from nccl_insight.base.model import Ref
from nccl_insight.base.units import plural, rank_words
from nccl_insight.facts.progress.absent import tells
from nccl_insight.facts.progress.claims import RAS
from nccl_insight.facts.setup.settings import named as named_hosts
from nccl_insight.loading.assemble.places import places
from nccl_insight.readers import ras as reports
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run

_EVENTS = ("incomplete", "incomplete_member", "dead", "dead_member")
_SHOWN = 4


def check(ctx: Context) -> Hits:
    """One finding for all that is missing."""
    run = ctx.run
    ras = run.table("ras").filter(pl.col("report").is_not_null())
    lost = pl.col("event").is_in(_EVENTS) | ((pl.col("event") == "peer") & (pl.col("status") == "PEER_DEAD"))
    rows = ras.filter(lost)
    if rows.is_empty():
        return
    corrupt = reports.corrupt(ras, rows, ("input_id", "report"))
    sound = rows.join(corrupt, on=["input_id", "line"], how="anti", nulls_equal=True)
    members = sound.filter(pl.col("pid").is_not_null() | pl.col("rank").is_not_null())
    dead = rows.filter(pl.col("event").is_in(["dead", "dead_member", "peer"]))
    processes = members.filter(pl.col("pid").is_not_null()).unique(["host", "pid"], maintain_order=True)
    ranks, hosts = _whom(run, members, processes)
    if not corrupt.height and tells(run, RAS, ranks):
        return  # ranks that did not come, which more than RAS says: one finding
    silent = dead["pid"].null_count() < dead.height and ranks and not corrupt.height
    yield ctx.says(
        "found",
        tuple(Ref(i, n or 0, t) for i, n, t in rows.select("input_id", "line", "text").iter_rows()),
        whom=(*ranks, *hosts),
        what="; ".join(_missing(sound, processes, ranks, corrupt.height)),
        silent=silent and ("several" if len(ranks) > 1 else "one"),
        at=f" on {named_hosts(hosts)}" if hosts else "",
        pids=processes["pid"].head(_SHOWN),
        observed="; ".join(rows["text"].drop_nulls().head(_SHOWN).to_list())[:300],
        corrupt=corrupt,
        dead=dead,
    )


def _whom(run: Run, members: pl.DataFrame, processes: pl.DataFrame) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Ranks and hosts of what is missing: of the job, where they are known; each communicator numbers its ranks."""
    placed, known = set(members["global_rank"]), places(run)
    hosts = tuple(sorted(known.hosts_at(processes, "host")))
    if None in placed and members["comm_hash"].n_unique() <= 1:
        return tuple(sorted({r for r in members["rank"].drop_nulls().to_list() if 0 <= r < 2**31})), hosts
    ranks = tuple(sorted(r for r in placed if r is not None))
    return ranks, hosts if None in placed else known.hosts(ranks) or hosts


def _missing(sound: pl.DataFrame, processes: pl.DataFrame, ranks: tuple[int, ...], corrupt: int) -> Iterator[str]:
    """What the report lacks."""
    named = [f"{p} on {h}" for h, p in processes.select("host", "pid").iter_rows()]
    if named:
        more = f" and {len(named) - _SHOWN:,} more" if len(named) > _SHOWN else ""
        yield f"{plural(len(named), 'process', 'processes')} missing ({', '.join(named[:_SHOWN])}{more})"
    elif sound.height:
        yield f"data of {plural(max(sound['count'].drop_nulls(), default=1), 'process', 'processes')} missing"
    if ranks:
        yield rank_words(ranks)
    if corrupt:
        yield f"{plural(corrupt, 'entry', 'entries')} with impossible values, which are corrupt"
