"""``diff``: facts of runs, ranking of changes, text, markdown, JSON and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from nccl_insight.base.model import (
    Action,
    Analysis,
    Confidence,
    Coverage,
    Finding,
    FindingClass,
    Job,
    Role,
    Severity,
    ToolInfo,
)
from nccl_insight.engine.compare import Comparison, compare
from nccl_insight.report import diff as render
from nccl_insight.tables.run import Run, build_run
from tests import runs

SIMULATED = runs.SHARED / "simulated"


def _finding(name: str, severity: Severity, title: str = "title") -> Finding:
    return Finding(
        "NI999", name, FindingClass.PERFORMANCE, severity, Confidence.HIGH, Action.CONFIG, title, "", "do", "", "", "",
        (), (), None, Role.INDEPENDENT, None, (), (), "f",
    )  # fmt: skip


def _analysis(*findings: Finding) -> Analysis:
    return Analysis("findings", findings, Job(), Coverage(), (), ToolInfo("t", "0", 1, "x"))


def _run(env: dict[str, str] | None = None, total_s: float = 1.0, version: str = "2.21.5", host: str = "a") -> Run:
    settings = env or {}
    return build_run(
        {
            "inputs": pl.DataFrame({"input_id": [0], "path": ["run.log"]}),
            "processes": pl.DataFrame(
                {"host": [host], "pid": [1], "nccl_version": [version], "network": ["IB"], "input_id": [0], "line": [1]}
            ),
            "ranks": pl.DataFrame({"comm_id": ["c"], "rank": [0], "host": [host], "pid": [1], "nranks": [1]}),
            "env": pl.DataFrame(
                {
                    "host": [host] * len(settings),
                    "pid": [1] * len(settings),
                    "name": list(settings),
                    "value": list(settings.values()),
                    "origin": ["environment"] * len(settings),
                    "input_id": [0] * len(settings),
                    "line": list(range(5, 5 + len(settings))),
                },
                schema_overrides={"name": pl.String, "value": pl.String, "host": pl.String},
            ),
            "init_timings": pl.DataFrame(
                {"comm_id": ["c"], "rank": [0], "total_s": [total_s], "input_id": [0], "line": [9]}
            ),
        }
    )


def _compare(good: Run, bad: Run, before: tuple[Finding, ...] = (), after: tuple[Finding, ...] = ()) -> Comparison:
    return compare(good, bad, _analysis(*before), _analysis(*after))


def test_a_run_equals_itself_whatever_its_host_is_called() -> None:
    comparison = _compare(_run({"NCCL_ALGO": "Ring"}), _run({"NCCL_ALGO": "Ring"}, host="b"))
    assert not comparison.differs
    assert comparison.changes == ()
    assert {"versions", "environment", "networks", "timings"} <= set(comparison.same)


def test_the_setting_that_explains_a_new_finding_comes_first() -> None:
    comparison = _compare(
        _run(version="2.20.5"),
        _run({"NCCL_BUFFSIZE": "1048576", "NCCL_P2P_DISABLE": "1"}, total_s=20.0),
        after=(_finding("p2p-not-available", Severity.WARNING),),
    )
    first = comparison.changes[0]
    assert (first.area, first.subject, first.good, first.bad) == ("environment", "NCCL_P2P_DISABLE", "", "1")
    assert first.explains == ("p2p-not-available",)
    assert [c.area for c in comparison.changes] == ["environment", "environment", "versions", "timings"]
    assert comparison.changes[-1].effect
    assert comparison.changes[-1].ratio == 20.0


def test_the_headline_says_what_changed_most_and_in_which_direction() -> None:
    warned = (_finding("p2p-not-available", Severity.WARNING),)
    broken = _compare(_run(), _run({"NCCL_P2P_DISABLE": "1"}, total_s=20.0), after=warned)
    assert render.headline(broken) == (
        f"New warning: {warned[0].title} (likeliest explanation: NCCL_P2P_DISABLE (unset) -> 1)"
    )
    nics = [f"mlx5_{n}" for n in range(9)]
    lists = {"NCCL_IB_HCA": ",".join(nics)}, {"NCCL_IB_HCA": ",".join([*nics[1:8], "mlx5_10"])}
    assert render.headline(_compare(_run(lists[0]), _run(lists[1]))) == (
        "NCCL_IB_HCA without mlx5_0, mlx5_8 and now with mlx5_10"
    )
    slower = _compare(_run(), _run({"NCCL_ALGO": "Ring"}, total_s=20.0))
    assert render.headline(slower).startswith("Slower: ")
    assert render.headline(slower).endswith("(20.00x) (likeliest explanation: NCCL_ALGO (unset) -> Ring)")
    assert render.headline(_compare(_run(total_s=20.0), _run())).startswith("Faster: ")
    assert render.headline(_compare(_run(), _run(), before=warned)).startswith("No longer there: ")
    assert render.headline(_compare(_run(), _run({"NCCL_ALGO": "Ring"}))) == "NCCL_ALGO (unset) -> Ring"
    assert render.text(_compare(_run(), _run())).startswith("SAME  No difference in what both runs show")


def test_a_lost_data_path_outranks_seconds_of_init_and_the_setting_that_names_it_comes_first() -> None:
    lost = _finding("gdr-not-used", Severity.INFO, "GPUDirect RDMA is not used")
    slow = _finding("init-slow", Severity.INFO, "Init took 38 s")
    found = compare(
        _run({"NCCL_IB_HCA": "mlx5_0"}, total_s=0.4),
        _run({"NCCL_NET_GDR_LEVEL": "LOC"}, total_s=18.0),
        _analysis(),
        _analysis(slow, lost),
    )
    first = next(c for c in found.changes if not c.effect)
    assert first.subject == "NCCL_NET_GDR_LEVEL"
    assert render.headline(found).startswith(
        "New note: GPUDirect RDMA is not used (likeliest explanation: NCCL_NET_GDR"
    )


def test_small_differences_of_times_are_noise() -> None:
    assert not _compare(_run(total_s=1.0), _run(total_s=1.9)).differs
    assert not _compare(_run(total_s=20.0), _run(total_s=28.0)).differs
    assert _compare(_run(total_s=20.0), _run(total_s=31.0)).differs


def test_findings_new_gone_worse() -> None:
    before = (_finding("gdr-not-used", Severity.INFO), _finding("init-slow", Severity.WARNING))
    after = (_finding("gdr-not-used", Severity.WARNING), _finding("mixed-networks", Severity.ERROR))
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


def test_hostile_values_stay_harmless_in_every_form() -> None:
    comparison = _compare(_run({"NCCL_NET": "a"}), _run({"NCCL_NET": "|<script>\x1b[31m\u202e"}))
    shown = render.text(comparison)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    table = render.markdown(comparison)
    assert "<script>" not in table.replace("\\<", "")
    assert json.loads(render.to_json(comparison))["changes"][0]["bad"] == "|<script>\\u202e"


def test_json_is_the_same_twice() -> None:
    comparison = _compare(_run({"NCCL_ALGO": "Ring"}), _run({"NCCL_ALGO": "Tree"}))
    assert render.to_json(comparison) == render.to_json(comparison)
    change = json.loads(render.to_json(comparison))["changes"][0]
    assert (change["good"], change["bad"], change["evidence_bad"]) == ("Ring", "Tree", ["run.log:5"])


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
