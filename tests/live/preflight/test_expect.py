"""Expectations."""

from __future__ import annotations

from pathlib import Path

import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.live.preflight import expect
from nccl_insight.live.preflight.model import Result, Status

# --- expectations --------------------------------------------------------------------------------------------

FACTS: dict[str, str | float | None] = {
    "gpus": 8.0, "nics": 8.0, "driver": "570.124.06", "nccl": "2.27.3+cuda12.9", "busbw": 361.37, "transport": "IB",
    "gpu_model": "NVIDIA H100 80GB HBM3", "memlock_gib": float("inf"), "nofile": 1048576.0, "ranks": 8.0,
    "h2d_gbps": 55.13, "d2h_gbps": 55.06, "p2p_gbps": 392.0, "pcie_gen": 5.0, "shm_gib": 128.0, "nodes": 1.0,
}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["gpus=8", "gpus>=4", "nics!=4", "driver>=570", "nccl>=2.20", "nccl=2.27", "nccl<2.28", "busbw>=300",
     "transport=ib", "transport!=Socket", "memlock_gib=unlimited", "gpu_model=NVIDIA H100 80GB HBM3", "nofile>=65536"],
)  # fmt: skip
def test_expectations_that_hold(text: str) -> None:
    (check,) = expect.compare([expect.parse(text)], FACTS, "standard")
    assert check.status is Status.PASS


@pytest.mark.parametrize(
    ("text", "observed", "expected"),
    [
        ("gpus=4", "8", "= 4"), ("nics>=16", "8", ">= 16"), ("driver>=575", "570.124.06", ">= 575"),
        ("nccl>=2.28", "2.27.3", ">= 2.28"), ("busbw>=400", "361.37 GB/s", ">= 400 GB/s"),
        ("transport=Socket", "IB", "= Socket"), ("gpu_model=NVIDIA A100", "NVIDIA H100", "= NVIDIA A100"),
        ("memlock_gib<=1", "inf", "<= 1"),
    ],
)  # fmt: skip
def test_wrong_expectations_say_both_figures(text: str, observed: str, expected: str) -> None:
    (check,) = expect.compare([expect.parse(text)], FACTS, "standard")
    assert check.status is Status.FAIL
    assert observed in check.line()
    assert expected in check.line()


def test_what_a_level_cannot_know_is_skipped_and_not_a_pass() -> None:
    unknown = expect.compare([expect.parse("busbw>=300")], {**FACTS, "busbw": None}, "quick")
    assert unknown[0].status is Status.SKIP
    assert "level standard" in unknown[0].observed
    result = Result(tuple(unknown), "quick", "n")
    assert (result.code, result.verdict) == (3, Status.SKIP)


@pytest.mark.parametrize(
    "text", ["gpu=8", "gpus", "gpus=many", "nccl>=new", "transport>=IB", "=8", "gpus=8=9x", "busbw>=300 GB"]
)
def test_expectations_that_make_no_sense(text: str) -> None:
    with pytest.raises(UsageError):
        expect.parse(text)


def test_every_key_can_be_asked_for() -> None:
    for key in expect.KEYS:
        value = "8" if key in expect.NUMBERS + expect.VERSIONS else "IB"
        assert expect.parse(f"{key}={value}") == expect.Expectation(key, "=", value)


def test_recorded_expectations_hold_on_the_node_they_came_from(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    count = expect.save(path, FACTS)
    loaded = expect.load(path)
    assert count == len(loaded) == len(FACTS)
    assert {c.status for c in expect.compare(loaded, FACTS, "standard")} == {Status.PASS}
    worse = {**FACTS, "gpus": 7.0, "busbw": 200.0, "driver": "550.1", "transport": "Socket", "nofile": 1024.0}
    failed = {c.name for c in expect.compare(loaded, worse, "standard") if c.status is Status.FAIL}
    assert failed == {"expect gpus", "expect busbw", "expect driver", "expect transport", "expect nofile"}


def test_expectation_files(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text('[expect]\ngpus = 8\nbusbw = ">=300"\nnccl = [">=2.20", "!=2.27.1"]\n')
    assert [str(e) for e in expect.load(path)] == ["gpus=8", "busbw>=300", "nccl>=2.20", "nccl!=2.27.1"]
    for text in ("[expect]\ngpus = true\n", "gpus = 8\n", "[expect\n"):
        path.write_text(text)
        with pytest.raises(UsageError, match=r"site\.toml"):
            expect.load(path)
