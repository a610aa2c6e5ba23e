"""nccl-tests text alone: what is expected of its machine, or that it is not judged and what to say."""

from __future__ import annotations

from pathlib import Path

import pytest

import nccl_insight
from nccl_insight.base.errors import UsageError
from nccl_insight.base.model import Analysis
from tests.bare_logs import log


def sweep(gpu: str, nodes: int, per_node: int, gbps: float, *, size: int = 1 << 30) -> str:
    """An all_gather of two sizes at one bus bandwidth: time = bytes / algbw, busbw = algbw x (n - 1) / n."""
    ranks = nodes * per_node
    algbw = gbps * ranks / (ranks - 1)
    lines = [
        "# nccl-tests version 2.18.3 nccl-headers=23005 nccl-library=23005",
        "# Collective test starting: all_gather_perf",
        f"# nThread 1 nGpus 1 minBytes {size} maxBytes {2 * size} step: 2(factor) warmup iters: 1 iters: 20 agg "
        "iters: 1 validation: 1 graph: 0",
        "#",
        "# Using devices",
        *(
            f"#  Rank {r:2} Group  0 Pid {4000 + r} on node{r // per_node:02} device {r % per_node:2} "
            f"[0000:{0x10 + r % per_node:x}:00] {gpu}"
            for r in range(ranks)
        ),
        "#",
        "#       size         count      type   redop    root " + "    time   algbw   busbw  #wrong" * 2,
    ]
    for each in (size, 2 * size):
        figures = f"{each / algbw / 1e3:9.1f} {algbw:7.2f} {gbps:7.2f}       0"
        lines.append(f"{each:12} {each // 4:12}     float    none      -1 {figures} {figures}")
    return "\n".join([*lines, "# Out of bounds values : 0 OK", f"# Avg bus bandwidth    : {gbps}", ""])


def judge(tmp_path: Path, text: str, nics: str = "") -> Analysis:
    path = tmp_path / "nt.txt"
    path.write_text(text)
    return nccl_insight.analyze([path], nics=nics)


def test_a_machine_whose_nic_is_on_its_board_is_judged(tmp_path: Path) -> None:
    slow = judge(tmp_path, sweep("NVIDIA GB10", 2, 1, 3.0))
    assert [f.name for f in slow.findings if f.severity.value == "warning"] == ["benchmark-below-expected"]
    assert "2 x GB10" in slow.findings[0].title
    assert "NCCL_IB_HCA" in slow.findings[0].next_step
    assert judge(tmp_path, sweep("NVIDIA GB10", 2, 1, 22.5)).status == "ok"


def test_unknown_nics_are_asked_for(tmp_path: Path) -> None:
    text = sweep("NVIDIA H100 80GB HBM3", 2, 8, 44.0)
    open_ = judge(tmp_path, text)
    assert open_.status == "inconclusive"
    assert open_.headline.startswith("No problem found; 44 GB/s busbw of AllGather on 16 ranks is not judged")
    assert "--nics" in open_.headline
    slow = judge(tmp_path, text, nics="8x400")
    assert [f.name for f in slow.findings if f.severity.value == "warning"] == ["benchmark-below-expected"]
    assert "2 nodes of 8" in slow.findings[0].observed + slow.findings[0].explanation + slow.findings[0].title
    assert judge(tmp_path, text, nics="1x400").status == "ok"


def test_one_node_needs_no_nics(tmp_path: Path) -> None:
    assert judge(tmp_path, sweep("NVIDIA H100 80GB HBM3", 1, 8, 350.0)).status == "ok"


def test_less_than_expected_is_not_well(tmp_path: Path) -> None:
    said = judge(tmp_path, sweep("NVIDIA H100 80GB HBM3", 1, 8, 275.0))
    assert said.status == "inconclusive"
    assert "275 GB/s busbw of AllGather on 8 ranks is less than the" in said.headline


def test_small_messages_tell_no_rate(tmp_path: Path) -> None:
    assert judge(tmp_path, sweep("NVIDIA H100 80GB HBM3", 2, 8, 2.0, size=1 << 16)).status == "ok"


def test_nics_that_are_no_nics_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="COUNTxGBITS"):
        judge(tmp_path, sweep("NVIDIA H100 80GB HBM3", 2, 8, 44.0), nics="fast")


def test_a_sweep_that_hangs_names_the_size_that_it_did_not_get_past(tmp_path: Path) -> None:
    text = sweep("NVIDIA H100 80GB HBM3", 1, 8, 350.0)
    path = tmp_path / "nt.txt"
    path.write_text("\n".join(text.split("\n")[:-4]) + "\n")
    assert "progress-stalled" not in {f.name for f in nccl_insight.analyze([path]).findings}
    (found,) = [f for f in nccl_insight.analyze([path], symptom="hang").findings if f.name == "progress-stalled"]
    assert "behind 1.0 GiB" in found.title


def test_a_sweep_counts_no_steps(tmp_path: Path) -> None:
    text = "\n".join([*log(), sweep("NVIDIA H100 80GB HBM3", 2, 8, 44.0)])
    kinds = [moment.kind for moment in judge(tmp_path, text).story]
    assert "init" in kinds
    assert "last step" not in kinds
