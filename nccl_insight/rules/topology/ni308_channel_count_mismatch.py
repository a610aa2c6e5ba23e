"""Ranks of one communicator have different numbers of channels."""

from nccl_insight.facts.setup.outliers import Outlier, outliers
from nccl_insight.facts.who.members import unambiguous
from nccl_insight.loading.assemble.places import placed
from nccl_insight.rules.context import Context, Hits

_FACTS = (
    ("coll_channels", "collective channels"),
    ("nvls_channels", "NVLS channels"),
    ("collnet_channels", "CollNet channels"),
    ("p2p_channels", "point-to-point channels"),
    ("p2p_channels_per_peer", "point-to-point channels per peer"),
)


def check(ctx: Context) -> Hits:
    """One finding for each set of odd ranks, for the first count that differs."""
    run = ctx.run
    counts = placed(run, unambiguous(run, run.table("channel_counts")))
    found: dict[tuple[tuple[int, ...], tuple[str, ...]], tuple[Outlier, str]] = {}
    for column, words in _FACTS:
        for odd in outliers(counts, column):
            found.setdefault((odd.ranks, odd.hosts), (odd, words))
    for odd, words in found.values():
        yield ctx.says("found", odd, comm_id=odd.comm_id, odd=odd, words=words)
