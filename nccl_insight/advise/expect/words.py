"""Sentences about algorithms, links and assumptions."""

from typing import Final

from nccl_insight.advise.expect.machine import Machine, direct_memory
from nccl_insight.advise.expect.model import Parts

_ALGORITHMS: Final = {
    "Ring": "the ring: every link carries the same share, best for large messages",
    "Tree": "the double tree: two nodes exchange the data once, not twice, and reach more than their NICs' rate",
    "NVLS": "NVLS: the NVSwitch adds the values, each GPU sends its data once, so busbw may exceed the link's rate",
    "NVLSTree": "NVLSTree: the NVSwitch adds inside the node and a tree joins the nodes",
    "pairwise": "pairs of send and receive",
}


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
