"""All ranks of a group are in the same operation and none finishes it."""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.base.model import CannotJudge, Confidence, Hit, Ref
from nccl_insight.base.units import capital, format_ranks, plural
from nccl_insight.facts.absent import absences, refuted
from nccl_insight.facts.flight_recorder import verdict
from nccl_insight.facts.flight_recorder.waits import Stalled
from nccl_insight.rules._traces import with_hosts
from nccl_insight.rules._watchdog import stalled
from nccl_insight.rules.context import Context, hit
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Iterator[Hit | CannotJudge]:
    """One finding for the operation that was issued first; the others wait behind it."""
    run = ctx.run
    judged = verdict(run)
    if judged is None:
        if not absences(run):
            yield from stalled(run)
        return
    if judged.suspects or judged.mismatches or judged.not_entered or absences(run):
        return
    whole = [s for s in judged.stalled if s.whole] or [s for s in judged.stalled if not judged.silent]
    if whole:
        yield _hit(run, whole[0], len(whole) - 1)


def _hit(run: Run, item: Stalled, others: int) -> Hit:
    where = f"{item.operation.name} of group {item.group.label}"
    ranks = item.ranks
    started = not item.unknown
    word = "started" if started else "issued"
    more = (
        f" {plural(others, 'further group')} {'are' if others > 1 else 'is'} stuck in the same way." if others else ""
    )
    absent = "" if item.whole else " Not all members gave a dump; one of them may be the missing one."
    return hit(
        (Ref(item.operation.input_id, 0, f"ranks {format_ranks(ranks)} are in {where}"),),
        whom=with_hosts(run, ranks),
        title=f"All {plural(len(ranks), 'rank')} have {word} {where} and none finished it",
        explanation="Nobody is behind: the transfer itself hangs (network, link or GPU)."
        + ("" if started else " The dumps do not tell whether GPUs started it (TORCH_NCCL_ENABLE_TIMING=1 would).")
        + more
        + absent
        + "".join(
            f" {capital(c.source)} says otherwise ({c.said}); the dumps are the better evidence."
            for c in refuted(run)[:2]
        ),
        observed=f"{'started' if started else 'issued'} on ranks {format_ranks(ranks)}, finished on none",
        confidence=Confidence.MEDIUM if item.whole else Confidence.LOW,
    )
