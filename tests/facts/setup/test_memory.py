"""Where NCCL's memory goes: its formulas, the table of allocations, and the findings."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

import nccl_insight
from nccl_insight.facts.setup.memory import connection_memory, device_memory, possible_savings

REFERENCE = os.environ.get("NCCL_INSIGHT_REFERENCE_DATA") or None
needs_reference = pytest.mark.skipif(REFERENCE is None, reason="NCCL_INSIGHT_REFERENCE_DATA names no reference data")
HEAD = "devgpu263:557295:558643 [0] NCCL INFO "
INIT = f"{HEAD}ncclCommInitRank comm 0x1 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 1b000 commId 0xab - Init "


def all_to_all(alloc: bool) -> str:
    """An all-to-all on 8 GPUs with 32 channels per pair, as in NVIDIA/nccl 1685."""
    lines = [f"{INIT}START", f"{INIT}COMPLETE"]
    for peer in range(1, 8):
        for channel in range(32):
            lines.append(f"{HEAD}Channel {channel:02}/1 : 0[0] -> {peer}[{peer}] via P2P/CUMEM")
            lines.append(f"{HEAD}Channel {channel:02}/1 : {peer}[{peer}] -> 0[0] via P2P/CUMEM")
            if alloc:
                at = peer * 1000 + channel
                lines.append(f"{HEAD}Allocated shareable buffer 0x7f{at:010x} size 10485760 ipcDesc 0x7e00")
                lines.append(f"{HEAD}Allocated shareable buffer 0x7e{at:010x} size 2097152 ipcDesc 0x7e00")
    return "\n".join(lines) + "\n"


def test_all_to_all_of_a_public_thread(tmp_path: Path) -> None:
    """224 pairs of buffers, 2.6 GiB of the 3.3 GB that the thread saw the GPU's use grow."""
    path = tmp_path / "run.log"
    path.write_text(all_to_all(alloc=True))
    run = nccl_insight.load(path)
    (most,) = device_memory(run)
    assert most.bytes == 224 * (10485760 + 2097152) == 2818572288
    assert most.purposes == (("P2P", 2818572288, 448),)
    assert "P2P 2.6 GiB in 448 allocations" in most.words()
    # The same from the connections alone.
    path.write_text(all_to_all(alloc=False))
    run = nccl_insight.load(path)
    need = connection_memory(run)
    assert device_memory(run) == []
    assert need is not None
    assert (need.receives, need.p2p_receives, need.bytes) == (224, 224, 2818572288)
    assert possible_savings(run)[0].saved_bytes == 2818572288 // 2


def test_threshold_decides(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(all_to_all(alloc=True))
    assert "nccl-memory-high" not in {f.name for f in nccl_insight.analyze(path).findings}
    path.write_text(all_to_all(alloc=True) + f"{HEAD}transport/net.cc:9 Cuda Alloc Size 536870912 pointer 0x1\n")
    finding = next(f for f in nccl_insight.analyze(path).findings if f.name == "nccl-memory-high")
    assert "3.1 GiB" in finding.title
    assert "network 512.0 MiB" in finding.explanation


def test_one_buffer_that_is_printed_twice_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(
        f"{INIT}START\n{HEAD}transport/p2p.cc:214 Cuda Alloc Size 2097152 pointer 0x7f1\n"
        f"{HEAD}Allocated shareable buffer 0x7f1 size 2097152 ipcDesc 0x7e0\n{INIT}COMPLETE\n"
    )
    assert [m.bytes for m in device_memory(nccl_insight.load(path))] == [2097152]


@needs_reference
def test_a_simulated_run_summed_by_hand() -> None:
    path = Path(str(REFERENCE)) / "simulated" / "2.27.7-2gpu-commregister.log"
    wanted: Counter[tuple[int, str]] = Counter()
    for line in path.read_text().splitlines():
        pid = re.match(r"[^:]+:(\d+):", line)
        shared = re.search(r"Allocated shareable buffer \S+ size (\d+)", line)
        made = re.search(r" Cuda Alloc Size (\d+)", line)
        if pid and shared:
            wanted[int(pid[1]), "P2P"] += int(shared[1])
        elif pid and made:
            wanted[int(pid[1]), "channels"] += int(made[1])
    rows = nccl_insight.load(path).table("nccl_memory").filter(pl.col("place") == "device")
    got = {(pid, purpose): size for pid, purpose, size in rows.select("pid", "purpose", "bytes").iter_rows()}
    assert got == dict(wanted)
    assert sum(v for (_, p), v in wanted.items() if p == "P2P") == 603979776
