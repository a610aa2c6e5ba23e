"""What the watchdog's lines of all ranks say together, for the rules on collectives that do not finish."""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.base.model import Confidence, Hit, Severity
from nccl_insight.base.units import rank_words
from nccl_insight.facts.waitfor import verdicts
from nccl_insight.rules.context import hit
from nccl_insight.tables.run import Run

#: Where PyTorch leaves the dumps of its flight recorder: in the cache of the user; older releases in /tmp.
LIST_DUMPS = "ls ~/.cache/torch/*_trace_rank_* /tmp/nccl_trace_rank_*"


def stalled(run: Run) -> Iterator[Hit]:
    """Groups of which every rank timed out in the same operation: nobody is missing."""
    for item in verdicts(run)[1]:
        yield hit(
            item.evidence,
            title=f"All {len(item.ranks)} ranks waited in collective {item.seq} "
            f"({item.op or 'operation unknown'}) and "
            "none finished it",
            next_step=f"ncclras; {LIST_DUMPS}   # dumps on every host: analyzed with the logs, they tell whether all "
            "ranks mean the same operation and size; then mlxlink -d <device> -m -c; nvidia-smi nvlink -e",
            explanation="No rank is missing, so the program reached the operation everywhere. Data does not "
            "move, or the "
            "ranks mean different operations.",
            observed=f"{rank_words(item.ranks)} in collective {item.seq}",
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
            first_s=item.first_s,
            last_s=item.first_s,
        )
