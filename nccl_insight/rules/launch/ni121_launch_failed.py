"""The launcher could not start processes of the job."""

import polars as pl

from nccl_insight.facts.said.course import signs_of_life
from nccl_insight.facts.said.ends import FAILED, described, pod_of
from nccl_insight.facts.said.errors import causes
from nccl_insight.facts.said.topics import plays
from nccl_insight.facts.who.members import completed
from nccl_insight.language.load import playing
from nccl_insight.loading.assemble.places import places
from nccl_insight.readers.embedded.tags import read_tag
from nccl_insight.rules import _outside as outside
from nccl_insight.rules._errors import Trouble
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all lines."""
    run = ctx.run
    found = ctx.lines()
    if found is None:
        return
    rows = found.rows.filter(~pl.col("launcher").fill_null("").str.contains(r"git@|gitlab|github"))
    if rows.is_empty():
        return
    found = Trouble(rows)
    known = places(run)
    pods, listed = described(run), rows.to_dicts()
    named = {host for row in listed for host in known.whom(row, pod_of(row, pods))[1]}
    # A step that did not start ends with an exit code where no process came to NCCL.
    absent = [e for e in outside.of_kind(run, FAILED) if e.strange and not e.exception and not named]
    reported = outside.hosts_of(absent)
    own = {name for row in listed for name in read_tag(row["launcher"]).maybe if name in reported}
    hosts = tuple(sorted(named or own)) or reported
    ranks = run.table("ranks")
    came_up = completed(run).height > 0 or run.has("connections")
    came_up |= bool((ranks["destroyed"].cast(pl.String) == "destroyed").any())
    # What a launcher says behind the last step of the ranks that it started: others, or the next attempt.
    end = max(signs_of_life(run).values(), default=0)
    came_up &= not bool(((rows["line"].cast(pl.Int64) > end) & ~plays(rows, "own-start")).any())
    # A process that only reports what it met on its way up may go on.
    met = bool((rows["role"].cast(pl.String) == "effect").all())
    # Ranks that end for a daemon of the network take MPI's daemons with them.
    ended = causes(run).filter(pl.col("message").is_in(playing("network-daemon")))["cause"]
    yield from ctx.tells(
        "found",
        whom=(*outside.ranks_of(absent), *hosts),
        quiet=None,
        rows=found,
        caused_by=tuple(ended.unique().sort()),
        found=found,
        hosts=hosts,
        came_up=came_up,
        met=met,
    )
