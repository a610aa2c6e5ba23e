"""A node under load: what the burn of each GPU and the RDMA ports say."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from nccl_insight.live.preflight.burn import burn
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


class Block:
    """Memory of a stand-in for torch; a broken one loses a bit of some patterns."""

    def __init__(self, broken: bool) -> None:
        self._broken, self._word = broken, 0

    def fill_(self, pattern: int) -> None:
        self._word = pattern & ~1 if self._broken else pattern

    def __ne__(self, pattern: object) -> Block:  # type: ignore[override]
        self._wrong = int(self._word != pattern)
        return self

    def sum(self) -> Block:
        return self

    def item(self) -> int:
        return self._wrong


class Matrix:
    def __init__(self, torch: Torch) -> None:
        self._torch = torch

    def to(self, kind: str) -> Matrix:
        return self

    def __matmul__(self, other: Matrix) -> int:
        self._torch.calls.append("multiply")
        return next(self._torch.products)


class Torch:
    """So much of torch as a burn calls, with the order of its calls."""

    int32, bfloat16 = "int32", "bfloat16"

    def __init__(self, products: list[int], broken: bool = False) -> None:
        self.calls: list[str] = []
        self.products, self._broken = iter(products), broken
        self.cuda = SimpleNamespace(
            mem_get_info=lambda device: (1 << 30, 1 << 31), synchronize=lambda: self.calls.append("synchronize")
        )

    def empty(self, count: int, **_: object) -> Block:
        self.calls.append(f"empty {count}")
        return Block(self._broken)

    def randn(self, *_: object, **__: object) -> Matrix:
        return Matrix(self)

    def manual_seed(self, _: int) -> None:
        pass

    @staticmethod
    def equal(one: int, other: int) -> bool:
        return one == other


def test_a_wrong_product_and_a_lost_bit_are_counted_and_time_is_read_when_the_gpu_is_done() -> None:
    torch = Torch([1] * 11 + [1] * 9 + [2])
    found = burn(torch, SimpleNamespace(type="cuda"), 6.0, map(float, count()).__next__)
    assert (found["words"], found["wrong"], found["products"]) == (0, 1, 20)
    assert torch.calls[:3] == [f"empty {64 << 20}"] * 3
    assert torch.calls[3:] == ["multiply"] * 11 + ["synchronize"] + ["multiply"] * 10 + ["synchronize"]
    assert burn(Torch([1] * 99, broken=True), SimpleNamespace(type="cuda"), 0.0)["words"] == 3


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_torch_itself_does_what_a_burn_asks() -> None:
    import torch

    found = burn(torch, torch.device("cpu"), 0.0)
    assert (found["words"], found["wrong"], found["products"]) == (0, 0, 10)
    assert found["tflops"] > 0
