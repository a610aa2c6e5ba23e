"""``expect RUN``: what NCCL itself predicted for the communicators of a log, and what was measured."""

from __future__ import annotations

from collections.abc import Sequence

from nccl_insight.base.errors import NotJudgedError
from nccl_insight.engine.measured import measured_sentences
from nccl_insight.report import expect_run_report
from nccl_insight.share import api
from nccl_insight.views.expectations import predictions


def answer(paths: Sequence[str], ops: Sequence[str], sizes: Sequence[int], format_: str) -> str:
    """The text or JSON of the command.

    Raises NotJudgedError: the log tells neither NCCL's model nor a measurement that can be judged.
    """
    run = api.load(list(paths))
    rows = predictions(run, tuple(ops), tuple(sizes) or expect_run_report.SIZES)
    measured = measured_sentences(run)
    if not rows and not any("of the expected" in sentence for sentence in measured):
        raise NotJudgedError(
            "expect: nothing to predict from in this run; log it with NCCL_DEBUG=INFO "
            "NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING, or give --gpu"
        )
    render = expect_run_report.render_json if format_ == "json" else expect_run_report.render_text
    return render(rows, measured)
