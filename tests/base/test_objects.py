"""JSON that is nested without end, or is something else than was asked for, costs what it concerns and no run."""

from __future__ import annotations

from pathlib import Path

import pytest

from nccl_insight.base.objects import object_of
from nccl_insight.live.preflight.model import Status
from nccl_insight.live.preflight.stress import burn_checks
from nccl_insight.readers.forms import form_of
from nccl_insight.readers.kineto.rows import Groups

DEEP = '{"zq": ' + "[" * 20_000


@pytest.mark.parametrize("text", [DEEP, "[" * 20_000, '{"a":' * 20_000, "[1]", '"a"', "{", "", '{"a": 1' + "0" * 5000])
def test_what_is_no_object_is_an_empty_one(text: str) -> None:
    assert object_of(text) == {}


def test_the_form_of_what_is_nested_without_end_is_told() -> None:
    assert form_of(DEEP.encode()) == "JSON with the keys zq, cut short"


@pytest.mark.parametrize("rate", ["x", None, [1], float("nan"), float("inf"), 10**400])
def test_a_burn_without_a_rate_did_not_end_well(rate: object) -> None:
    told = {"cuda:0": {"words": 0, "wrong": 0, "tflops": rate}, "cuda:1": {"words": 0, "wrong": 0, "tflops": 5.0}}
    (check,) = burn_checks(told, [], 1.0)
    assert check.status is Status.FAIL
    assert "cuda:0" in check.observed
    assert "cuda:1" not in check.observed


def test_lines_of_a_child_that_are_nested_without_end_are_left_out(tmp_path: Path) -> None:
    from nccl_insight.live.capture.parent import left_out

    rows = [DEEP, '{"kind": "skipped", "op": "all_reduce", "size_bytes": 8, "skipped": "no memory"}']
    (tmp_path / "capture.rank0.jsonl").write_text("\n".join(rows))
    assert [row.split()[0] for row in left_out(tmp_path)] == ["all_reduce"]


@pytest.mark.parametrize(
    ("text", "ranks"),
    [("[0, 1]", [0, 1]), ("[2,3 ]", [2, 3]), ("[]", None), ("[,]", None), ("[1,]", None), ("[1 2]", None),
     ("[0, 1, ...]", None), ("[9999999999]", None), ("[" + "1" * 6000 + "]", None)],
)  # fmt: skip
def test_ranks_that_are_no_list_are_unknown(text: str, ranks: list[int] | None) -> None:
    assert Groups().ranks_of("zz", text) == ranks
