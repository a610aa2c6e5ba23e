"""The framework's watchdog gave up on a collective.

What it finds
-------------
Time-outs of PyTorch's process group watchdog, with operation, sequence number and ranks.

Why it matters
--------------
A collective did not finish within the time limit. It is a symptom: the cause is on the rank that did not
take part, or in the network.

How it decides
--------------
The watchdog's message decides.
Any other failure in the log is taken as the cause; the rank that reports
is usually only waiting.

What to do
----------
Compare the last sequence number of all ranks: those that lag behind are where to look. Analyze the flight recorder's
dumps of all ranks together with the logs. Recent torch keeps it on, and writes to TORCH_FR_DUMP_TEMP_FILE, by default
~/.cache/torch/comm_lib_trace_rank_<n>; older releases to /tmp/nccl_trace_rank_<n>.

False positives
---------------
Legitimately long steps (first step, checkpoints, graph capture): raise the time limit.

References
----------
PyTorch documentation, distributed (flight recorder); NCCL troubleshooting guide.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report, trouble
from nccl_insight.rules._faults import ANY
from nccl_insight.rules._watchdog import LIST_DUMPS
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.TRIAGE
NEEDS = ("errors",)
CAUSED_BY = (*ANY, "hang-after-init", "hang-in-init", "rank-missing-in-init", "rank-desync", "peer-died",
             "collective-stalled", "nvls-multicast-failed", "known-bad-version")  # fmt: skip

_TRY = (
    "NCCL_P2P_DISABLE=1 <the same job>   # if it then runs on one host, PCIe ACS or the IOMMU breaks P2P: turn ACS "
    "off, boot with iommu=pt; between hosts try NCCL_IB_DISABLE=1"
)
_NO_DATA = (
    "Several ranks wait in the first collective of their group, and none finished one: they all came, and no data "
    "moves between their GPUs. On one host it is usually P2P through PCIe ACS or an IOMMU, between hosts the network."
)


def _first(rows: pl.DataFrame) -> bool:
    """Whether ranks wait together in the first collective of a group, which none of them has finished."""
    told = rows.filter(pl.col("completed_seq").is_not_null())
    waiting = rows.filter(pl.col("seq").is_not_null())
    same = waiting["seq"].n_unique() == 1 and waiting["rank"].drop_nulls().n_unique() > 1
    return same and told.height > 0 and bool((told["completed_seq"] == -1).all())


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all time-outs."""
    found = trouble(run, "watchdog-timeout")
    if found is None:
        return
    rows = found.rows
    works = rows.filter(pl.col("work_op").is_not_null())
    ops = works["work_op"].unique(maintain_order=True).to_list() if works.height else []
    numbers = works["seq"].drop_nulls().unique().sort().to_list() if works.height else []
    limit = found.value("timeout_ms")
    what = f"{ops[0]} " if ops else ""
    seq = (
        f"sequence {numbers[0]}"
        if len(numbers) == 1
        else f"sequences {numbers[0]} to {numbers[-1]}"
        if numbers
        else ""
    )
    after = f" after {int(limit) / 1000:,g} s" if limit and len(limit) < 12 else ""
    first = _first(rows)
    what = f"the first {what or 'collective '}of a group, " if first else what
    headline = " ".join(f"The watchdog timed out on {what or 'a collective '}{seq}{after}".split())
    dumps = (
        f"{LIST_DUMPS}   # on every host: the flight recorder's dumps (TORCH_FR_DUMP_TEMP_FILE may name another "
        "place); analyze them together with the logs. None there: run again with TORCH_NCCL_DUMP_ON_TIMEOUT=1 "
        "and TORCH_FR_BUFFER_SIZE=2000"
    )
    yield from report(
        run,
        "watchdog-timeout",
        headline,
        f"{_TRY}; {dumps}" if first else dumps,
        explanation=_NO_DATA
        if first
        else "A collective was issued here and did not finish. Either a rank never issued it, or issued "
        "another one, or the network lost it. "
        "The ranks that report are usually the ones that wait.",
        quiet=None,
    )
