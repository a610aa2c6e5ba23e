"""The public library: two functions."""

from __future__ import annotations

import polars as pl
import pytest

import nccl_insight
from nccl_insight.base.errors import NotJudgedError, UsageError
from nccl_insight.share.api import analyze, load
from nccl_insight.tables.run import build_run
from tests.runs import HEALTHY, RUNS, TINY_SHM


def test_load_is_a_function_whatever_was_imported() -> None:
    run = nccl_insight.load([HEALTHY])
    assert isinstance(run.table("connections"), pl.DataFrame)
    assert isinstance(run.lazy("connections"), pl.LazyFrame)
    assert nccl_insight.load([str(HEALTHY)]).table("ranks").height == 16


def test_a_missing_table_has_its_columns() -> None:
    run = nccl_insight.load([HEALTHY])
    assert run.table("benchmarks").columns[:3] == ["input_id", "op", "size_bytes"]
    assert not run.has("benchmarks")


def test_a_run_gives_its_tables_by_name() -> None:
    run = nccl_insight.load([HEALTHY])
    assert run["ranks"].equals(run.table("ranks"))
    assert "ranks" in run._ipython_key_completions_()
    with pytest.raises(UsageError, match="did you mean ranks"):
        run["rank"]


def test_the_verdict_is_a_word() -> None:
    assert nccl_insight.analyze([TINY_SHM]).verdict == "FAIL"
    assert nccl_insight.analyze([HEALTHY]).verdict == "OK"
    assert nccl_insight.analyze(build_run({})).verdict == "NOT JUDGED"


def test_analyze_takes_paths_or_a_run() -> None:
    by_path = nccl_insight.analyze([TINY_SHM])
    by_run = nccl_insight.analyze(nccl_insight.load([TINY_SHM]))
    assert [f.name for f in by_path.findings] == [f.name for f in by_run.findings]
    assert by_path.status == "findings"
    assert by_path.job.nranks == 4


def test_several_inputs_are_one_run() -> None:
    analysis = nccl_insight.analyze([RUNS / "perrank-2.14"])
    assert analysis.job.nranks == 4
    assert len(analysis.inputs) == 4


def test_errors_have_types() -> None:
    with pytest.raises(UsageError):
        nccl_insight.load(["/does/not/exist"])
    with pytest.raises(NotJudgedError):
        nccl_insight.load([])


def test_unknown_attributes_are_errors() -> None:
    with pytest.raises(AttributeError):
        nccl_insight.no_such_thing


def test_a_table_that_no_run_can_have_is_an_error() -> None:
    with pytest.raises(UsageError, match="did you mean ranks"):
        build_run({}).table("rank")
    assert build_run({}).table("ranks").height == 0
    assert build_run({}).table("rings").height == 0


def test_the_functions_of_the_package_read_and_judge() -> None:
    one = load([HEALTHY])
    assert one.table("ranks")["nranks"].max() == 16
    assert analyze(HEALTHY).job.nranks == 16
    with pytest.raises(UsageError):
        load([RUNS / "no-such-file.log"])
