# ruff: noqa: E501 - log lines are long
"""Redaction: nothing that identifies survives, what diagnoses need does, and the findings stay the same."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import ipaddress
import json
import re
import zipfile
from pathlib import Path

import polars as pl
import pytest

from nccl_insight.inputs.find import find_inputs
from nccl_insight.report import json_, junit, markdown, text
from nccl_insight.share import api, bundle
from nccl_insight.share.redact import collect, redact_analysis, redact_run
from nccl_insight.share.redact.files import blocks, is_text
from nccl_insight.share.redact.redactor import Redactor
from nccl_insight.tables.run import build_run
from nccl_insight.views.page import page
from tests import pages, runs
from tests import render_samples as samples

SHARED = runs.SHARED
IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)")
LOG = """\
ares-gpu017:4711:4720 [0] NCCL INFO Bootstrap : Using eth0:10.31.7.44<0>
ares-gpu018:4711:4720 [0] NCCL INFO Bootstrap : Using eth0:10.31.7.45<0>
ares-gpu018:4711:4720 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE ; OOB ib0:192.168.9.45<0>
ares-gpu017:4711:4733 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer ares-gpu018-ib0.hpc.example.edu<41109>
ares-gpu017:4711:4733 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /home/mwinter/configs/topo.xml
ares-gpu017:4711:4733 [0] NCCL INFO Loaded net plugin /home/mwinter/lib/libnccl-net.so
ares-gpu017:4711:4733 [0] NCCL INFO NET/IB: GID ::ffff:10.31.7.44 and fe80::b859:9f03:1a:2b3c guid 0xb8599f03001a2b3c
ares-gpu017:4711:4733 [0] NCCL WARN mac b8:59:9f:1a:2b:3c bus 0000:1b:00.0 at 12:34:56, also ares-gpu031
File "/scratch/proj/mwinter/train_secret.py", line 12, in main
export SLURM_JOB_NAME=secret-llama SLURM_JOB_ID=88123 USER=mwinter
ssh mwinter@ares-gpu017 tcp://ares-gpu017:29500 https://docs.nvidia.com/nccl https://wiki.example.edu/x
loopback 127.0.0.1 any 0.0.0.0 docker 172.17.0.3 segment /dev/shm/nccl-Ab12 driver 535.104.05 cublas 12.4.5
"""


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


def test_tables_lines_and_analysis_are_redacted_and_the_findings_stay() -> None:
    analysis, run = samples.failing()
    redactor = collect(run, [])
    hidden, safe = redact_analysis(analysis, redactor), redact_run(run, redactor)
    assert hidden.redacted
    assert [(f.code, f.name, f.severity, f.ranks, f.role, f.fingerprint) for f in hidden.findings] == [
        (f.code, f.name, f.severity, f.ranks, f.role, f.fingerprint) for f in analysis.findings
    ]
    for frame in safe.tables.values():
        for series in frame.get_columns():
            if series.dtype == pl.String:
                assert not series.str.contains("gpu-node|job-4711").any()
    assert safe.table("ranks")["host"].n_unique() == run.table("ranks")["host"].n_unique()
    outputs = {
        "text": text.render(hidden, verbosity=2),
        "json": json_.render(hidden),
        "md": markdown.render(hidden),
        "junit": junit.render(hidden),
        "html": pages.render(hidden, safe, js="none"),
        "cdn": pages.render(hidden, safe, js="cdn"),
    }
    for name, out in outputs.items():
        assert "gpu-node" not in out, name
        assert "10.1.7.23" not in out, name
        assert "job-4711" not in out, name
    assert "node5" in outputs["html"]
    assert "Hosts, addresses, users and paths are replaced" in outputs["html"]
    assert "Free text of other programs can hold secrets" in outputs["html"]


def test_bundle_holds_everything_redacted_with_checksums(tmp_path: Path) -> None:
    log = tmp_path / "ares-gpu017.log"
    log.write_text(LOG)
    run = api.load([str(log)])
    redactor = collect(run, [LOG])
    hidden, safe = redact_analysis(api.analyze(run), redactor), redact_run(run, redactor)
    target = tmp_path / "ticket.zip"
    command = f"nccl-insight analyze --token=abc {log}"
    bundle.write(target, hidden, page(safe, hidden), safe.inputs, redactor, command=command)
    first = target.read_bytes()
    with zipfile.ZipFile(target) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    assert set(members) == {
        "README.txt", "SHA256SUMS", "analysis.json", "inputs/input1.log", "report.html", "ticket.md",
    }  # fmt: skip
    for line in members["SHA256SUMS"].decode().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256(members[name]).hexdigest() == digest
    for name, data in members.items():
        for secret in (b"ares-gpu", b"10.31.7", b"mwinter", b"secret-llama", b"token=abc", str(tmp_path).encode()):
            assert secret not in data, (name, secret)
    assert json.loads(members["analysis.json"])["redacted"] is True
    bundle.write(target, hidden, page(safe, hidden), safe.inputs, redactor, command=command)
    assert target.read_bytes() == first


def test_a_large_log_is_shortened_in_the_bundle_and_says_so(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(
        b"ares-gpu017:1:2 [0] NCCL INFO first\n"
        + b"0123456789 filler\n" * 1_000_000
        + b"ares-gpu017:1:2 [0] NCCL INFO last\n"
    )
    analysis, _ = samples.healthy()
    target = tmp_path / "t.zip"
    bundle.write(
        target,
        analysis,
        page(build_run({}), analysis),
        find_inputs([str(log)]),
        collect(build_run({}), ["ares-gpu017:1:2 [0] NCCL INFO"]),
    )
    with zipfile.ZipFile(target) as archive:
        data = archive.read("inputs/input1.log")
    assert len(data) < 9 << 20
    assert data.startswith(b"node1:1:2 [0] NCCL INFO first\n")
    assert data.endswith(b"node1:1:2 [0] NCCL INFO last\n")
    assert b"bytes left out of the bundle" in data


def test_binary_inputs_are_not_text_and_bad_bytes_survive(tmp_path: Path) -> None:
    database, log = tmp_path / "a.sqlite", tmp_path / "b.log"
    database.write_bytes(b"SQLite format 3\0" + bytes(100))
    log.write_bytes(b"\xff\xfe line\nno newline at the end \x80")
    files = find_inputs([str(database), str(log)])
    assert [is_text(f) for f in files] == [False, True]
    assert "".join(blocks(files[1])).encode("utf-8", "surrogateescape") == log.read_bytes()


def test_map_translates_back() -> None:
    redactor = _redactor()
    out = redactor.text(LOG)
    mapping = redactor.names.mapping()
    back = {new: old for old, new in mapping["hosts"].items() if "." not in old}
    assert back["node1"] == "ares-gpu017"
    assert mapping["users"] == {"mwinter": "user1"}
    assert mapping["jobs"] == {"88123": "job2", "secret-llama": "job1"}
    assert all(new in out for new in mapping["ipv4"].values())


def _cases() -> list[Path]:
    corpus = sorted((SHARED / "corpus").glob("*/run.log"))
    simulated = SHARED / "simulated"
    ranks = sorted(p for p in simulated.glob("*.ranks/*") if p.is_file())
    return [*corpus, *sorted(simulated.glob("*.log")), *sorted(simulated.glob("*.log.gz")), *ranks]


def _read(path: Path) -> str:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return data.decode("utf-8", "surrogateescape")


def _hosts(log: str) -> set[str]:
    """Host names of a log by a reading of its own: heads of lines, 'Pid N on HOST device'."""
    found = set(re.findall(r"^([A-Za-z][\w.-]*):\d+:\d+ \[\d+\] ", log, re.M))
    return (found | set(re.findall(r"Pid +\d+ on (\S+) device", log))) - {"localhost"}


def test_no_host_or_address_of_the_collections_survives() -> None:
    cases = _cases()
    if not cases:
        pytest.skip("the collections of logs : set NCCL_INSIGHT_REFERENCE_DATA")
    for case in cases:
        log = _read(case)
        out = collect(build_run({}), [log]).text(log)
        words = set(re.findall(r"[A-Za-z0-9][\w.-]*", out))
        assert not {h for h in _hosts(log) if h in words and not re.fullmatch(r"node[1-9]\d*", h)}, case
        left = set(IPV4.findall(log)) & set(IPV4.findall(out))
        assert {a for a in left if _identifies(a)} == set(), case
        assert not re.search(r"/(?:home|users|Users|scratch)/", out), case


def _identifies(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return not (parsed.is_loopback or parsed.is_unspecified or parsed.is_multicast or address.startswith("255."))


def test_findings_of_redacted_logs_are_the_same(tmp_path: Path) -> None:
    cases = _cases()[::9]
    if not cases:
        pytest.skip("the collections of logs : set NCCL_INSIGHT_REFERENCE_DATA")
    for case in cases:
        run = api.load([str(case)])
        log = _read(case)
        copy = tmp_path / "run.log"
        copy.write_text(collect(run, [log]).text(log), encoding="utf-8", errors="surrogateescape")
        before, after = api.analyze(run), api.analyze([str(copy)])
        assert [(f.name, f.severity, f.ranks) for f in after.findings] == [
            (f.name, f.severity, f.ranks) for f in before.findings
        ], case
        assert dataclasses.astuple(after.coverage)[:6] == dataclasses.astuple(before.coverage)[:6], case


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


def test_redact_command_writes_files_a_private_map_and_says_its_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, binary, out = tmp_path / "ares-gpu017.log", tmp_path / "x.sqlite", tmp_path / "out"
    log.write_text(LOG)
    binary.write_bytes(b"SQLite format 3\0" + bytes(200))
    names = tmp_path / "names.json"
    code, said, _ = _cli(capsys, "redact", str(log), str(binary), "-o", str(out), "--map", str(names))
    assert code == 0
    assert [p.name for p in out.iterdir()] == ["input1.log"]
    assert "ares" not in (out / "input1.log").read_text()
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


def test_a_report_never_says_the_names_of_its_files(tmp_path: Path) -> None:
    """Not in sentences either: how the output ends names the file that ends."""
    for number in (1, 2):
        log = tmp_path / f"acme-{number}" / f"acme-run-{number}.log"
        log.parent.mkdir()
        log.write_text(
            f"gpu01:{number}:{number} [0] NCCL INFO NCCL version 2.27.7+cuda12.8\ndriver: time limit reached, leaving\n"
        )
    run = api.load([str(tmp_path)])
    analysis = api.analyze(run)
    assert "acme-run-2.log" in analysis.progress.end  # type: ignore[union-attr]
    hidden = redact_analysis(analysis, collect(run, []))
    assert "input2.log:2" in hidden.progress.end  # type: ignore[union-attr]
    assert "acme" not in json.dumps(json_.to_dict(hidden))
