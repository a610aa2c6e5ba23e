"""Findings about ranks that differ from the majority of their communicator: who they are, and the lines of both."""

from nccl_insight.base.model import Ref
from nccl_insight.base.units import rank_words
from nccl_insight.facts.outliers import Outlier
from nccl_insight.facts.settings import named


def subject(odd: Outlier) -> str:
    """``gpu02`` where all ranks of a host differ, else ``ranks 3 and 4``."""
    return named(odd.whole_hosts) if odd.whole_hosts else rank_words(odd.ranks)


def both_sides(odd: Outlier) -> tuple[Ref, ...]:
    """Two lines of the ranks that differ, and those of the majority."""
    return (*odd.evidence[:2], *odd.majority_evidence)
