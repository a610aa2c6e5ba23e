"""Steps that once grew with the square of hosts, settings or members give what they gave."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from nccl_insight import analyze, load
from nccl_insight.facts.user_settings import user_settings
from nccl_insight.facts.wording import wording_clashes
from nccl_insight.tables.assemble.hosts import spoiled


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
