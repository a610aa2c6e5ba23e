"""Release of NCCL from the wording of its messages, where a host prints no version."""

from __future__ import annotations

from pathlib import Path

from nccl_insight import load
from nccl_insight.facts.said.wording import source_clashes, wording_clashes
from tests.by_hand import run


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


def test_one_host_or_hosts_that_agree_do_not_clash() -> None:
    """``Bootstrap : Using`` is printed by 2.8 to 2.30."""
    said = [{"host": host, "message": "bootstrap_using", "input_id": 0, "line": 5} for host in "ab"]
    for versions, odd in (
        ({"a": "2.18.1"}, []),
        ({"a": "2.18.1", "b": "2.18.3"}, []),
        ({"a": "2.18.1", "b": "2.21.5"}, ["b"]),
        ({"a": "2.18.1", "b": "2.14.3"}, ["b"]),
    ):
        processes = [{"host": host, "nccl_version": versions.get(host)} for host in "ab"]
        assert [clash.host for clash in wording_clashes(run(processes=processes, interfaces=said))] == odd
    rccl = [{"host": host, "nccl_version": f"2.{n}.1", "library": "rccl"} for n, host in enumerate("ab", 18)]
    assert wording_clashes(run(processes=rccl, interfaces=said)) == ()


def test_a_failure_that_is_printed_from_another_file_is_of_another_release() -> None:
    line = {"message": "err_connect_retrying", "input_id": 0}
    told = [
        {**line, "host": "a", "source": "misc/socket.cc:10", "line": 1},
        {**line, "host": "b", "source": "misc/socket.cc:99", "line": 2},
        {**line, "host": "c", "source": "socket.cc:10", "line": 3},
        {**line, "host": "d", "source": "os/linux.cc:10", "line": 4},
    ]
    assert [(c.host, c.other_host, c.evidence[0].line) for c in source_clashes(run(errors=told))] == [("d", "a", 4)]
    assert source_clashes(run()) == ()
