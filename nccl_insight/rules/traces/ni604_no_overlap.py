"""Communication and compute run one after the other.

What it finds
-------------
Ranks with much communication and much compute of which almost nothing runs at the same time.

Why it matters
--------------
Gradient synchronization can run behind the backward pass; without overlap the step is the sum of both.

How it decides
--------------
Per GPU over the recorded steps: communication and compute each at least 10% of the time, and less than 10% of the
communication covered by compute. Between the stages of a pipeline without a late rank it is a note: a stage
cannot compute on what has not arrived. So it is where collectives of tensor and expert parallel groups make up
the communication: the next layer computes on their result.

What to do
----------
DDP: look for ``no_sync``, one huge bucket, or a hook that synchronizes. FSDP: switch on backward and forward prefetch.
Check that communication has its own stream and that CUDA_DEVICE_MAX_CONNECTIONS fits the framework.

False positives
---------------
Tensor parallelism, whose collectives are on the critical path by nature; traces with activation of synchronous
debugging (CUDA_LAUNCH_BLOCKING, TORCH_NCCL_BLOCKING_WAIT).

References
----------
PyTorch DistributedDataParallel internals; HolisticTraceAnalysis overlap.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.overlap import step_summary
from nccl_insight.facts.pipeline import schedule_waits
from nccl_insight.facts.thresholds import threshold
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._traces import hosts_of, ranks_of, trace_refs
from nccl_insight.tables.run import Run
from nccl_insight.units import format_ns

CLASS = "P"
SEVERITY = Severity.WARNING
ACTION = Action.CONFIG
CONFIDENCE = Confidence.MEDIUM
NEEDS = ("steps",)
THRESHOLDS = {"least_share": 0.10, "overlap": 0.10}
SOURCES = ("HolisticTraceAnalysis: communication-computation overlap",)


def _share(overlap: float) -> str:
    return "None" if overlap < 0.005 else f"Only {overlap:.0%}"


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all ranks."""
    least = threshold(run, "no-overlap", "least_share", THRESHOLDS["least_share"])
    limit = threshold(run, "no-overlap", "overlap", THRESHOLDS["overlap"])
    bad = (
        step_summary(run)
        .filter(
            (pl.col("comm_share") >= least)
            & (pl.col("compute_ns") >= least * pl.col("duration_ns"))
            & (pl.col("overlap_share") < limit)
        )
        .sort("comm_share", descending=True)
    )
    if bad.is_empty():
        return
    worst = bad.row(0, named=True)
    ranks = ranks_of(bad)
    staged = schedule_waits(run).height > 0
    own = bad.filter(pl.col("comm_share") - pl.col("inline_share") >= least)
    yield Hit(
        severity=Severity.INFO if staged or own.is_empty() else None,
        title=f"{_share(worst['overlap_share'])} of the communication runs while the GPU computes",
        explanation=f"Communication {format_ns(worst['comm_ns'])} and compute {format_ns(worst['compute_ns'])} run one "
        f"after the other in {format_ns(worst['duration_ns'])}.",
        observed=f"{worst['overlap_share']:.1%} of communication covered by compute",
        expected=f"{limit:.0%} or more where gradients are synchronized behind the backward pass",
        next_step="check bucket size, prefetch and streams of the framework; look for blocking waits",
        ranks=ranks,
        hosts=hosts_of(run, ranks),
        evidence=trace_refs(
            (
                i,
                f"rank {'?' if r is None else r}: comm {format_ns(c)}, compute {format_ns(p)}, overlap {o:.1%}",
            )
            for i, r, c, p, o in bad.select(
                "input_id", "rank", "comm_ns", "compute_ns", "overlap_share"
            ).iter_rows()
        ),
    )
