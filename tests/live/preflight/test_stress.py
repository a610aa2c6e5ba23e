"""A node under load: what the burn of each GPU and the RDMA ports say."""

from __future__ import annotations

from pathlib import Path

import pytest

from nccl_insight.live.preflight.fabric import Port
from nccl_insight.live.preflight.model import Action, Status
from nccl_insight.live.preflight.stress import burn_checks, loop_checks, loop_gbit, stress_checks

GOOD = {"words": 0, "wrong": 0, "products": 100, "tflops": 600.0}
TABLE = """\
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 8388608    5000             392.10             {rate}             0.005834
"""


def port(device: str) -> Port:
    return Port(device, "1", "ACTIVE", 400.0, "InfiniBand", "28.43", "MT_1")


@pytest.mark.parametrize(
    ("odd", "killed", "status", "action", "named"),
    [
        ({"wrong": 1}, [], Status.FAIL, Action.ISOLATE, "cuda:2"),
        ({"words": 3}, [], Status.FAIL, Action.ISOLATE, "cuda:2"),
        ({"tflops": 480.0}, [], Status.WARN, Action.TRIAGE, "cuda:2"),
        ({}, [], Status.PASS, Action.NONE, "4 devices"),
        (None, [], Status.FAIL, Action.TRIAGE, "cuda:2"),
        (None, ["cuda:2"], Status.FAIL, Action.ISOLATE, "cuda:2"),
    ],
)
def test_a_gpu_that_errs_hangs_or_lags_is_named(
    odd: dict[str, float] | None, killed: list[str], status: Status, action: Action, named: str
) -> None:
    told = {f"cuda:{n}": dict(GOOD) for n in range(4)}
    told["cuda:2"] = {} if odd is None else GOOD | odd
    (check,) = burn_checks(told, killed, 60)
    assert (check.status, check.action) == (status, action)
    assert named in check.observed
    assert "cuda:1" not in check.observed


def test_a_port_below_its_rate_is_named() -> None:
    rates = {port(name): loop_gbit(TABLE.format(rate=rate)) for name, rate in (("mlx5_0", 391.5), ("mlx5_1", 180.25))}
    (check,) = loop_checks(rates)
    assert (check.status, check.observed) == (Status.WARN, "mlx5_1:1 180 of 400 Gb/s")
    assert [c.status for c in loop_checks({port("mlx5_0"): 391.5})] == [Status.PASS]
    assert [c.status for c in loop_checks({port("mlx5_0"): loop_gbit("Couldn't connect")})] == [Status.WARN]


def test_both_programs_of_a_loop_are_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "ib_write_bw"
    tool.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/said\nprintf "%s" "{TABLE.format(rate=390.0)}"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("nccl_insight.live.preflight.stress._LISTENS_S", 0.05)
    burned, looped = stress_checks([], [port("mlx5_0")], 1, {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert (burned.status, looped.status) == (Status.SKIP, Status.PASS)
    server, client = (tmp_path / "said").read_text().splitlines()
    assert client == f"{server} 127.0.0.1"
    assert server.startswith("-d mlx5_0 -i 1 -p ")


@pytest.mark.parametrize("rate", ["x", None, [1], float("nan"), float("inf"), 10**400])
def test_a_burn_without_a_rate_did_not_end_well(rate: object) -> None:
    told = {"cuda:0": {"words": 0, "wrong": 0, "tflops": rate}, "cuda:1": {"words": 0, "wrong": 0, "tflops": 5.0}}
    (check,) = burn_checks(told, [], 1.0)
    assert check.status is Status.FAIL
    assert "cuda:0" in check.observed
    assert "cuda:1" not in check.observed
