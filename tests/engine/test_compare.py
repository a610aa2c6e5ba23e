"""``diff``: facts of runs, ranking of changes, text, markdown, JSON and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from nccl_insight.base.model import Severity
from nccl_insight.engine.compare import compare
from nccl_insight.tables.run import build_run
from tests import runs
from tests.two_runs import _compare, _run, analysis, finding

SIMULATED = runs.SHARED / "simulated"


def test_a_run_equals_itself_whatever_its_host_is_called() -> None:
    comparison = _compare(_run({"NCCL_ALGO": "Ring"}), _run({"NCCL_ALGO": "Ring"}, host="b"))
    assert not comparison.differs
    assert comparison.changes == ()
    assert {"versions", "environment", "networks", "timings"} <= set(comparison.same)


def test_the_setting_that_explains_a_new_finding_comes_first() -> None:
    comparison = _compare(
        _run(version="2.20.5"),
        _run({"NCCL_BUFFSIZE": "1048576", "NCCL_P2P_DISABLE": "1"}, total_s=20.0),
        after=(finding("p2p-not-available", Severity.WARNING),),
    )
    first = comparison.changes[0]
    assert (first.area, first.subject, first.good, first.bad) == ("environment", "NCCL_P2P_DISABLE", "", "1")
    assert first.explains == ("p2p-not-available",)
    assert [c.area for c in comparison.changes] == ["environment", "environment", "versions", "timings"]
    assert comparison.changes[-1].effect
    assert comparison.changes[-1].ratio == 20.0


def test_small_differences_of_times_are_noise() -> None:
    assert not _compare(_run(total_s=1.0), _run(total_s=1.9)).differs
    assert not _compare(_run(total_s=20.0), _run(total_s=28.0)).differs
    assert _compare(_run(total_s=20.0), _run(total_s=31.0)).differs


def test_findings_new_gone_worse() -> None:
    before = (finding("gdr-not-used", Severity.INFO), finding("init-slow", Severity.WARNING))
    after = (finding("gdr-not-used", Severity.WARNING), finding("mixed-networks", Severity.ERROR))
    comparison = _compare(_run(), _run(), before, after)
    assert [(f.status, f.name) for f in comparison.findings] == [
        ("new", "mixed-networks"),
        ("worse", "gdr-not-used"),
        ("gone", "init-slow"),
    ]


def test_an_area_that_one_run_lacks_is_not_compared() -> None:
    bare = build_run({"processes": pl.DataFrame({"host": ["a"], "pid": [1], "nccl_version": ["2.21.5"]})})
    comparison = _compare(_run({"NCCL_ALGO": "Ring"}), bare)
    assert "timings" in {n.area for n in comparison.not_compared}
    assert not [c for c in comparison.changes if c.area == "timings"]


@pytest.mark.skipif(not SIMULATED.is_dir(), reason="needs NCCL_INSIGHT_REFERENCE_DATA")
def test_the_setting_of_a_real_log_is_named_first() -> None:
    from nccl_insight.cli import build_app

    good, bad = SIMULATED / "2.27.7-2node-4gpu-roce.log", SIMULATED / "2.27.7-2node-4gpu-ibdisable.log"
    result = CliRunner().invoke(build_app(), ["diff", str(good), str(bad), "--format", "json"])
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert (document["changes"][0]["subject"], document["changes"][0]["bad"]) == ("NCCL_IB_DISABLE", "1")
    same = CliRunner().invoke(build_app(), ["diff", str(good), str(good)])
    assert same.exit_code == 0


@pytest.mark.parametrize("kind", ["text", "json", "md", "html"])
def test_redacted_comparison_names_no_host_or_path_of_either_run(tmp_path: Path, kind: str) -> None:
    from nccl_insight.cli import build_app

    head = "{host}:71:71 [0] NCCL INFO "
    lines = [
        head + "NCCL version 2.27.7+cuda12.8",
        head + "Bootstrap: Using eth0:10.77.3.{n}<0>",
        head + "NCCL_ALGO set by environment to {algo}.",
        head + "NCCL_TOPO_FILE set by environment to /home/wanda/{algo}/topo.xml",
    ]
    paths = []
    for n, (host, algo) in enumerate((("gpuhall-07", "Ring"), ("gpuhall-23", "Tree")), start=1):
        path = tmp_path / f"wandas-run{n}.log"
        path.write_text("\n".join(lines).format(host=host, algo=algo, n=n) + "\n")
        paths.append(str(path))
    out = tmp_path / "out.txt"
    arguments = ["diff", *paths, "--redact", "--js", "none", "-o", f"{kind}={out}", "--exit-zero"]
    result = CliRunner().invoke(build_app(), arguments)
    assert result.exit_code == 0, result.output
    shown = out.read_text() + result.stdout
    assert "NCCL_ALGO" in shown
    for secret in ("gpuhall", "10.77.3", "wanda", str(tmp_path)):
        assert secret not in shown


def test_a_run_compared_with_itself_has_no_change() -> None:
    same = compare(_run(), _run(), analysis(), analysis())
    assert same.changes == ()
    assert same.findings == ()


def test_a_finding_of_one_run_alone_is_new_or_gone() -> None:
    found = analysis(finding("slow-rank", Severity.WARNING))
    assert [(f.status, f.name) for f in compare(_run(), _run(), analysis(), found).findings] == [("new", "slow-rank")]
    assert [(f.status, f.name) for f in compare(_run(), _run(), found, analysis()).findings] == [("gone", "slow-rank")]
    worse = analysis(finding("slow-rank", Severity.ERROR))
    assert [f.status for f in compare(_run(), _run(), found, worse).findings] == ["worse"]
    assert [f.status for f in compare(_run(), _run(), worse, found).findings] == ["better"]
