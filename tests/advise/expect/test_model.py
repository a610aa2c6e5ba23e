"""The expectation model against measurements that others published, and its limits."""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from nccl_insight.advise.expect.hardware import find_gpu, gpus, networks
from nccl_insight.advise.expect.machine import Machine, build
from nccl_insight.advise.expect.model import OPS, parts_of
from nccl_insight.advise.expect.whatif import change
from nccl_insight.base.errors import UsageError
from tests.cli import run_cli

DATA = Path(__file__).parents[2] / "data" / "published_expect.csv"
REFERENCE = os.environ.get("NCCL_INSIGHT_REFERENCE_DATA") or None
_LINKS = {
    "nvswitch": "nvswitch", "nvswitch-mnnvl": "nvswitch", "nvlink-bridge": "nvlink", "nvlink-mesh": "nvlink",
    "pcie": "pcie",
}  # fmt: skip


def machine_of(row: dict[str, str]) -> Machine:
    nic, _, kind = row["nic"].partition(" ")
    return build(
        row["gpu"],
        nodes=int(row["nodes"]),
        gpus_per_node=int(row["gpus_per_node"]),
        nics=nic or None,
        network=kind.lower() if kind.lower() in {"ib", "roce", "efa", "tcp"} else None,
        link=_LINKS.get(row["link_in_node"]),
        gdr=False if row["gdr"] == "no" and row["nodes"] != "1" else None,
        nccl_version=row["nccl_version"] or None,
    )


def judged(path: Path) -> Iterator[tuple[dict[str, str], float, float, float]]:
    names = {op.lower(): op for op in OPS}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            many = row["nodes"] != "1"
            if row["healthy"] != "yes" or "not expressible" in row["note"] or (many and "unknown" in row["nic"]):
                continue
            parts = parts_of(machine_of(row), names[row["op"].replace("_", "")])
            assert parts is not None
            e = parts.at(min(int(row["size_bytes"]), 8 << 30))
            yield row, float(row["busbw_gbps"]), e.busbw_low_gbps, e.busbw_high_gbps


def check(path: Path) -> None:
    rows = list(judged(path))
    inside = [low * 0.995 <= value <= high * 1.005 for _, value, low, high in rows]
    large = [hit for (row, *_), hit in zip(rows, inside, strict=True) if int(row["size_bytes"]) >= 1 << 20]
    small = [hit for (row, *_), hit in zip(rows, inside, strict=True) if int(row["size_bytes"]) < 1 << 20]
    assert statistics.median(high / low for _, _, low, high in rows) <= 1.8
    assert sum(large) / len(large) >= 0.85
    assert sum(small) / len(small) >= 0.7


def test_published_measurements_lie_in_the_band() -> None:
    check(DATA)


@pytest.mark.skipif(REFERENCE is None, reason="NCCL_INSIGHT_REFERENCE_DATA names no reference data")
def test_reference_measurements_lie_in_the_band() -> None:
    check(Path(str(REFERENCE)) / "expected" / "published.csv")


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


def test_unknown_gpu_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="hardware table"):
        build("Z9000")


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


def test_what_bounds_a_collective() -> None:
    def bound(machine: Machine) -> str:
        parts = parts_of(machine, "AllReduce")
        assert parts is not None
        return parts.at(8 << 30).bound_by

    assert "NVLS" in bound(build("H100"))
    assert "NVSwitch" in bound(build("H100", nvls=False))
    assert "NIC" in bound(build("H100", nodes=8, nics="1x100", network="ib"))
    assert "host memory" in bound(build("H100", nodes=8, nics="1x100", network="ib", gdr=False))
    assert "sockets" in bound(build("H100", nodes=8, nics="1x100", network="tcp"))
    assert "no peer access" in bound(build("RTX 4090"))


def test_one_gpu_and_unknown_networks_have_no_expectation() -> None:
    assert parts_of(build("H100", gpus_per_node=1), "AllReduce") is None
    assert parts_of(build("H100", nodes=2), "AllReduce") is None


def test_nvlink_between_nodes_needs_no_nics() -> None:
    parts = parts_of(build("GB200", nodes=18), "AllReduce")
    assert parts is not None
    assert "NVSwitch" in parts.at(8 << 30).bound_by


def test_changes() -> None:
    machine = build("H100", nodes=2, nics="8x400", network="ib")
    assert change(machine, "gpus=512").nodes == 64
    assert change(machine, "nics=4x200,gdr=off").gdr is False
    assert change(machine, "gpu=MI300X").fabric == "mesh"
    assert change(machine, "network=tcp").network.name == "tcp"
    assert change(machine, "algorithm=nvlstree").algorithm == "NVLS"
    for wrong in ("gpus=13", "speed=1", "nics=8", "nvls=maybe", "nodes=0", "nodes"):
        with pytest.raises(UsageError):
            change(machine, wrong)


def test_command() -> None:
    done = run_cli(
        "expect", "--gpu", "H100", "--nodes", "2", "--nics", "8x400", "--format", "json", "--what-if", "nodes=8"
    )
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert {e["op"] for e in document["expectations"]} == set(OPS)
    sizes = {e["size_bytes"] for e in document["expectations"]}
    assert (min(sizes), max(sizes)) == (8, 8 << 30)
    assert document["what_if"][0]["machine"]["ranks"] == 64
    assert run_cli("expect", "--gpu", "H100", "--nodes", "2").returncode == 3
    assert run_cli("expect", "--gpu", "nothing").returncode == 2
    assert run_cli("expect").returncode == 2
    text = run_cli("expect", "--gpu", "A100", "--op", "all_reduce", "--size", "1G").stdout
    assert "NVLink through NVSwitch" in text


def test_an_algorithm_can_be_asked_for() -> None:
    def busbw(machine: Machine, algorithm: str) -> float:
        parts = parts_of(change(machine, f"algorithm={algorithm}"), "AllReduce")
        assert parts is not None
        assert parts.rate.algorithm.startswith(algorithm)
        return parts.rate.typical

    node = build("H100", nodes=1, gpus_per_node=8)
    assert busbw(node, "Tree") < busbw(node, "Ring") < busbw(node, "NVLS")
    # The tree in a node is bound by NVLink, NVLS by the switch; across many nodes all of them by the NICs.
    pair, many = (build("H100", nodes=n, gpus_per_node=8, nics="8x400", network="ib") for n in (2, 16))
    assert busbw(pair, "Tree") < busbw(pair, "NVLS")
    assert busbw(many, "Tree") <= busbw(many, "Ring")
    for wrong in ("algorithm=Bruck", "algorithm="):
        with pytest.raises(UsageError, match="Ring, Tree, NVLS"):
            change(node, wrong)
    with pytest.raises(UsageError, match="cannot do NVLS"):
        change(build("A100"), "algorithm=NVLS")


def test_slow_ethernet_is_filled() -> None:
    """A socket carries 10 Gbit/s whole, but not 100."""
    slow, fast = (
        parts_of(build("A100 PCIe", nodes=2, gpus_per_node=1, nics=f"1x{g}", network="tcp"), "AllReduce")
        for g in (10, 100)
    )
    assert slow is not None
    assert fast is not None
    assert slow.rate.typical / 1.25 > fast.rate.typical / 12.5
    assert slow.rate.low < 1.17 < slow.rate.high < 1.25


@pytest.mark.parametrize(
    ("gpu", "size", "least", "most"),
    # Sends between eight GPUs of a node start with 4 channels and double them above 16 MiB a channel.
    [
        ("B200", 64 << 20, 70, 95),
        ("B200", 128 << 20, 130, 190),
        ("B200", 256 << 20, 250, 360),
        ("B200", 1 << 30, 500, 700),
        ("A100", 64 << 20, 42, 62),
        ("A100", 8 << 30, 180, 245),
    ],
)
def test_sends_inside_a_node_are_bound_by_their_channels(gpu: str, size: int, least: float, most: float) -> None:
    parts = parts_of(build(gpu, gpus_per_node=8), "SendRecv")
    assert parts is not None
    told = parts.at(size)
    assert least <= told.busbw_gbps <= most
    if size < 1 << 29:
        assert told.bound_by == "channels of one send"


def test_two_gpus_have_more_channels_for_a_send_than_eight() -> None:
    pair, eight = (parts_of(build("H100", gpus_per_node=n), "SendRecv") for n in (2, 8))
    assert pair is not None
    assert eight is not None
    assert pair.at(32 << 20).busbw_gbps > 2 * eight.at(32 << 20).busbw_gbps


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


def test_all_to_all_of_newer_releases_starts_at_once() -> None:
    def latency(gpu: str, version: str | None) -> float:
        parts = parts_of(build(gpu, gpus_per_node=8, nccl_version=version), "AllToAll")
        assert parts is not None
        return parts.at(1024).time_us

    assert latency("B200", None) < 20 < latency("A100", None)
    assert latency("A100", "2.29.2") < 25


def test_large_ib_fabrics_may_lose_nothing() -> None:
    parts = parts_of(build("H100", nodes=64, gpus_per_node=8, nics="8x400", network="ib"), "AllReduce")
    assert parts is not None
    told = parts.at(8 << 30)
    assert told.busbw_low_gbps < 300
    assert told.busbw_high_gbps > 358


def _busbw(machine: Machine, op: str, size: int) -> tuple[float, float, float]:
    parts = parts_of(machine, op)
    assert parts is not None
    found = parts.at(size)
    return found.busbw_low_gbps, found.busbw_gbps, found.busbw_high_gbps


def test_racks_that_nvlink_does_not_join_are_as_fast_as_their_nics() -> None:
    rack = build("GB300", nodes=2, gpus_per_node=4, nics="4x800", network="roce")
    apart = build("GB300", nodes=2, gpus_per_node=4, nics="4x800", network="roce", domains=2)
    assert (rack.domains, apart.domains) == (1, 2)
    # Four 800 Gbit/s NICs of two nodes: 358 of 400 GB/s (Google Cloud, A4X Max).
    low, _, high = _busbw(apart, "AllReduce", 8 << 30)
    assert 200 < low < 358 < high
    assert "in 2 NVLink domains" in apart.describe()
    assert change(rack, "domains=2") == apart
    for wrong in (0, 3):
        with pytest.raises(UsageError, match="--domains"):
            build("GB200", nodes=2, domains=wrong)
    with pytest.raises(UsageError, match="at most the number of nodes"):
        change(rack, "domains=3")


def test_many_nodes_keep_most_of_the_rate() -> None:
    # 248 nodes of 8 H200 with 8 x 400 Gbit/s: about 350 GB/s at 512 MiB (NVIDIA/nccl-tests 283).
    low, _, high = _busbw(build("H200", nodes=248, nics="8x400", network="ib"), "AllReduce", 512 << 20)
    assert low < 350 < high
    few, many = (
        _busbw(build("H100", nodes=n, nics="8x400", network="ib"), "AllReduce", 8 << 30)[1] for n in (16, 1024)
    )
    assert many > 0.7 * few


def test_the_ring_takes_longer_to_start_and_the_tree_to_move_much() -> None:
    def busbw(algorithm: str, size: int) -> float:
        machine = build("H100", nodes=64, nics="8x400", network="ib", nvls=False)
        return _busbw(change(machine, f"algorithm={algorithm}"), "AllReduce", size)[1]

    assert busbw("Tree", 8) > 2 * busbw("Ring", 8)
    assert busbw("Ring", 8 << 30) > busbw("Tree", 8 << 30)


def test_the_switch_adds_nothing_with_four_gpus() -> None:
    gains = [
        _busbw(build("H100", gpus_per_node=n), "AllReduce", 8 << 30)[1]
        / _busbw(build("H100", gpus_per_node=n, nvls=False), "AllReduce", 8 << 30)[1]
        for n in (4, 8)
    ]
    assert gains[0] == 1.0
    assert 1.2 < gains[1] < 1.4


def test_groups_of_bridged_gpus_have_two_rings_over_pcie() -> None:
    bridged, alone = (
        _busbw(build("H200 NVL", gpus_per_node=8, link=link), "AllReduce", 8 << 30)[1] for link in ("nvlink", "pcie")
    )
    assert 1.5 < bridged / alone < 2.1


@pytest.mark.parametrize("name", ["slingshot", "tcpx", "tcpxo"])
def test_every_network_can_be_named(name: str) -> None:
    asked = ["expect", "--gpu", "H100", "--nodes", "2", "--nics", "4x200", "--op", "AllGather", "--size", "8G"]
    result = run_cli(*asked, "--network", name, "--format", "json")
    assert result.returncode == 0, result.stderr
    (found,) = json.loads(result.stdout)["expectations"]
    assert found["busbw_high_gbps"] <= 100
