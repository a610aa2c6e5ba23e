"""Words with which the sentences of findings begin: whom they are about."""

from collections.abc import Iterable, Sequence

from nccl_insight.base.units import capital, rank_words
from nccl_insight.facts.setup.outliers import Outlier
from nccl_insight.facts.setup.settings import named


def ranks_on(ranks: Iterable[int], hosts: Sequence[str]) -> str:
    """``Ranks 3,4 on gpu02``, or without the hosts where none is known."""
    return capital(rank_words(ranks)) + (f" on {named(hosts)}" if hosts else "")


def subject(odd: Outlier) -> str:
    """``gpu02`` where all ranks of a host differ, else ``ranks 3 and 4``."""
    return named(odd.whole_hosts) if odd.whole_hosts else rank_words(odd.ranks)
