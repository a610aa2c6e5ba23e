"""Release of NCCL from the wording of its messages, where a host prints no version."""

from __future__ import annotations

from pathlib import Path

from nccl_insight import load
from nccl_insight.facts.wording import wording_clashes


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
