"""The results of ``expect`` as text for people and as JSON."""

from __future__ import annotations

from nccl_insight.advise.expect.machine import build
from nccl_insight.advise.expect.model import OPS, SIZES, expectations
from nccl_insight.report import expect_report
from nccl_insight.report.expect_report import Question
from nccl_insight.report.prose import fit


def test_expectations_fit_80_columns() -> None:
    machine = build("H100", nodes=4, nics="8x400")
    questions = [Question("", machine, tuple(expectations(machine, OPS, SIZES)))]
    whole = expect_report.render_text(questions, OPS, None)
    shown = fit(whole, 80).splitlines()
    assert max(map(len, whole.splitlines())) > 120
    assert max(map(len, shown)) <= 80
    # What bounds a size goes on under its own column.
    row = next(n for n, line in enumerate(shown) if line.lstrip().startswith("8.0 GiB"))
    assert shown[row].index("8 x 400") == len(shown[row + 1]) - len(shown[row + 1].lstrip())
    assert " ".join(" ".join(shown).split()) == " ".join(whole.split())
