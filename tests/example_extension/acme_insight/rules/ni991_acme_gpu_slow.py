"""A GPU was slower than the others in Acme's burn-in."""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.base.model import CannotJudge, Hit, Ref
from nccl_insight.rules.context import Context


def check(ctx: Context) -> Iterator[Hit | CannotJudge]:
    """One finding for each slow GPU."""
    rows = ctx.run.table("acme_burnin").to_dicts()
    best = max(row["tflops"] for row in rows)
    for row in rows:
        if row["tflops"] < 0.8 * best:
            yield Hit(
                title=f"GPU {row['gpu']} reached {row['tflops']:.0f} TFLOP/s in the burn-in, the best one {best:.0f}",
                explanation="GPUs of one kind differ by a few percent at most.",
                observed=f"{row['tflops']:.0f} TFLOP/s",
                expected=f"about {best:.0f} TFLOP/s",
                next_step=f"acme-burnin --gpu {row['gpu']}",
                evidence=(Ref(row["input_id"], row["line"]),),
            )
