"""Logs that are read in small shares by other processes."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nccl_insight.inputs import chunks
from nccl_insight.inputs import find as inputs_find
from nccl_insight.loading import spread

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "fixtures" / "runs"


class Elsewhere:
    """Workers that get and give nothing but bytes, as other processes would."""

    slots = 3

    def __init__(self) -> None:
        self.tasks: list[str] = []

    def start(self, function: Callable[..., bytes], *arguments: Any) -> Any:
        self.tasks.append(function.__name__)
        called, given = pickle.loads(pickle.dumps((function, arguments)))
        return called(*given)

    def result(self, token: Any) -> bytes:
        assert isinstance(token, bytes)
        return token

    def counts(self) -> tuple[int, int]:
        return len(self.tasks), len(self.tasks)

    def close(self) -> None:
        pass


def small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file counts as large from 3 kB on, and a share has about 5 kB."""
    monkeypatch.setattr(inputs_find, "_SMALL_BYTES", 3_000)
    monkeypatch.setattr(spread, "_SHARE_LEAST", 5_000)
    monkeypatch.setattr(spread, "_SHARE_MOST", 5_000)
    monkeypatch.setattr(spread, "_GROUP_MOST", 3)
    monkeypatch.setattr(chunks, "_LEAST_BYTES", 4_001)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 4_001)
