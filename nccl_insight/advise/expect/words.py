"""Sentences about algorithms, links and assumptions."""

from collections.abc import Mapping
from typing import Final

from nccl_insight.advise.expect.machine import Machine, direct_memory
from nccl_insight.advise.expect.model import Parts
from nccl_insight.base import toml

_ALGORITHMS: Final[Mapping[str, str]] = toml.beside(__file__)["algorithms"]


def algorithm_words(parts: Parts) -> str:
    """Which algorithm carries large messages, and why."""
    name = parts.rate.algorithm
    small = ""
    if parts.op == "AllReduce":
        small = "; small ones take LL or LL128, whose steps are short and whose rate is lower"
    return f"large messages take {_ALGORITHMS.get(name, name)}{small}"


def setting_notes(machine: Machine) -> list[str]:
    """What was assumed because nobody said it, and which choices hold the machine back."""
    notes: list[str] = []
    if machine.domains > 1:
        if machine.network.name == "unknown":
            notes.append("kind of network not given (--network ib|roce|efa|tcp): an RDMA network assumed")
        if not machine.nics:
            notes.append("no NICs given (--nics COUNTxGBITS): nothing can be expected between nodes")
        if machine.gdr is None:
            direct = direct_memory(machine)
            notes.append(f"GPUDirect RDMA not stated: assumed {'on' if direct else 'off'} (--gdr or --no-gdr)")
    if machine.gpu.get("nvls_share") and machine.fabric == "nvswitch" and machine.nvls is None:
        notes.append("NVLS assumed to work; the band reaches down to the ring (--no-nvls)")
    return notes
