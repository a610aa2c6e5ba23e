"""Some ranks stopped before a collective that the others issued.

What it finds
-------------
Call logs in which ranks of a communicator issued fewer collectives than their peers; ranks that print nothing while
torch's watchdog times out on all others in the same operation.

Why it matters
--------------
The others wait for them. It is the usual cause of a hang, and these are the ranks to look at.

How it decides
--------------
Calls are counted by order within each rank and communicator, only where init is in the log, every rank
that it holds printed calls, the communicator was not destroyed, and the ranks that are ahead agree on
where they stopped. Otherwise, or when the log is known to be cut, nothing is concluded. A silent rank is named where
the log shows all ranks of the job, at least half of them time out in one operation of the default group, and they
agree on it.

What to do
----------
Look at the named ranks at that point of the program: an exception, a branch, a data loader that ran dry;
py-spy dump shows where they are.

False positives
---------------
A log that ends while the job runs: ranks are then a few calls apart, without a pattern.

References
----------
NVIDIA/nccl issues 857, 719 and 1324.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.calls import collective_calls, judgeable, log_is_cut, progress
from nccl_insight.facts.settings import hosts_of, named, rank_words, ranks_of, refs
from nccl_insight.facts.watchdog import Missing, verdicts
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._faults import DEVICE, MEMORY
from nccl_insight.tables.run import Run
from nccl_insight.units import plural

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.TRIAGE
CONFIDENCE = Confidence.MEDIUM
NEEDS = ("calls", "errors")
CAUSED_BY = (*DEVICE, *MEMORY, "collective-mismatch", "invalid-argument", "algorithm-unavailable")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding a communicator with ranks behind, and one for ranks that are silent while all others time out."""
    yield from _silent(run)
    if not run.has("calls"):
        return
    if log_is_cut(run):
        yield CannotJudge(
            "lines are missing from the log, so calls cannot be counted",
            "keep one complete log a rank: NCCL_DEBUG_FILE=nccl.%h.%p",
        )
        return
    ended = (
        run.table("ranks")
        .filter(pl.col("destroyed").cast(pl.String) == "destroyed")
        .select("comm_id")
        .unique()
    )
    counts = (
        progress(run).join(judgeable(run), on="comm_id", how="semi").join(ended, on="comm_id", how="anti")
    )
    spread = counts.group_by("comm_id").agg(
        pl.col("calls").max().alias("most"),
        pl.col("calls").min().alias("least"),
        pl.col("calls").mode().max().alias("herd"),
    )
    for comm_id, most, _, herd in (
        spread.filter(pl.col("most") > pl.col("least")).sort("comm_id").head(5).iter_rows()
    ):
        here = counts.filter(pl.col("comm_id") == comm_id)
        ahead = here.filter(pl.col("calls") == most).height
        if here.height > 2 and (herd != most or ahead * 2 <= here.height):
            yield CannotJudge(
                "ranks of a communicator are at many different calls, as in a log cut while the job ran",
                "analyze the log after the job has ended",
            )
            continue
        behind = here.filter(pl.col("calls") < most)
        reached = min(behind["calls"].to_list())
        missed = collective_calls(run).filter((pl.col("comm_id") == comm_id) & (pl.col("nth") == reached))
        op = missed["op"][0] if missed.height else "collective"
        who = rank_words(ranks_of(behind))
        yield Hit(
            title=f"{who[0].upper()}{who[1:]} stopped after {plural(reached, 'collective')}; "
            f"{plural(here.height - behind.height, 'rank')} went on to "
            f"{most} ({named(hosts_of(behind)) or 'host unknown'})",
            next_step=f"py-spy dump --pid <pid of rank {behind['rank'][0]}>; look at what that rank printed last",
            explanation=f"The next collective of this communicator, {op} number {reached + 1}, was issued by the other "
            "ranks and never by these. The others wait for them.",
            observed=plural(reached, "call"),
            expected=plural(most, "call"),
            unit="calls",
            ranks=ranks_of(behind),
            hosts=hosts_of(behind),
            comm_id=str(comm_id),
            evidence=(*refs(behind, 2), *refs(missed, 1)),
            absence=f"no further call of {who} on this communicator",
        )


def _unseen(item: Missing) -> Hit:
    who = rank_words(item.ranks)
    return Hit(
        title=f"{who[0].upper()}{who[1:]} printed nothing, while {rank_words(item.waiting)} timed out in collective "
        f"{item.seq:,} ({item.op or 'operation unknown'})",
        next_step=f"look at the log and the host of {who}: the output of that process, its exit status, dmesg -T",
        explanation="All ranks that the log holds timed out in the same operation, and the missing numbers lie between "
        "theirs. Either that rank did not come, or its output is not in this log.",
        observed=f"time-outs of {rank_words(item.waiting)}",
        expected="every rank of the group issues the collective",
        ranks=item.ranks,
        severity=Severity.WARNING,
        confidence=Confidence.LOW,
        evidence=item.evidence,
        absence=f"no watchdog line of {who}",
        first_s=item.first_s,
    )


def _silent(run: Run) -> Iterator[Hit]:
    missing, _ = verdicts(run)
    for item in missing:
        if item.proof not in ("silent", "gap"):
            continue
        if item.proof == "gap":
            yield _unseen(item)
            continue
        who = f"{rank_words(item.ranks)[0].upper()}{rank_words(item.ranks)[1:]}"
        where = f" on {named(item.hosts)}" if item.hosts else ""
        limit = f" for {item.ran_ms / 1000:,.0f} s" if item.ran_ms else ""
        first = item.seq <= 1
        yield Hit(
            title=f"{who}{where} did not come to collective {item.seq:,} ({item.op or 'operation unknown'}), in which "
            f"{rank_words(item.waiting)} waited{limit}",
            next_step=f"py-spy dump --pid <pid of rank {item.ranks[0]}>; read what that rank printed last"
            + ("; init_process_group(timeout=...) longer than the preparation of rank 0" if first else ""),
            explanation="All other ranks timed out in the same operation, and these printed nothing: they are "
            "somewhere "
            "else, or gone."
            + (
                " It is the first collective: one rank may still be preparing data or loading a checkpoint."
                if first
                else ""
            ),
            observed=f"time-outs of {rank_words(item.waiting)}",
            expected="every rank of the group issues the collective",
            ranks=item.ranks,
            hosts=item.hosts,
            confidence=Confidence.HIGH if item.sure else Confidence.MEDIUM,
            evidence=item.evidence,
            absence=f"no watchdog line of {rank_words(item.ranks)}",
            first_s=item.first_s,
            last_s=item.first_s,
        )
