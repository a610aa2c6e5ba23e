"""Why a rank is late: its kernels take longer, it has more of them, its GPU waits for the CPU, or copies hold it up.

Waiting ranks stand inside a collective, which is neither compute nor idle time. So the excess of a late rank over the
others in one of these kinds of time is its own lateness, whatever clock it has.
"""

from collections.abc import Sequence
from typing import Final, Literal

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.tables.run import Run

_MOSTLY: Final = 0.6
_LEAST: Final = 0.02
_LEAST_NS: Final = 20_000
_COUNT: Final = 0.5

Kind = Literal["kernels", "work", "host", "copies"]


@dataclass(frozen=True)
class Reason:
    """What the late ranks spend longer on than the others, by ``excess_ns`` in a mean step (``whole``: in all).

    ``kernels``: as many kernels, each longer by ``ratio``. ``work``: ``ratio`` times as many kernels. ``host``: the GPU
    is idle until the CPU launches. ``copies``: copies that no kernel hides. ``others_ns`` is the others' time of the
    same kind.
    """

    kind: Kind
    excess_ns: int
    others_ns: int
    ratio: float
    whole: bool


def reason(run: Run, ranks: Sequence[int], among: Sequence[int], steps: Sequence[int] = ()) -> Reason | None:
    """Why ``ranks`` are later than the rest of ``among``; only in ``steps``, where given.

    Means over steps: those of the late ranks against the median of the others. None where the traces do not tell time
    on the GPU, and where no kind of time is most of the excess.
    """
    rows = run.table("steps").filter(pl.col("compute_ns").is_not_null() & pl.col("rank").is_not_null())
    rows = rows.filter(pl.col("rank").is_in([*ranks, *among]))
    if steps:
        rows = rows.filter(pl.col("step").is_in(steps))
    late = pl.col("rank").is_in(ranks)
    if rows.filter(late).is_empty() or rows.filter(~late).is_empty():
        return None
    idle = pl.coalesce("idle_host_ns", "idle_ns")
    each = rows.group_by("rank").agg(
        work=pl.col("compute_ns").mean(),
        host=idle.mean(),
        copies=pl.col("exposed_copy_ns").mean(),
        kernels=pl.col("compute_kernels").mean(),
    )
    kinds: tuple[Kind, ...] = ("work", "host", "copies")
    names = (*kinds, "kernels")
    mine = each.filter(late).select(pl.col(names).mean()).row(0, named=True)
    usual = each.filter(~late).select(pl.col(names).median()).row(0, named=True)
    more: dict[Kind, float] = {n: float(mine[n] or 0) - float(usual[n] or 0) for n in kinds}
    total = sum(v for v in more.values() if v > 0)
    kind: Kind = max(more, key=lambda n: more[n])
    excess = more[kind]
    duration = float(rows.filter(~late)["duration_ns"].mean() or 0)  # type: ignore[arg-type]
    if excess < max(_LEAST * duration, _LEAST_NS) or excess < _MOSTLY * total:
        return None
    others, ratio = float(usual[kind] or 0), 0.0
    if kind == "work":
        if not others:
            return None
        kind, ratio = "kernels", float(mine["work"]) / others
        count = float(mine["kernels"] or 0) / float(usual["kernels"]) if usual["kernels"] else 1.0
        if count - 1 >= _COUNT * min(ratio - 1, 1.0):  # half as many again are other work, however long they are
            kind, ratio = "work", count
    return Reason(kind, round(excess), round(others), ratio, rows["step"].null_count() == rows.height)
