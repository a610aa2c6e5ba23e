"""A machine as the expectation model sees it."""

from __future__ import annotations

import csv
import os
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from nccl_insight.advise.expect.machine import Machine, build
from nccl_insight.advise.expect.model import OPS, parts_of
from nccl_insight.base.errors import UsageError
from tests.advise.expect.busbw import _busbw

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


def test_unknown_gpu_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="hardware table"):
        build("Z9000")


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


def test_many_nodes_keep_most_of_the_rate() -> None:
    # 248 nodes of 8 H200 with 8 x 400 Gbit/s: about 350 GB/s at 512 MiB (NVIDIA/nccl-tests 283).
    low, _, high = _busbw(build("H200", nodes=248, nics="8x400", network="ib"), "AllReduce", 512 << 20)
    assert low < 350 < high
    few, many = (
        _busbw(build("H100", nodes=n, nics="8x400", network="ib"), "AllReduce", 8 << 30)[1] for n in (16, 1024)
    )
    assert many > 0.7 * few


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
