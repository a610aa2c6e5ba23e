"""What RAS reports and the log itself say of processes that others wait for: dead, without an answer, silent."""

from collections.abc import Iterator

import polars as pl

from nccl_insight.base.model import Confidence
from nccl_insight.facts.progress.claims import LOG, RAS, Claim, worded
from nccl_insight.facts.setup.settings import refs
from nccl_insight.loading.assemble.places import Places, places, rank_in_job
from nccl_insight.tables.run import Run, fact


def witnesses(run: Run) -> Iterator[Claim]:
    """The claims of sources that tell how a process is, not where it stands."""
    known = places(run)
    yield from _lost(run, known)
    rows = run.table("milestones")
    if rows.is_empty() or not known.world:
        return
    # Ranks of the largest communicator whose lines end while those of the others go on.
    quiet = rows.filter(pl.col("end").cast(pl.String) == "silent").select("comm_id", "rank").drop_nulls()
    placed = {p for c, r in quiet.iter_rows() if (p := rank_in_job(run, c, int(r))) is not None}
    if placed and len(placed) * 2 < known.world:
        ranks = tuple(sorted(placed))
        said = worded("stopped", {"ranks": ranks})
        yield Claim(LOG, "stopped", ranks, known.hosts(ranks), (), Confidence.LOW, said, ())


def _gone(run: Run) -> pl.DataFrame:
    """The rows in which RAS calls a process dead (``dead``), or has no answer of it."""
    ras = run.table("ras")
    dead = pl.col("event").is_in(["dead", "dead_member"]) | (
        (pl.col("event") == "peer") & pl.col("status").is_in(["PEER_DEAD", "PEER_TIMEOUT_DEAD"])
    )
    rows = ras.filter((dead | (pl.col("event") == "incomplete_member")) & pl.col("report").is_not_null())
    return rows.filter(pl.col("pid").is_not_null() | pl.col("rank").is_not_null()).with_columns(dead=dead)


@fact
def lost(run: Run) -> dict[int, bool]:
    """The ranks that RAS has no answer of, and whether it calls them dead."""
    if not run.has("ras"):
        return {}
    gone = _gone(run).drop_nulls("global_rank").group_by("global_rank", maintain_order=True).agg(pl.col("dead").any())
    return dict(gone.iter_rows())


def _lost(run: Run, known: Places) -> Iterator[Claim]:
    for is_dead in (True, False):
        ranks = tuple(sorted(r for r, d in lost(run).items() if d is is_dead))
        if ranks:
            rows = _gone(run)
            hosts = known.hosts(ranks) or tuple(sorted(known.hosts_at(rows, "host")))
            proof, sure = ("dead", Confidence.MEDIUM) if is_dead else ("no-answer", Confidence.LOW)
            said = worded(proof, {"ranks": ranks, "many": len(ranks) > 1})
            yield Claim(RAS, proof, ranks, hosts, (), sure, said, refs(rows, 2))
