"""Bandwidths of the expectation model on a machine, by its names."""

from __future__ import annotations

from nccl_insight.advise.expect.machine import Machine
from nccl_insight.advise.expect.model import parts_of


def _busbw(machine: Machine, op: str, size: int) -> tuple[float, float, float]:
    parts = parts_of(machine, op)
    assert parts is not None
    found = parts.at(size)
    return found.busbw_low_gbps, found.busbw_gbps, found.busbw_high_gbps
