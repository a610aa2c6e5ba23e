"""What the report shows before anybody scrolls: the job, or the cause with its line and commands."""

from __future__ import annotations

import re
from pathlib import Path

import nccl_insight
from nccl_insight.engine.steps import steps_of
from tests import pages
from tests.pages import build
from tests.runs import HEALTHY, TINY_SHM


def page(path: Path) -> str:
    run = nccl_insight.load([path])
    return pages.render(nccl_insight.analyze(run), run, js="none")


def text(markup: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", markup))


def test_a_healthy_run_opens_with_its_node_and_without_empty_sections() -> None:
    shown = page(HEALTHY)
    first = shown[shown.index("<main") : shown.index('id="figures"')]
    assert 'id="fig-node"' in first
    assert 'id="findings"' not in shown
    assert 'href="#findings"' not in shown
    assert shown.count('id="fig-node"') == 1


def test_a_failing_run_opens_with_the_line_and_the_commands() -> None:
    shown = page(TINY_SHM)
    first = text(shown[shown.index("<main") : shown.index('id="findings"')])
    assert "failed to extend /dev/shm" in first
    assert "Check: df -h /dev/shm" in first
    assert "Fix: docker run --shm-size" in first
    assert "To see more" not in first
    assert "To see more" in text(shown[shown.index('id="gaps"') :])


def test_words_that_are_commands_too_are_words() -> None:
    assert [s.is_command for s in steps_of("find the late rank first")] == [False]
    assert [s.is_command for s in steps_of("find /dev/shm -name 'nccl-*'")] == [True]
    (step, rest) = steps_of("on the host of rank 7: nvidia-smi -q -d CLOCK; look for CPU contention")
    assert (step.label, step.text, step.where) == ("check", "nvidia-smi -q -d CLOCK", "on the host of rank 7")
    assert not rest.is_command


def test_memory_is_drawn_by_rank_and_purpose(tmp_path: Path) -> None:
    lines = []
    for rank in range(2):
        head = f"node0:{100 + rank}:{100 + rank} [{rank}] NCCL INFO "
        start = f"ncclCommInitRank comm 0x{rank + 1:x}0 rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} "
        lines.append(f"{head}{start}busId {rank + 1}000 commId 0x77 - Init START\n")
        lines.append(f"{head}transport/p2p.cc:174 Cuda Alloc Size {(rank + 1) << 21} pointer 0x7f000000{rank}000\n")
        lines.append(f"{head}channel.cc:41 Cuda Alloc Size 1048576 pointer 0x7f100000{rank}000\n")
    path = tmp_path / "run.log"
    path.write_text("".join(lines))
    run = nccl_insight.load([path])
    figure = next(f for f in build(nccl_insight.analyze(run), run) if f.id == "memory")
    assert figure.summary.startswith("GPU memory: 5.0 MiB at most, on rank 1; 75% of it is for P2P.")
    assert {(row[0], row[4], row[5]) for row in figure.table.rows} == {
        ("0", "P2P", "2.0 MiB"),
        ("1", "P2P", "4.0 MiB"),
        ("0", "channels", "1.0 MiB"),
        ("1", "channels", "1.0 MiB"),
    }
    assert re.findall(r">(rank \d, GPU)</text>", figure.svg) == ["rank 1, GPU", "rank 0, GPU"]
