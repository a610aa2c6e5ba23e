"""The hardware table."""

from __future__ import annotations

import itertools
import math
import re

import pytest

from nccl_insight.advise.expect.hardware import copies, find_gpu, gpus, networks
from nccl_insight.advise.expect.machine import build
from nccl_insight.advise.expect.model import OPS, parts_of


def test_every_figure_has_a_source_with_a_year() -> None:
    for entry in [*gpus(), *networks().values()]:
        assert entry.figures
        for name, figure in entry.figures.items():
            assert figure.source, (entry.name, name)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"), ("NVIDIA A100-SXM4-80GB", "A100"), ("NVIDIA A100-PCIE-40GB", "A100 PCIe"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe"), ("Tesla V100-SXM2-16GB", "V100"), ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"), ("NVIDIA A10G", "A10"), ("NVIDIA GB200", "GB200"), ("NVIDIA B200", "B200"),
        ("AMD Instinct MI300X", "MI300X"), ("AMD Instinct MI355X", "MI355X"), ("MI250X", "MI250X"),
        ("NVIDIA H20", "H20"), ("NVIDIA H200", "H200"), ("NVIDIA H200 NVL", "H200 NVL"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"), ("NVIDIA GB10", "GB10"), ("NVIDIA A40", "A40"), ("Tesla T4", "T4"),
        ("NVIDIA RTX A6000", "A40"), ("NVIDIA GeForce RTX 3090 Ti", "RTX 3090"),
    ],
)  # fmt: skip
def test_product_names(name: str, model: str) -> None:
    found = find_gpu(name)
    assert found is not None
    assert found.name == model


@pytest.mark.parametrize("gpu", [g.name for g in gpus()])
def test_longer_messages_take_longer_and_bands_are_ordered(gpu: str) -> None:
    for nodes in (1, 2, 9):
        machine = build(gpu, nodes=nodes, gpus_per_node=4, nics="4x200")
        for op in OPS:
            parts = parts_of(machine, op)
            assert parts is not None
            times = [parts.at(8 << i).time_us for i in range(31)]
            assert all(a < b for a, b in itertools.pairwise(times)), (gpu, op)
            for i in (0, 10, 20, 30):
                e = parts.at(8 << i)
                assert 0 < e.busbw_low_gbps <= e.busbw_gbps <= e.busbw_high_gbps < math.inf
                assert e.busbw_high_gbps / e.busbw_low_gbps <= 2.5


def test_gathering_between_nodes_passes_every_rank() -> None:
    def latency(gpus: int, nodes: int) -> float:
        machine = build("H100", nodes=nodes, gpus_per_node=gpus, nics="8x400", network="ib")
        parts = parts_of(machine, "AllGather")
        assert parts is not None
        return parts.at(8).time_us

    assert latency(8, 16) > 4 * latency(8, 2)
    # One GPU per node: the logarithmic algorithm.
    assert latency(1, 16) < 6 * latency(1, 2)


def test_first_generation_efa_with_several_gpus_takes_longer() -> None:
    def latency(nics: str, gpus: int) -> float:
        parts = parts_of(build("A100", nodes=2, gpus_per_node=gpus, nics=nics, network="efa"), "AllReduce")
        assert parts is not None
        return parts.at(1024).time_us

    assert 100 < latency("4x100", 8) < 250
    assert latency("32x100", 8) < 0.7 * latency("4x100", 8)
    assert latency("4x100", 1) < 0.7 * latency("4x100", 8)


def test_every_figure_has_a_source_with_its_date() -> None:
    tables = [*gpus(), *networks().values(), *copies().values()]
    figures = [(t.name, key, f.source) for t in tables for key, f in t.figures.items()]
    assert len(figures) > 150
    assert [f for f in figures if not re.search(r"\b(19|20)\d\d\b", f[2])] == []


@pytest.mark.parametrize("name", ["H100", "H200", "B200", "GB200", "A100", "L40S", "MI300X"])
def test_the_machines_that_gates_meet_are_in_the_table(name: str) -> None:
    found = find_gpu(name)
    assert found is not None
    assert found.get("pcie_gbps") > 0
