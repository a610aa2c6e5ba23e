"""Steps that once grew with the square of hosts, settings or members give what they gave."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nccl_insight import load
from nccl_insight.facts.fabric.links import failed_after, flaps


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
