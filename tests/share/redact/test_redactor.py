# ruff: noqa: E501 - log lines are long
"""Redaction: nothing that identifies survives, what diagnoses need does, and the findings stay the same."""

from __future__ import annotations

import ipaddress
import json
import re
from pathlib import Path

import pytest

from nccl_insight.share.redact import collect
from nccl_insight.share.redact.names import Names
from nccl_insight.share.redact.redactor import Redactor
from nccl_insight.tables.run import build_run
from tests.share.job_with_names import IPV4, LOG


def _redactor(log: str = LOG) -> Redactor:
    return collect(build_run({}), [log])


def test_nothing_that_identifies_survives() -> None:
    out = _redactor().text(LOG)
    for secret in (
        "ares", "10.31", "192.168.9.45", "mwinter", "secret", "88123", "b8:59:9f", "b859", "example.edu", "/scratch", "/home",
    ):  # fmt: skip
        assert secret not in out, secret


def test_what_diagnoses_need_is_kept() -> None:
    out = _redactor().text(LOG)
    lines = out.splitlines()
    assert lines[0] == "node1:4711:4720 [0] NCCL INFO Bootstrap : Using eth0:10.200.1.1<0>"
    assert lines[1] == "node2:4711:4720 [0] NCCL INFO Bootstrap : Using eth0:10.200.1.2<0>", (
        "same subnet stays same subnet"
    )
    assert "[0]mlx5_0:1/IB [1]mlx5_1:1/RoCE" in lines[2]
    assert lines[3].endswith("remote peer node2-ib0<41109>")
    assert "/topo.xml" in lines[4]
    assert lines[5].endswith("/libnccl-net.so")
    assert "::ffff:10.200.1.1" in lines[6], "an embedded address follows its own pseudonym"
    assert "fe80::" in lines[6]
    assert "bus 0000:1b:00.0 at 12:34:56" in lines[7]
    assert "https://docs.nvidia.com/nccl" in lines[10]
    assert lines[11].startswith("loopback 127.0.0.1 any 0.0.0.0 docker 172.17.")
    assert lines[11].endswith("segment /dev/shm/nccl-Ab12 driver 535.104.05 cublas 12.4.5")


def test_a_host_that_only_others_mention_is_found_by_its_siblings() -> None:
    assert "ares-gpu031" not in _redactor().text("waiting for ares-gpu031 now")


def test_the_same_name_gets_the_same_pseudonym_everywhere() -> None:
    redactor = _redactor()
    assert redactor.text("ares-gpu018") == redactor.names.host("ares-gpu018") == "node2"
    assert redactor.text("x@ares-gpu018.hpc.example.edu").endswith("@node2")
    assert redactor.text(LOG) == _redactor().text(LOG), "and in every run"


def test_names_that_are_everyday_words_only_change_where_a_name_must_stand() -> None:
    log = "gpu:1:2 [0] NCCL INFO cudaDev 0 on gpu 3 via P2P\n"
    assert _redactor(log).text(log) == "node1:1:2 [0] NCCL INFO cudaDev 0 on gpu 3 via P2P\n"


def test_pseudonyms_do_not_collide_with_real_names() -> None:
    log = "node1:1:2 [0] NCCL INFO x\nzeus:1:2 [0] NCCL INFO 10.200.1.1 10.9.9.9\n"
    out = _redactor(log).text(log)
    assert not re.search(r"node1\b|zeus|10\.200\.1\.1\b|10\.9\.9\.9", out)
    assert len(set(re.findall(r"node\d+", out))) == 2
    assert len(set(IPV4.findall(out))) == 2


@pytest.mark.parametrize(
    "innocent",
    [
        "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read",
        "1[1] -> 9[1] [send] via NET/IB/8(1)/GDRDMA/Shared",
        "Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1",
        "comm 0x55d01234 commId 0x6b1d3a90c4f2e871 busId 1b000",
        "c10d::ProcessGroupNCCL::Watchdog std::vector",
        "NCCL version 2.21.5+cuda12.4 libmlx5.so.1.24.44.0",
        "/sys/class/net/eth0/device/../../0000:1b:00.0",
        "threadThresholds 8/8/64 | 128/8/64 | 512 | 512",
        "init.cc:1234 transport/net_ib.cc:579 -> 2",
    ],
)
def test_ordinary_text_stays(innocent: str) -> None:
    redactor = _redactor()
    assert redactor.text(innocent) == innocent


def test_many_addresses_get_distinct_pseudonyms_that_keep_subnets() -> None:
    redactor = Redactor()
    originals = [f"10.{a}.{b}.{c}" for a in (1, 2) for b in range(20) for c in range(1, 60)]
    mapped = [redactor.names.book.ipv4(o) for o in originals]
    assert len(set(mapped)) == len(originals)
    for address in mapped:
        assert ipaddress.ip_address(address).is_private
    subnet = {o.rsplit(".", 1)[0]: m.rsplit(".", 1)[0] for o, m in zip(originals, mapped, strict=True)}
    assert len(set(subnet.values())) == len(subnet) == 40


def test_map_translates_back() -> None:
    redactor = _redactor()
    out = redactor.text(LOG)
    mapping = redactor.names.mapping()
    back = {new: old for old, new in mapping["hosts"].items() if "." not in old}
    assert back["node1"] == "ares-gpu017"
    assert mapping["users"] == {"mwinter": "user1"}
    assert mapping["jobs"] == {"88123": "job2", "secret-llama": "job1"}
    assert all(new in out for new in mapping["ipv4"].values())


def _cli(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    from nccl_insight.cli import main

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["nccl-insight", *arguments])
        try:
            code = main()
        except SystemExit as stop:
            code = stop.code
    out, err = capsys.readouterr()
    return int(str(code or 0)), out, err


def test_the_number_of_a_task_stays_in_the_name_of_an_input() -> None:
    """Ranks go by it where lines name none; the folder's word is the same for all of them."""
    names = Names()
    given = [
        "run-rank22/slurm-99012.out",
        "run-rank22/slurm-99012_22.out",
        "run-rank22/log-rank_3.out",
        "x/zqa_7.log.gz",
    ]
    made = ["input1-rank22.out", "input2-rank22-22.out", "input3-rank3.out", "input4-7.log.gz"]
    assert [names.input_name(path) for path in given] == made


def test_redact_command_writes_files_a_private_map_and_says_its_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, binary, out = tmp_path / "ares-gpu017.log", tmp_path / "x.sqlite", tmp_path / "out"
    log.write_text(LOG)
    binary.write_bytes(b"SQLite format 3\0" + bytes(200))
    names = tmp_path / "names.json"
    code, said, _ = _cli(capsys, "redact", str(log), str(binary), "-o", str(out), "--map", str(names))
    assert code == 0
    assert [p.name for p in out.iterdir()] == ["input1-node1.log"]  # the host that its name said
    assert "ares" not in (out / "input1-node1.log").read_text()
    assert names.stat().st_mode & 0o077 == 0
    assert json.loads(names.read_text())["hosts"]["ares-gpu017"] == "node1"
    assert "Left out:" in said
    assert "Not promised:" in said


def test_redact_command_keeps_the_map_out_of_the_shared_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text(LOG)
    code, _, err = _cli(capsys, "redact", str(log), "-o", str(tmp_path / "o"), "--map", str(tmp_path / "o" / "m.json"))
    assert code == 2
    assert "name a place outside" in err
    assert not (tmp_path / "o").exists()


def test_analyze_redact_replaces_names_in_every_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "ares-gpu017.log"
    log.write_text(LOG)
    files = {kind: tmp_path / f"r.{kind}" for kind in ("html", "json", "md", "junit", "text")}
    outputs = [a for kind, path in files.items() for a in ("-o", f"{kind}={path}")]
    code, out, _ = _cli(capsys, "analyze", str(log), "--redact", "--js", "cdn", *outputs)
    assert code in (0, 1)
    for text_ in (out, *(path.read_text() for path in files.values())):
        for secret in ("ares-gpu", "10.31.7", "mwinter", "secret-llama"):
            assert secret not in text_
