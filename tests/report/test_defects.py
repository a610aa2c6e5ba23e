"""Sentences and figures that were wrong once: units of unknown sizes, NICs shared per host, one figure of waiting."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

import nccl_insight
from nccl_insight.tables.run import build_run
from tests import render_samples as samples
from tests.pages import build
from tests.runs import SHARED

MS = 1_000_000


def test_an_unknown_size_is_not_zero_bytes() -> None:
    rows = [
        {"rank": rank, "op": "AllToAll", "start_ns": at * MS, "duration_ns": MS, "size_bytes": None}
        for rank in (0, 1)
        for at in (0, 5, 9)
    ]
    figures = {f.id: f for f in build(samples.healthy()[0], build_run({"collectives": pl.DataFrame(rows)}))}
    assert "durations" in figures
    told = " ".join(f"{f.summary} {f.table.rows} {f.plot}" for f in figures.values())
    assert "AllToAll (size unknown)" in told
    assert "0 B" not in told


def test_gpus_that_share_a_nic_are_counted_per_host(tmp_path: Path) -> None:
    lines = []
    for rank in range(4):
        host, gpu = f"gpu{rank // 2}", rank % 2
        head = f"{host}:{100 + rank}:{100 + rank} [{gpu}] NCCL INFO "
        init = f"ncclCommInitRank comm 0x{rank + 1:x}0 rank {rank} nranks 4 cudaDev {gpu} nvmlDev {gpu} "
        init += f"busId {gpu + 1}000 "
        peer = (rank + 2) % 4
        lines += [
            f"{head}NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB [RO]; OOB eth0:10.0.0.{rank}<0>",
            f"{head}{init}commId 0x77 - Init START",
            f"{head}Channel 0{gpu}/0 : {rank}[{gpu}] -> {peer}[{gpu}] [send] via NET/IB/2",
            f"{head}Channel 0{gpu}/0 : {peer}[{gpu}] -> {rank}[{gpu}] [receive] via NET/IB/2",
            f"{head}{init}commId 0x77 - Init COMPLETE",
        ]
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    analysis = nccl_insight.analyze(nccl_insight.load([path]))
    (found,) = [f for f in analysis.findings if f.name == "nic-shared-by-gpus"]
    assert found.title.startswith("On each of 2 hosts, 2 GPUs share NIC 2")


def test_figure_and_finding_tell_one_amount_of_waiting() -> None:
    folder = SHARED / "traces" / "dlrm_v100_8rank"
    if not folder.is_dir():
        pytest.skip("NCCL_INSIGHT_REFERENCE_DATA names no reference data with these traces")
    run = nccl_insight.load([folder])
    analysis = nccl_insight.analyze(run)
    figure = next(f for f in build(analysis, run) if f.id == "waits")
    (found,) = [f for f in analysis.findings if f.name == "straggler-rank"]
    waited = re.search(r"All ranks together wait \S+ ms in \d+ matched collectives", figure.summary)
    assert waited is not None
    assert waited[0] in found.explanation
    delay = re.search(r"by (1\.\d+ ms)", found.title)
    assert delay is not None
    assert f"by {delay[1]}:" in figure.summary


@pytest.mark.parametrize(
    ("raised", "shown"),
    [
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 5 has a total capacity of "
            "79.11 GiB of which 1.02 GiB is free.",
            "raised torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (/srv/fit.py:88)",
        ),
        ("KeyError: " + "label " * 40, "raised KeyError: " + "label " * 14 + "..."),
    ],
)
def test_the_headline_of_a_long_exception_ends_with_a_sentence_or_a_word(
    raised: str, shown: str, tmp_path: Path
) -> None:
    log = tmp_path / "run.log"
    log.write_text(
        "gpu01:4121:4190 [0] NCCL INFO NCCL version 2.27.7+cuda12.8\n"
        "[rank3]: Traceback (most recent call last):\n"
        '[rank3]:   File "/srv/fit.py", line 88, in <module>\n'
        "[rank3]:     main()\n"
        f"[rank3]: {raised}\n"
    )
    (finding,) = (f for f in nccl_insight.analyze(log).findings if f.code == "NI550")
    assert shown in finding.title
