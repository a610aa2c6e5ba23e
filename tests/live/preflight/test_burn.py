"""Multiplies matrices and tests the memory of one GPU for a while; run as a script, in a process of its own."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import count
from types import SimpleNamespace

import pytest

from nccl_insight.live.preflight.burn import burn


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
