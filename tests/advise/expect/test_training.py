"""Traffic of a training step: bytes by hand from the published formulas, times from the machine's rates."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from nccl_insight.advise.expect.machine import build
from nccl_insight.advise.expect.training import machine_of, parse_job, traffic
from nccl_insight.base.errors import UsageError
from nccl_insight.cli import build_app


def test_bytes_are_those_of_the_formulas() -> None:
    job = parse_job("12e9", "bf16", "tp8,pp2,dp4,seq2048,batch2,micro16")
    assert (job.layers, job.width, job.ranks) == (46, 4663, 64)
    machine = machine_of(job, build("H100", nics="8x400", network="ib"))
    assert machine.nodes == 8
    tensor, pipeline, data = traffic(job, machine)
    assert (tensor.ranks, tensor.size_bytes, tensor.calls) == (8, 2 * 2048 * 4663 * 2, 4 * 23 * 16)
    assert (pipeline.ranks, pipeline.size_bytes, pipeline.calls) == (2, 2 * 2048 * 4663 * 2 // 8, 2 * 16)
    assert (data.ranks, data.size_bytes, data.calls) == (4, 12_000_000_000 // 16 * 2, 1)
    assert all(s.time_low_us <= s.time_us <= s.time_high_us for s in (tensor, pipeline, data))


def test_groups_of_a_node_share_its_network() -> None:
    """Four ranks on four nodes, eight such groups at once: each has one NIC of 50 GB/s and no more."""
    job = parse_job("70e9", "bf16", "tp8,dp4")
    (_, data) = traffic(job, machine_of(job, build("H100", nics="8x400", network="ib")))
    least_us = data.size_bytes * 2 * 3 / 4 / 50e9 * 1e6
    assert least_us < data.time_us < 1.5 * least_us


def test_one_rank_of_a_kind_moves_nothing() -> None:
    job = parse_job("7e9", "fp32", "dp8")
    assert [s.what for s in traffic(job, machine_of(job, build("A100")))] == ["data parallel"]


@pytest.mark.parametrize(
    ("params", "dtype", "parallel"),
    [("7", "bf16", "dp8"), ("many", "bf16", "dp8"), ("nan", "bf16", "dp8"), ("7e9", "int4", "dp8"),
     ("7e9", "bf16", "dp0"), ("7e9", "bf16", "tp8,tp8"), ("7e9", "bf16", "8"), ("7e9", "bf16", "tp8;dp2")],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(params: str, dtype: str, parallel: str) -> None:
    with pytest.raises(UsageError, match="--"):
        parse_job(params, dtype, parallel)


def test_ranks_have_to_fit_the_nodes() -> None:
    with pytest.raises(UsageError, match="12 ranks"):
        machine_of(parse_job("7e9", "bf16", "dp12"), build("H100"))
    with pytest.raises(UsageError, match="16 ranks"):
        machine_of(parse_job("7e9", "bf16", "dp16"), build("H100", nodes=4))


def test_the_command_says_both() -> None:
    asked = ["expect", "--gpu", "H100", "--nics", "8x400", "--params", "70e9", "--parallel", "tp8,pp4,dp16"]
    text = CliRunner().invoke(build_app("expect"), asked).stdout
    assert "64 nodes of 8" in text
    assert "tensor parallel: 672 calls of AllReduce among 8 ranks" in text
    document = json.loads(CliRunner().invoke(build_app("expect"), [*asked, "--format", "json"]).stdout)
    assert [row["what"] for row in document["step"]] == ["tensor parallel", "pipeline parallel", "data parallel"]
    assert document["step"][2]["total_bytes"] == 4_375_000_000
