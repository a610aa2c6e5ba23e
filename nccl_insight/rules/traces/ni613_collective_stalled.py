"""All ranks of a group are in the same operation and none finishes it."""

from collections.abc import Iterator

import polars as pl

from nccl_insight.base.model import Confidence, Hit, Severity
from nccl_insight.base.units import capital, format_ranks, plural, rank_words
from nccl_insight.facts import flight_recorder
from nccl_insight.facts.absent import absences, refuted
from nccl_insight.facts.claims import DUMPS, WATCHDOG
from nccl_insight.facts.journey import last_of_input
from nccl_insight.facts.waitfor import Stalled, verdict
from nccl_insight.language.load import playing
from nccl_insight.rules._absent import LIST_DUMPS
from nccl_insight.rules._errors import Trouble
from nccl_insight.rules._traces import with_hosts
from nccl_insight.rules.context import Context, Hits, hit
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """One finding for the operation that was issued first; the others wait behind it."""
    run = ctx.run
    if absences(run):
        return
    if flight_recorder.mismatches(run) or verdict(run, DUMPS).crossed:
        return
    for source, told in ((DUMPS, _from_dumps), (WATCHDOG, _from_watchdog)):
        if found := verdict(run, source).stalled:
            yield told(run, found[0], _more(len(found) - 1))
            return
    if not flight_recorder.dumped(run):
        yield from _unanswered(ctx)


def _unanswered(ctx: Context) -> Iterator[Hit]:
    """An engine that waits for its workers, says so again and again, and nothing else."""
    found = ctx.lines()
    if found is None:
        return
    said = Trouble(found.rows.filter(pl.col("message").is_in(playing("unanswered"))))
    if said.count > 1 and last_of_input(ctx.run, said.rows).height:
        yield from ctx.report(
            f"The engine waits for its workers, and says nothing else ({plural(said.count, 'time')} so far)",
            explanation="An engine that has nothing to do may wait as well. Behind a request, or before its service is "
            "up, a worker compiles, loads, or stands in a collective or a kernel that does not end.",
            severity=Severity.WARNING,
            confidence=Confidence.LOW,
            rows=said,
        )


def _more(others: int) -> str:
    return f" {plural(others, 'further group')} {'are' if others > 1 else 'is'} stuck likewise." if others else ""


def _from_watchdog(run: Run, item: Stalled, more: str) -> Hit:
    """A group of which every rank timed out in the same operation: nobody is missing."""
    all_of = "" if item.whole else " that the log holds"
    return hit(
        item.evidence,
        whom=(),
        title=f"All {len(item.ranks)} ranks{all_of} waited in collective {item.seq} "
        f"({item.op or 'operation unknown'}) and none finished it",
        next_step=f"ncclras; {LIST_DUMPS}   # dumps on every host: analyzed with the logs, they tell whether all "
        "ranks mean the same operation and size; then mlxlink -d <device> -m -c; nvidia-smi nvlink -e",
        explanation="No rank is missing, so the program reached the operation everywhere. Data does not move, or the "
        "ranks mean different operations."
        + more
        + ("" if item.whole else " No line tells how many ranks the job has; one without any output may be missing."),
        observed=f"{rank_words(item.ranks)} in collective {item.seq}",
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM if item.whole else Confidence.LOW,
        first_s=item.first_s,
        last_s=item.first_s,
    )


def _from_dumps(run: Run, item: Stalled, more: str) -> Hit:
    word = "started" if item.started else "issued"
    absent = "" if item.whole else " Not all members gave a dump; one of them may be the missing one."
    untold = " The dumps do not tell whether GPUs started it (TORCH_NCCL_ENABLE_TIMING=1 would)."
    return hit(
        item.evidence,
        whom=with_hosts(run, item.ranks),
        title=f"All {plural(len(item.ranks), 'rank')} have {word} {item.op} and none finished it",
        explanation="Nobody is behind: the transfer itself hangs (network, link or GPU)."
        + ("" if item.started else untold)
        + more
        + absent
        + "".join(
            f" {capital(c.source)} says otherwise ({c.said}); the dumps are the better evidence."
            for c in refuted(run)[:2]
        ),
        observed=f"{word} on ranks {format_ranks(item.ranks)}, finished on none",
        confidence=Confidence.MEDIUM if item.whole else Confidence.LOW,
    )
