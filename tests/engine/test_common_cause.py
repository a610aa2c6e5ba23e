"""What several hosts lose at once is one cause that they share."""

from __future__ import annotations

from pathlib import Path

import nccl_insight
from tests.kernel_lines import HOSTS, PIDS, job

DOWN = (
    "[2026-11-17 {at}] {host}:{pid}:{tid} [0] transport/net_ib.cc:180 NCCL WARN NET/IB : mlx5_{n}:1 Got non-fatal "
    "async event: port error(10)"
)
RETRY = (
    "[2026-11-17 12:00:30] gpu01:4100:5000 [0] transport/net_ib.cc:2300 NCCL WARN NET/IB: Got completion from peer "
    "10.1.0.4<58228> with status=12 opcode=0 len=0 vendor err 129 (Send) localGid fe80::1 remoteGidsfe80::2 hca mlx5_0"
)


def first(tmp_path: Path, *downs: tuple[str, str, int]) -> nccl_insight.Finding:
    lines = [
        DOWN.format(at=at, host=host, n=n, pid=PIDS[4 * HOSTS.index(host)], tid=PIDS[4 * HOSTS.index(host)] + 50)
        for host, at, n in downs
    ]
    log = tmp_path / "run.log"
    log.write_text("".join(f"{line}\n" for line in [*job(echo=False), *lines, RETRY]))
    return nccl_insight.analyze([log]).findings[0]


def test_ports_of_two_hosts_within_a_second(tmp_path: Path) -> None:
    found = first(tmp_path, *((h, f"12:00:0{n % 2}", n) for h in HOSTS for n in range(4)))
    assert (found.name, found.hosts) == ("ib-port-error", HOSTS)
    assert "8 ports of gpu01, gpu02 went down within 1.0 s: the switch that these hosts share" in found.title


def test_one_rail(tmp_path: Path) -> None:
    found = first(tmp_path, *((h, "12:00:01", 0) for h in HOSTS))
    assert "the switch of the rail of mlx5_0" in found.title


def test_ports_of_one_host_or_minutes_apart_are_not_one_event(tmp_path: Path) -> None:
    assert "switch that" not in first(tmp_path, *(("gpu02", "12:00:01", n) for n in range(4))).title
    assert "rail" not in first(tmp_path, ("gpu01", "11:50:00", 0), ("gpu02", "12:00:01", 0)).title
