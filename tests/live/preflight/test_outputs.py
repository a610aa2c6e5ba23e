"""A preflight for other programs."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from nccl_insight.live.preflight import outputs
from nccl_insight.live.preflight.model import Check, Result, Status


def sample() -> Result:
    return Result(
        (
            Check("gpus", Status.PASS, "8 GPUs"), Check("xid", Status.FAIL, 'GPU "1"\x1b', code="NI515"),
            Check("dcgm", Status.SKIP, "not installed"), Check("clock", Status.WARN, "not synchronized"),
        ), "quick", "gpu07", facts={"gpus": 8.0, "nofile": float("inf"), "busbw": 360.0},
    )  # fmt: skip


def test_a_result_for_ci_systems() -> None:
    suite = ElementTree.fromstring(outputs.to_junit(sample()).split("\n", 1)[1])[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "1", "1")
    assert "\x1b" not in outputs.to_junit(sample())


def test_a_result_for_prometheus() -> None:
    text = outputs.to_prometheus(sample())
    assert 'nccl_insight_preflight_exit_code{node="gpu07",level="quick"} 1\n' in text
    assert 'nccl_insight_preflight_check{node="gpu07",check="xid",code="NI515"} 2\n' in text
    assert 'fact="busbw"} 360\n' in text
    assert "nofile" not in text
    for line in text.splitlines():
        assert line.startswith("#") or re.fullmatch(r'[a-z_]+\{([a-z]+="[^"]*",?)+\} [-0-9.e+]+', line)


def test_a_node_that_lost_bandwidth_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    assert outputs.trend(path, "gpu07", {"busbw": 100.0}) == []
    for day, rate in enumerate((402.0, 398.0, 400.0, 401.0)):
        outputs.remember(path, Result((), "standard", "gpu07", facts={"busbw": rate}), f"2026-05-0{day + 1}T08:00Z")
    outputs.remember(path, Result((), "standard", "gpu08", facts={"busbw": 10.0}), "2026-05-05T08:00Z")
    with path.open("a") as stream:
        stream.write('{"cut": \n')
    assert outputs.trend(path, "gpu07", {"busbw": 395.0}) == []
    (found,) = outputs.trend(path, "gpu07", {"busbw": 352.0})
    assert "lost 12% since 2026-05-01" in found.observed
    assert outputs.trend(path, "gpu09", {"busbw": 1.0}) == []
