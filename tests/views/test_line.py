"""What a pasted line means, and which known messages contain a part of a text."""

from __future__ import annotations

import json
from pathlib import Path

from nccl_insight.views.line import explained
from tests.cli import run_cli


def test_peer_and_device_of_a_failed_completion_stay(tmp_path: Path) -> None:
    line = (
        "node1:101:101 [0] p2p.cc:1 (f) NCCL WARN NET/IB: Got completion from peer 10.0.0.2<5> with "
        "status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129 new_in_2_40=3 "
        " localGid fe80::1 remoteGidsfe80::2 hca mlx5_3"
    )
    told = explained(line)
    assert told is not None
    (only,) = told.lines
    assert only.diagnosis == "ib-completion-retry-exceeded"
    assert only.values["peer"] == "10.0.0.2<5>"
    assert only.values["hca_name"] == "mlx5_3"
    log = tmp_path / "run.log"
    log.write_text(line + "\n")
    parsed = json.loads(run_cli("parse", str(log)).stdout.splitlines()[0])
    assert parsed["message"] == "err_ib_completion_2_29"
    assert parsed["fields"]["peer"] == "10.0.0.2<5>"
