"""The ``errors`` table with one more column: ``cause``, the diagnosis that a line is evidence of for the rules."""

from __future__ import annotations

from nccl_insight.facts.said.errors import BENIGN, OTHER, causes, present
from tests.by_hand import run


def test_the_cause_of_a_line_is_its_diagnosis_unless_it_says_nothing() -> None:
    line = {"input_id": 0, "level": "WARN"}
    found = causes(
        run(
            errors=[
                {**line, "line": 1, "diagnosis": "connection-refused", "role": "root"},
                {**line, "line": 2, "diagnosis": "connection-refused", "role": "benign"},
                {**line, "line": 3},
                {**line, "line": 4, "diagnosis": "cuda-error", "message": "err_cuda_alloc", "role": "root"},
                {**line, "line": 5, "level": "INFO", "diagnosis": "cuda-error", "end_kind": "out-of-memory"},
                {**line, "line": 6, "level": None, "diagnosis": "cuda-error"},
            ]
        )
    )
    assert found.select("line", "cause", "loud").rows() == [
        (1, "connection-refused", True), (2, BENIGN, True), (3, OTHER, True), (4, "alloc-failed", True),
        (5, "out-of-memory", False), (6, "cuda-error", True),
    ]  # fmt: skip


def test_a_communicator_that_failed_before_is_not_the_fault_of_its_caller() -> None:
    used = {
        "input_id": 0, "level": "WARN", "message": "err_internal", "diagnosis": "invalid-usage",
        "text": "Attempt to use communicator before the previous operation returned ncclSuccess",
    }  # fmt: skip
    alone = causes(run(errors=[{**used, "line": 2}]))
    assert alone["cause"].to_list() == ["invalid-usage"]
    refused = {"input_id": 0, "level": "WARN", "line": 1, "diagnosis": "connection-refused", "role": "root"}
    behind = causes(run(errors=[refused, {**used, "line": 2}]))
    assert behind["cause"].to_list() == ["connection-refused", "error-propagated"]
    elsewhere = causes(run(errors=[{**refused, "input_id": 1}, {**used, "line": 2}]))
    assert sorted(elsewhere["cause"].to_list()) == ["connection-refused", "invalid-usage"]


def test_all_causes_that_occur() -> None:
    rows = [{"input_id": 0, "line": n, "level": "WARN", "diagnosis": d} for n, d in enumerate(("a", "b", "a"))]
    assert present(run(errors=rows)) == {"a", "b"}
    assert present(run()) == frozenset()
