"""Steps that once grew with the square of hosts, settings or members give what they gave."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl

from nccl_insight import analyze, load
from nccl_insight.engine.causes import FirstLines
from nccl_insight.facts.links import failed_after, flaps
from nccl_insight.facts.outliers import outliers
from nccl_insight.facts.user_settings import user_settings
from nccl_insight.facts.wording import wording_clashes
from nccl_insight.loading.assemble.hosts import spoiled


def test_a_host_is_mended_to_the_longest_frequent_end_of_its_name() -> None:
    processes = pl.DataFrame(
        {
            "input_id": [0, 0, 0, 0, 0, 1],
            "_host": ["Connected gpu1", "gpu1", "u1", "gpu2", "xxgpu2", "yygpu1"],
            "_pid": [7, 7, 7, 7, 7, 7],
            "_lines": [2, 100, 90, 10, 9, 1],
        },
        schema={"input_id": pl.UInt16, "_host": pl.String, "_pid": pl.Int64, "_lines": pl.UInt64},
    )
    # gpu1 itself is frequent, xxgpu2 is no rarer than gpu2, and the last stands in another input.
    assert spoiled(processes).rows() == [(0, "Connected gpu1", 7, "gpu1")]


def test_settings_keep_versions_hosts_and_first_lines(tmp_path: Path) -> None:
    log = tmp_path / "env.log"
    lines = []
    for n in range(5):
        head = f"h{n % 3}:{10 + n}:{10 + n} [0] NCCL INFO "
        lines += [
            f"{head}NCCL version 2.2{1 + n // 4}.5+cuda12.4",
            f"{head}NCCL_IB_HCA set by environment to mlx5_{n // 4}",
        ]
    log.write_text("\n".join(lines) + "\n")
    first, second = user_settings(load([str(log)]))
    assert (first.name, first.value, first.version) == ("NCCL_IB_HCA", "mlx5_0", "2.21.5")
    assert first.hosts == ("h0", "h1", "h2")
    assert [ref.line for ref in first.evidence] == [2, 4, 6]
    assert first.processes == 4
    assert (second.value, second.version, second.hosts) == ("mlx5_1", "2.22.5", ("h1",))


def test_many_communicators_of_the_same_members_are_still_a_leak(tmp_path: Path) -> None:
    log = tmp_path / "leak.log"
    lines = []
    for made in range(80):
        for rank in range(2):
            head = f"h{rank}:{10 + rank}:{10 + rank} [0] NCCL INFO "
            lines.append(
                f"{head}ncclCommInitRank comm 0x{made:x}{rank}000 rank {rank} nranks 2 cudaDev 0 nvmlDev 0 "
                f"busId 1000 commId 0x{made + 1:x}ab - Init COMPLETE"
            )
    log.write_text("\n".join(lines) + "\n")
    found = {f.code: f for f in analyze([str(log)]).findings}
    assert "NI112" in found
    assert found["NI112"].hosts == ("h0", "h1")


def test_releases_by_wording_of_many_hosts(tmp_path: Path) -> None:
    """One odd host among many; the message that narrows its releases most is the evidence."""
    log = tmp_path / "many.log"
    lines = ["odd:1:1 [0] NCCL INFO NCCL version 2.14.3+cuda11.7"]
    lines += [
        f"{host}:{n}:{n} [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>"
        for n, host in enumerate(["odd", *(f"h{i}" for i in range(3000))], start=1)
    ]
    lines.insert(2, "h0:2:2 [0] NCCL INFO Initialized NET plugin Socket and assigned to comm")
    log.write_text("\n".join(lines) + "\n")
    (clash,) = wording_clashes(load([str(log)]))
    assert (clash.host, clash.other_host, clash.expected) == ("h0", "odd", "2.14")
    assert [ref.line for ref in clash.evidence] == [3, 2]


def test_ranks_that_differ_are_described_by_communicator_and_value() -> None:
    """Two communicators, one of them without an id: whole hosts, hosts in part, lines once, unknown values."""
    rows = [
        ("a", 0, "h0", "x", 0, 1), ("a", 1, "h0", "x", 0, 2), ("a", 2, "h1", "x", 0, 3), ("a", 3, "h1", "y", 0, 4),
        ("a", 3, "h1", "y", 0, 4), ("a", 4, "h2", "y", 0, None), ("a", 5, "h3", None, 0, 6),
        (None, 0, "h0", "y", 1, 7), (None, 1, None, "z", 1, 8),
    ]  # fmt: skip
    schema = {
        "comm_id": pl.String,
        "rank": pl.Int32,
        "host": pl.String,
        "fact": pl.String,
        "input_id": pl.UInt16,
        "line": pl.UInt64,
    }
    first, second = outliers(pl.DataFrame(rows, schema=schema, orient="row"), "fact")
    # Three rows each: the value of the lowest rank is the usual one.
    assert (first.comm_id, first.value, first.majority, first.majority_ranks) == ("a", "y", "x", 3)
    assert (first.ranks, first.hosts, first.whole_hosts) == ((3, 4), ("h1", "h2"), ("h2",))
    assert ([r.line for r in first.lines], [r.line for r in first.usual_lines]) == ([4], [1])
    assert (second.comm_id, second.value, second.majority, second.ranks) == (None, "z", "y", (1,))
    assert (second.hosts, second.whole_hosts) == ((), ())
    assert [(r.input_id, r.line) for r in second.lines] == [(1, 8)]


def test_lines_of_two_diagnoses_are_compared_in_each_process() -> None:
    """What comes first in all processes that print both; what a process prints well before cannot follow."""
    lines = FirstLines(
        {
            "one": {(0, "h", 1): 10, (0, "h", 2): 10, (0, "h", 3): 1},
            "two": {(0, "h", 1): 11, (0, "h", 2): 12},
            "three": {(0, "h", 1): 5, (0, "h", 2): 50},
            "alone": {(1, "h", 9): 1},
        }
    )
    assert lines.precedes("one", "two")
    assert not lines.precedes("two", "one")
    assert lines.possible("two", "one")  # two lines behind are still one event
    assert not lines.precedes("one", "three")
    assert not lines.precedes("three", "one")
    assert lines.possible("one", "three")
    assert lines.possible("three", "one")
    assert lines.possible("alone", "one")
    assert not lines.precedes("alone", "one")
    assert lines.possible("one", "unknown")
    assert not lines.precedes("one", "unknown")


def test_an_error_is_near_a_link_event_by_device_and_time(tmp_path: Path) -> None:
    """Sixty seconds behind the event and on the device, or on one that the line does not name."""
    log = tmp_path / "link.log"
    head = "2026-11-20T10:{:02d}:00.000 h{}:1{}:1{} [0] NCCL WARN "
    lines = [
        head.format(0, 0, 0, 0) + "NET/IB : mlx5_0:1 Got async event : port error",
        head.format(30, 0, 0, 0)
        + "NET/IB : Got completion from peer 10.0.0.2<4001> with status=12 opcode=0 len=0 vendor err 129 (Send) "
        "localGid fe80::b2:1 remoteGidsfe80::b2:2 hca mlx5_0",
    ]
    log.write_text("\n".join(lines) + "\n")
    run = load([str(log)])
    (event,) = flaps(run)
    assert event.key == "h0/mlx5_0"
    assert event.first_s is not None
    assert not failed_after(run, event)
    later = replace(event, first_s=event.first_s + 29.5 * 60, last_s=event.first_s + 29.5 * 60)
    assert failed_after(run, later)
    assert not failed_after(run, replace(later, device="mlx5_1"))
    assert failed_after(run, replace(later, device=None))
    assert failed_after(run, replace(event, first_s=None, last_s=None))
