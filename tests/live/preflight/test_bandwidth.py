"""Verdicts on measured bandwidths, from result files with made-up figures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nccl_insight.live.capture.schedule import Measurement, rails, rounds, singles_again
from nccl_insight.live.preflight.bandwidth import Surroundings, bandwidth_checks
from nccl_insight.live.preflight.health import Answer, Health
from nccl_insight.live.preflight.model import Check, Status
from nccl_insight.share import api
from tests.pages import build

H100 = "NVIDIA H100 80GB HBM3"
IB = Surroundings(nics=8, nic_gbit=400.0, layer="InfiniBand", pcie_generation=5)
Item = dict[str, Any]


def judged(
    tmp_path: Path, items: list[Item], around: Surroundings | None = None, gpu: str = H100, given: tuple[str, ...] = ()
) -> list[Check]:
    head: list[Item] = [
        {"kind": "head", "nccl_insight_capture": 1, "rank": 0, "world_size": 8, "local_rank": 0, "host": "gpu01",
         "pid": 1, "backend": "nccl", "slow_rank": None, "nvlink_domain": (around or IB).domain or None},
        {"kind": "versions", "torch": "2.9.0", "cuda": "12.8", "nccl": "2.27.7", "gpu": gpu},
    ]  # fmt: skip
    tmp_path.mkdir(exist_ok=True)
    lines = [json.dumps(item) for item in (*head, *items, {"kind": "ready"}, {"kind": "end"})]
    (tmp_path / "capture.rank0.jsonl").write_text("\n".join(lines) + "\n")
    return list(bandwidth_checks(api.load([tmp_path]), around or Surroundings(), given))


def host_copies(rates: list[float]) -> list[Item]:
    return [
        {"kind": "copy", "host": "gpu01", "rank": rank, "direction": direction, "pinned": pinned,
         "size_bytes": 256 << 20, "numa_node": 0, "gbps": rate if pinned else rate / 4}
        for rank, rate in enumerate(rates) for direction in ("h2d", "d2h") for pinned in (True, False)
    ]  # fmt: skip


def pairs_of_gpus(count: int, rate: float, slow: dict[tuple[int, int], float] | None = None) -> list[Item]:
    return [
        {"kind": "peer", "host": "gpu01", "src": s, "dst": d, "peer_access": True, "size_bytes": 128 << 20,
         "gbps": (slow or {}).get((min(s, d), max(s, d)), rate)}
        for s in range(count) for d in range(count) if s != d
    ]  # fmt: skip


def row(op: str, busbw: float, ranks: int = 8, hosts: int = 1, size: int = 256 << 20) -> Item:
    return {"kind": "row", "op": op, "size_bytes": size, "busbw_gbps": busbw, "time_us": 1000.0, "wrong": 0,
            "nranks": ranks, "n_hosts": hosts, "dtype": "float32", "count": size // 4}  # fmt: skip


def test_a_good_machine_is_told_what_was_expected(tmp_path: Path) -> None:
    items = [*host_copies([55.4] * 8), *pairs_of_gpus(8, 394.0), row("AllReduce", 452.0), row("AllGather", 350.0)]
    found = {c.name: c for c in judged(tmp_path, items, IB)}
    assert {c.status for c in found.values()} == {Status.PASS}
    assert "46 GB/s or more of 64 GB/s raw" in found["host copies"].observed
    assert "AllReduce 452 of" in found["expected busbw"].observed


@pytest.mark.parametrize(
    ("rates", "generation", "gpu", "status", "words"),
    [
        ([55.4] * 7 + [25.8], 5, H100, Status.WARN, "GPU of rank 7 h2d 25.8 GB/s (median 55.4)"),
        ([26.1] * 8, 5, H100, Status.WARN, "26.1 to 26.1"),
        ([26.1] * 8, 4, H100, Status.PASS, "23 GB/s or more of 32"),
        ([26.1] * 8, None, H100, Status.PASS, "one PCIe generation less"),
        ([11.0] * 8, None, H100, Status.WARN, "11.0"),
        ([25.9] * 8, 4, "NVIDIA A100-SXM4-80GB", Status.PASS, "23 GB/s or more of 32"),
        ([12.9] * 8, 4, "NVIDIA A100-SXM4-80GB", Status.WARN, "12.9"),
        ([210.0] * 4, 5, "NVIDIA GB200", Status.PASS, "210.0"),
        ([9.0] * 8, None, "Some Other GPU", Status.PASS, "9.0"),
    ],
)
def test_host_copies(
    tmp_path: Path, rates: list[float], generation: int | None, gpu: str, status: Status, words: str
) -> None:
    (found,) = judged(tmp_path, host_copies(rates), Surroundings(pcie_generation=generation), gpu)
    assert found.status is status
    assert words in found.observed


def test_an_expectation_of_the_user_takes_the_place_of_ours(tmp_path: Path) -> None:
    items = [*host_copies([26.1] * 8), *pairs_of_gpus(8, 200.0), row("AllReduce", 100.0)]
    assert {c.status for c in judged(tmp_path, items, IB)} == {Status.WARN}
    given = ("h2d_gbps", "p2p_gbps", "busbw")
    assert {c.status for c in judged(tmp_path, items, IB, given=given)} == {Status.PASS}


def test_a_gpu_whose_links_are_slow_is_named_and_not_its_partners(tmp_path: Path) -> None:
    slow = {(min(3, n), max(3, n)): 190.0 for n in range(8) if n != 3}
    (found,) = judged(tmp_path, pairs_of_gpus(8, 394.0, slow))
    assert (found.status, found.code) == (Status.WARN, "NI313")
    assert found.observed.startswith("GPU 3: 190.0 GB/s")


def test_a_slow_path_between_two_good_gpus_is_named_as_such(tmp_path: Path) -> None:
    found = judged(tmp_path, pairs_of_gpus(8, 394.0, {(1, 6): 150.0}))
    assert {c.observed.split(":")[0] for c in found} == {"GPU 1 to 6", "GPU 6 to 1"}


def test_links_that_are_slow_everywhere(tmp_path: Path) -> None:
    (found,) = judged(tmp_path, pairs_of_gpus(8, 190.0))
    assert found.status is Status.WARN
    assert "324 GB/s or more of 450 GB/s NVLink of H100" in found.expected
    (other,) = judged(tmp_path / "pcie", pairs_of_gpus(4, 21.0), gpu="NVIDIA L40S")
    assert other.status is Status.PASS


@pytest.mark.parametrize(
    ("gpu", "op", "low"),
    [
        (H100, "AllGather", 120.0), (H100, "ReduceScatter", 120.0), (H100, "AllToAll", 60.0), (H100, "SendRecv", 90.0),
        ("NVIDIA H200", "AllReduce", 200.0), ("NVIDIA B200", "AllReduce", 300.0), ("NVIDIA GB200", "AllGather", 200.0),
        ("NVIDIA A100-SXM4-80GB", "AllReduce", 90.0), ("NVIDIA L40S", "AllReduce", 3.0),
        ("AMD Instinct MI300X", "AllReduce", 90.0),
    ],
)  # fmt: skip
def test_each_operation_has_its_expectation(tmp_path: Path, gpu: str, op: str, low: float) -> None:
    (found,) = judged(tmp_path, [row(op, low)], gpu=gpu)
    assert found.status is Status.WARN
    assert found.observed == f"{op} {low:.0f} GB/s"
    assert re.search(r"source: .*20\d\d", found.expected)


def test_small_messages_alone_are_no_verdict(tmp_path: Path) -> None:
    assert judged(tmp_path, [row("AllReduce", 3.0, size=1 << 20)]) == []


@pytest.mark.parametrize(
    ("busbw", "around", "statuses"),
    [
        (360.0, IB, [Status.PASS]),
        (120.0, IB, [Status.WARN]),
        (120.0, Surroundings(), []),  # without the NICs nothing is expected of the network
        (40.0, Surroundings(nics=4, nic_gbit=100.0, layer="Ethernet"), [Status.PASS]),
    ],
)
def test_several_nodes(tmp_path: Path, busbw: float, around: Surroundings, statuses: list[Status]) -> None:
    found = judged(tmp_path, [row("AllReduce", busbw, ranks=32, hosts=4, size=1 << 30)], around)
    assert [c.status for c in found] == statuses
    if statuses == [Status.WARN]:
        assert "8 x 400 Gbit/s ib per node" in found[0].expected


def test_nodes_of_one_nvlink_domain_are_expected_to_use_it(tmp_path: Path) -> None:
    slow = [row("AllReduce", 90.0, ranks=16, hosts=4)]  # what NICs of 400 Gbit/s would be praised for
    inside = Surroundings(nics=4, nic_gbit=400.0, layer="InfiniBand", domain="c0ffee/7")
    (found,) = judged(tmp_path / "a", slow, inside, "NVIDIA GB200")
    assert found.status is Status.WARN
    (found,) = judged(tmp_path / "b", [row("AllReduce", 700.0, ranks=16, hosts=4)], inside, "NVIDIA GB200")
    assert found.status is Status.PASS
    assert judged(tmp_path / "c", slow, None, "NVIDIA GB200") == []


def test_the_domain_of_a_node_is_that_of_all_its_gpus() -> None:
    here, there, alone = ("c0ffee", 7), ("c0ffee", 8), ("0" * 32, 0)
    assert Answer("ok", gpus=(Health("0", fabric_place=here), Health("1", fabric_place=here))).domain == "c0ffee/7"
    for other in (there, None):
        assert Answer("ok", gpus=(Health("0", fabric_place=here), Health("1", fabric_place=other))).domain == ""
    assert Answer("ok", gpus=(Health("0", fabric_place=alone),)).domain == ""
    assert Answer("missing").domain == ""


def test_the_report_of_a_capture_shows_copies_and_names_the_odd_ones(tmp_path: Path) -> None:
    items = [*host_copies([55.4] * 7 + [25.8]), *pairs_of_gpus(8, 394.0, {(1, 6): 150.0}), row("AllReduce", 452.0)]
    judged(tmp_path / "c", items)
    run = api.load([tmp_path / "c"])
    analysis = api.analyze(run)
    titles = [f.title for f in analysis.findings if f.name == "benchmark-below-expected"]
    assert any("rank 7's GPU (" in t and "25.8 GB/s" in t for t in titles), titles
    assert any("GPU 1 to GPU 6" in t or "GPU 6 to GPU 1" in t for t in titles)
    notes = "\n".join(analysis.notes)
    assert "Measured AllReduce on 8 ranks" in notes
    assert "Measured copies of pinned host memory on 8 GPUs: h2d 25.8 to 55.4 GB/s" in notes
    assert "Measured copies between 56 pairs of GPUs: 150.0 to 394.0 GB/s" in notes
    figures = {f.id: f for f in build(analysis, run)}
    assert "1 rank far below" in figures["host-copies"].summary
    assert figures["peer-copies"].table.rows[0][:4] == ("gpu01", "1", "6", "150")
    assert figures["busbw"].table.rows


def test_the_report_of_a_good_capture_names_nothing(tmp_path: Path) -> None:
    judged(tmp_path / "c", [*host_copies([55.4, 55.2, 55.3]), *pairs_of_gpus(4, 394.0), row("AllReduce", 452.0)])
    analysis = api.analyze(api.load([tmp_path / "c"]))
    assert [f.name for f in analysis.findings] == []
    assert not any("far below" in note for note in analysis.notes)


def node_pairs(nodes: int, slow: dict[tuple[int, int], float]) -> list[Item]:
    """Rounds of nodes with 4 ranks each; ``slow``: (node, local rank) -> rate of that rank's NIC."""
    items: list[Item] = [
        {"kind": "node", "node": n, "host": f"gpu{n:02}", "ranks": list(range(4 * n, 4 * n + 4)), "verdict": []}
        for n in range(nodes)
    ]
    for number, matching in enumerate(rounds(nodes)):
        for a, b in matching:
            rate = [min(slow.get((a, k), 45.0), slow.get((b, k), 45.0)) for k in range(4)]
            base = {"kind": "pair", "round": number, "first": a, "second": b, "size_bytes": 64 << 20}
            items.append({**base, "local_rank": None, "nranks": 8, "busbw_gbps": sum(rate)})
            items += [{**base, "local_rank": k, "nranks": 2, "busbw_gbps": rate[k]} for k in range(4)]
    return items


def test_one_bad_nic_is_named_by_node_and_rank(tmp_path: Path) -> None:
    (found,) = judged(tmp_path, node_pairs(8, {(5, 2): 11.0}))
    assert (found.name, found.node, found.status) == ("node gpu05", "gpu05", Status.WARN)
    assert found.observed.startswith("local rank 2 (11 GB/s) with every partner")


def test_ranks_that_take_turns_at_a_nic_are_not_named(tmp_path: Path) -> None:
    items = node_pairs(4, {})
    single = [item for item in items if item.get("local_rank") is not None]
    taking_turns = [dict(item, busbw_gbps=(45.0, 22.0, 38.0)[n % 7 % 3]) for n, item in enumerate(single)]
    whole = [item for item in items if item not in single]
    (found,) = judged(tmp_path, [*whole, *taking_turns, *single])
    assert found.status is Status.PASS


def test_nodes_with_a_slow_rank_measure_all_their_ranks_twice_more() -> None:
    rate = {2001: 11.0}
    measured = [
        Measurement(number, 1000 * a + k, 1000 * b + k, min(rate.get(1000 * a + k, 45.0), rate.get(1000 * b + k, 45.0)))
        for number, matching in enumerate(([(0, 3), (1, 2)], [(0, 1), (2, 3)], [(0, 2), (1, 3)]))
        for a, b in matching
        for k in range(2)
    ]
    assert singles_again(measured) == [[(1, 2)], [(2, 3)], [(0, 2)]] * 2
    assert singles_again([m for m in measured if 2001 not in (m.first, m.second)]) == []


def test_a_node_that_is_slow_as_a_whole_is_one_line(tmp_path: Path) -> None:
    (found,) = judged(tmp_path, node_pairs(8, {(5, k): 11.0 for k in range(4)}))
    assert (found.name, found.status) == ("node gpu05", Status.FAIL)
    assert "ranks 20-23" in found.observed


def test_a_bad_nic_that_slows_its_whole_node_is_part_of_that_line(tmp_path: Path) -> None:
    items = node_pairs(8, {(5, 2): 11.0})
    for item in items:
        if item["kind"] == "pair" and item["local_rank"] is None and 5 in (item["first"], item["second"]):
            item["busbw_gbps"] = 44.0
    (found,) = judged(tmp_path, items)
    assert (found.name, found.status) == ("node gpu05", Status.FAIL)
    assert "by itself, local rank 2 (11 GB/s) is slow" in found.observed


def test_good_nodes(tmp_path: Path) -> None:
    (found,) = judged(tmp_path, node_pairs(8, {}))
    assert found.status is Status.PASS
    assert "12 pairs" in found.observed


def test_single_ranks_are_measured_only_where_that_is_affordable() -> None:
    assert rails([8] * 32, len(rounds(32))) == 8
    assert rails([1] * 8, 3) == 0
    assert rails([8, 4, 8], 3) == 4
    assert rails([8] * 512, len(rounds(512))) == 0
