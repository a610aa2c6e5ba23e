"""A peer process exited."""

import polars as pl

from nccl_insight.base.model import Severity
from nccl_insight.base.units import format_ranks
from nccl_insight.facts.said.course import left_in_order
from nccl_insight.facts.said.ends import ends
from nccl_insight.facts.said.errors import CONSEQUENCE, causes
from nccl_insight.facts.setup.settings import named
from nccl_insight.facts.who.members import completed
from nccl_insight.language.load import playing
from nccl_insight.loading.assemble.places import places
from nccl_insight.rules._closed import accepting
from nccl_insight.rules._errors import Trouble
from nccl_insight.rules._outside import loud_besides
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """One finding for closed connections, with the peers named."""
    run = ctx.run
    lost = causes(run).filter(pl.col("cause") == ctx.name).join(accepting(run), on=["input_id", "line"], how="anti")
    if lost.is_empty():
        return
    # Ranks leave in any order after the last step, and the one that keeps the store is often the first.
    if lost["message"].is_in(playing("store")).fill_null(value=False).all():
        over = bool(causes(run)["message"].is_in(playing("agent-end")).any())
        # torch's store is gone, and nothing else was closed: the end of a job, or of the process that kept it.
        yield from ctx.tells("store-gone", rows=Trouble(lost), address=Trouble(lost).value("c10d_remote"), over=over)
        return
    found = Trouble(lost)
    named_peers = lost["peer"].drop_nulls().str.split("<").list.first().unique().sort()
    silent = _silent(run, found)
    gone = _gone(run, found)
    peers = [p for p in named_peers.to_list() if p]
    where = f" by {named(peers)}" if peers else ""
    quiet = f" Ranks {format_ranks(silent)} reported nothing: look at those first." if silent else ""
    both = not peers and gone is None and len(found.hosts) > 1 and not ends(run)
    reset = both and bool(found.rows["text"].str.contains("reset by peer").all())
    yield from ctx.tells(
        "found",
        whom=None if gone is None else (*_only_rank(run, gone), *gone),
        rows=found,
        severity=Severity.INFO if _restarted(run, found) or _finished(run, found) or _left(ctx) else None,
        reset=reset,
        found=found,
        where=where,
        quiet_said=quiet,
    )


def _gone(run: Run, found: Trouble) -> tuple[str, ...] | None:
    """The hosts of the peers named that report nothing themselves: that is where a process ended."""
    known = places(run)
    hosts = (known.hosts_at(found.rows) & known.machines) - set(found.hosts)
    return tuple(sorted(hosts)) or None


def _only_rank(run: Run, gone: tuple[str, ...]) -> tuple[int, ...]:
    """The rank that ended, where the hosts have one only."""
    ranks = places(run).on(gone)
    return tuple(ranks) if len(ranks) == 1 else ()


def _restarted(run: Run, found: Trouble) -> bool:
    """Whether the same ranks began anew after these lines and came up: the log of an earlier attempt."""
    last = found.rows.group_by("input_id").agg(pl.col("line").max().alias("_last"))
    later, done = (
        ranks.drop_nulls(["rank", "line"]).join(last, on="input_id").filter(pl.col("line") > pl.col("_last"))
        for ranks in (run.table("ranks"), completed(run))
    )
    size = later["nranks"].max()
    return isinstance(size, int) and done.filter(pl.col("nranks") == size)["rank"].n_unique() == size


def _finished(run: Run, found: Trouble) -> bool:
    """Whether the process had destroyed all its communicators, or the whole job had: connections close then."""
    known = run.table("milestones").drop_nulls(["host", "pid"])
    if known.is_empty() or known["destroyed"].null_count():
        return False
    last = known.group_by("input_id").agg(pl.col("destroyed").max().alias("_last"))
    told = found.rows.join(last, on="input_id", how="left")
    aborted = (known["end"].cast(pl.String) == "aborted").any()
    return not aborted and bool((told["_last"].is_not_null() & (told["line"] > told["_last"])).all())


def _left(ctx: Context) -> bool:
    """Whether nothing was lost: every rank closed in order, and nothing else failed. Ranks leave one after another."""
    quiet = (ctx.name, CONSEQUENCE, "ib-libibverbs-missing")
    return left_in_order(ctx.run) and not ends(ctx.run) and not loud_besides(ctx.run, quiet)


def _silent(run: Run, found: Trouble) -> list[int]:
    """Ranks of the largest communicator that did not report a closed connection, if they are few."""
    ranks = run.table("ranks").drop_nulls("rank")
    if ranks.is_empty() or not found.ranks:
        return []
    largest = ranks.sort("nranks", descending=True)["comm_id"][0]
    every = set(ranks.filter(pl.col("comm_id") == largest)["rank"])
    rest = sorted(every - set(found.ranks))
    return rest if rest and len(rest) * 2 <= len(every) else []
