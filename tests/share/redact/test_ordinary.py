"""Strict redaction: of foreign text stay ordinary words, words of the grammar and figures; findings stay the same."""

from __future__ import annotations

import random
import re
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nccl_insight.base.errors import UsageError
from nccl_insight.base.model import Finding
from nccl_insight.cli import build_app
from nccl_insight.share.api import analyze, load
from nccl_insight.share.redact import collect, redact_analysis
from nccl_insight.share.redact.names import Names
from nccl_insight.share.redact.ordinary import Ordinary
from nccl_insight.tables.run import build_run
from tests.runs import RUNS
from tests.share.redact.classes_of_names import CLASSES

# Forms that no pattern knows: what is secret in each comes first.
FORMS = [
    ("hunterzq9", "PGPASSWORD=hunterzq9 psql -h db"),
    ("kx77-zzq1", "x-api-key: kx77-zzq1"),
    ("zqmüller", "cannot open /home/zqmüller/data"),
    ("wózniakzq", "loading /data/wózniakzq/ckpt"),
    ("0c42a1b2c3d4", "interface enx0c42a1b2c3d4 is down"),
    ("zqorion7", "the run of Zqorion7 ended, zqorion7 said"),
    ("zqlab", "#PBS -N zqlab-train"),
    ("zqgroup", "#BSUB -P zqgroup"),
    ("zqkey123", r"{\"api_token_x\": \"zqkey123\"}"),
    ("zqdept", "-DOUT=/zqdept/x -I/zqdept/include"),
    ("9qz8w7e6r5t4", "device 9qz8w7e6r5t4 was replaced"),
    ("zqweird", "weird://zqweird/where"),
    ("hh48", "lost contact with hh48"),
    ("kn01", "kn01 is down"),
    ("fb61", "lost contact with fb61"),
    ("2848343753629631621", "node guid as number 2848343753629631621"),
    ("delta-research-train", "The specified bucket does not exist: delta-research-train"),
    ("7495569", "call +49 245 7495569"),
    ("226.143.45.10", "226.143.45.10.in-addr.arpa"),
    ("falcon-33", '{"by_host": {"rome-falcon-33": 8}}'),
    ("blue-search-25", "rank 3 (blue-search-25) stopped"),
    ("gpu-node-17", "[gpu-node-17] starting"),
    ("R78-U82", "rack R78-U82 pdu"),
    ("张伟", "用户 张伟 的任务"),
]
# Those that say what they are.
_BY_FORM = ("hunterzq9", "kx77-zzq1", "zqmüller", "wózniakzq", "0c42a1b2c3d4", "zqkey123", "zqdept")


def _only(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


def _strict(text: str) -> str:
    return collect(build_run({}, []), [text], strict=True).text(text)


@pytest.mark.parametrize(("secret", "line"), FORMS)
def test_words_that_nobody_has_to_know_go(secret: str, line: str) -> None:
    assert secret in line
    found = _strict(f"gpu01:1:2 [0] NCCL INFO init\n{line}\n")
    assert secret not in found
    assert found.count("\n") == 2


@pytest.mark.parametrize("kind", CLASSES)
def test_promised_classes_go(kind: str) -> None:
    draw = random.Random(kind)
    line, secret = CLASSES[kind](draw)
    assert secret not in _strict(f"{line}\n")


@pytest.mark.parametrize(
    "line",
    [
        "waiting for `clique for rank 0; run_id=-1` for 20 seconds",
        "#nThread 1 nGpus 1 minBytes 33554432 step: 1048576(bytes) warmup iters: 5",
        "#Rank 0 Group 0 Pid 12225 on node device 0 [0000:16:00] NVIDIA GeForce RTX 5090",
        "gpu: NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.",
        "RuntimeError: CUDA out of memory. Tried to allocate 2.50 GiB",
        "mlx5_0:1/RoCE rdmap0s6 enp65s0np0 bnxt_re3 hsn0 eth2 INET6 isAllCudaP2p fp8 bfloat16 sm_90 48xlarge",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=12.batch cgroup.",
        "wandb: WARNING Tried to log to step 5789 that is less than the current step 8383.",
        "GPU 3 is an H100, l40s or A100 at node-3, local-rank-12, step-100, mp-rank-00, model-00001-of-00002 on P2P",
        "E1218 10:00:00 x.cpp:9 c10d v2 x16 c1000 316973E 3[f000]",
        "out-of-place 18446744073709551615 9223372036854775807 at 1732000000000000000, --log-out-file",
        "step 120 loss 2.31 grad norm 0.4 tokens/s 81920 straggler on rank3",
    ],
)
def test_what_diagnoses_need_stays(line: str) -> None:
    assert _strict(line) == line


def test_containers_keep_apart() -> None:
    one, two = _strict("0c42a1b2c3d4 then\n0c42a1b2c3d5 then\n").splitlines()
    assert one != two


def test_lines_written_into_one_another_name_one_host() -> None:
    text = (
        "qhw:7:7 [1] NCCL INFO cudaDriverVersion 12020\n"
        "qhw:7:9 [1] NCCL INFO nranks 2 cudaDev 0qhw:8:9 [1] NCCL INFO Setting affinity for GPU 1 toqhw:8:80qhw:7:9 [1]"
        " NCCL INFO Trees [0] -1/-1/-1->1->0\n"
    )
    assert _strict(text) == text.replace("qhw", "node1")


def test_a_word_has_one_name_everywhere() -> None:
    found = _strict("zqone met zqtwo\nzqtwo met zqone\n").split()
    assert found[0] == found[5] != found[2] == found[3]


def _said(findings: tuple[Finding, ...]) -> list[tuple[str, str, tuple[int, ...], int]]:
    return [(f.name, f.severity.name, tuple(f.ranks), len(f.hosts)) for f in findings]


@pytest.mark.part(2)
@pytest.mark.parametrize("log", sorted(RUNS.rglob("*.log")), ids=lambda p: p.parent.name)
def test_findings_stay_the_same(log: Path, tmp_path: Path) -> None:
    text = log.read_text(errors="surrogateescape")
    run = load([str(log)])
    new = tmp_path / "new.log"
    new.write_text(collect(run, [text], strict=True).text(text), errors="surrogateescape")
    assert _said(analyze(load([str(new)])).findings) == _said(analyze(run).findings)


def test_a_bundle_is_strict_and_the_review_lists_what_went_and_stayed(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("gpu01:1:2 [0] NCCL INFO NCCL version 2.27.3+cuda12.9\nmaster zqzebra said hello\n")
    zipped, review = tmp_path / "t.zip", tmp_path / "review.txt"
    arguments = ["analyze", str(log), "--redact", "--bundle", str(zipped), "--redact-report", str(review), "-qq"]
    assert CliRunner().invoke(build_app(), arguments).exit_code in (0, 1, 3)
    with zipfile.ZipFile(zipped) as archive:
        for name in archive.namelist():
            assert b"zqzebra" not in archive.read(name), name
    assert "words: zqzebra -> word1" in review.read_text()
    assert "hello" in review.read_text()
    assert review.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("option", [["--redact", "strict"], ["--redact=strict"], ["--redact-level", "strict"]])
def test_the_level_may_stand_behind_the_option(option: list[str], tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("gpu01:1:2 [0] NCCL INFO NCCL version 2.27.3+cuda12.9\nzqzebra: Segmentation fault\n")
    names = CliRunner().invoke(build_app(), ["analyze", str(log), "--redact", "--format", "json"]).output
    strict = CliRunner().invoke(build_app(), ["analyze", *option, str(log), "--format", "json"]).output
    assert "gpu01" not in strict
    assert "zqzebra" in names
    assert "zqzebra" not in strict


def test_files_are_looked_over_before_they_are_sent(tmp_path: Path) -> None:
    log, out = tmp_path / "run.log", tmp_path / "out"
    log.write_text("host7:1:2 [0] NCCL INFO NCCL version 2.27.3+cuda12.9\nzqzebra said hello\n")
    app = build_app()
    before = CliRunner().invoke(app, ["redact", "--check", str(log)])
    assert before.exit_code == 1
    assert "words: zqzebra" in before.output
    assert CliRunner().invoke(app, ["redact", "--strict", str(log), "-o", str(out)]).exit_code == 0
    after = CliRunner().invoke(app, ["redact", "--check", str(out)])
    assert after.exit_code == 0, after.output
    assert "host7" not in (out / "input1.log").read_text()


def test_where_files_go_must_be_said(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("host7:1:2 [0] NCCL INFO x\n")
    assert isinstance(CliRunner().invoke(build_app(), ["redact", str(log)]).exception, UsageError)


# Forms that names mode knows, too: NCCL repeats what was set, other schedulers, a short identifier of a GPU.
ALSO = [
    ("zqras7", "gpu01:1:2 [0] NCCL INFO NCCL_RAS_ADDR set by environment to zqras7:28028"),
    ("zqid8", "gpu01:1:2 [0] NCCL INFO NCCL_HOSTID set by environment to zqid8"),
    ("zqtoken99", "gpu01:1:2 [0] NCCL INFO NCCL_API_TOKEN set by environment to zqtoken99"),
    ("zqlab-train", "#PBS -N zqlab-train"),
    ("zqgroup", "#BSUB -P zqgroup"),
    ("8f6d1c2e", "GPU-8f6d1c2e fell off the bus"),
    ("d54:9781", "(Send) localGid fe80::77 remoteGidsfe80::d54:9781 hca mlx5_3"),
    ("zqglued", "mysql -uroot -pzqglued db"),
    ("zqpiped7", "echo zqpiped7 | docker login -u u --password-stdin"),
    ("zqescaped", r"path \/home\/zqescaped\/x"),
    ("zqcoded", "file%2Fhome%2Fzqcoded%2Fx"),
    ("zqdrive", r"D:\zqdrive\z"),
    ("zq.user", "zq.user%40corp.example"),
    ("zqcont", "failed container zqcont in pod trainer-0_ml(00000000-0000-0000-0000-000000000005)"),
    ("zqspace", "failed container c1 in pod trainer-0_zqspace(00000000-0000-0000-0000-000000000005)"),
]


@pytest.mark.parametrize(("secret", "line"), [*(f for f in FORMS if f[0] in _BY_FORM), *ALSO])
def test_forms_of_promised_classes_go_without_strict(secret: str, line: str) -> None:
    text = f"gpu01:1:2 [0] NCCL INFO init\n{line}\n"
    assert secret not in collect(build_run({}, []), [text]).text(text)


def test_a_key_within_json_goes_whole() -> None:
    text = '{"private_key": "-----BEGIN PRIVATE KEY-----\\nMIIEzq9876abcdef\\n-----END PRIVATE KEY-----\\n"}\n'
    assert "MIIEzq9876abcdef" not in collect(build_run({}, []), [text]).text(text)


def test_a_release_of_a_kernel_is_no_job() -> None:
    text = "uname_result(sysname='Linux', release='5.15.0-105-generic')\n"
    assert collect(build_run({}, []), [text]).text(text) == text


def test_utf_16_is_redacted(tmp_path: Path) -> None:
    log, out = tmp_path / "run.log", tmp_path / "out"
    log.write_bytes("zqhost7:1:2 [0] NCCL INFO NCCL version 2.27.3+cuda12.9\n".encode("utf-16"))
    assert CliRunner().invoke(build_app(), ["redact", str(log), "-o", str(out)]).exit_code == 0
    assert re.fullmatch(r"node[12]:1:2 \[0\] NCCL INFO NCCL version 2\.27\.3\+cuda12\.9\n", _only(out).read_text())


@pytest.mark.parametrize(("strict", "secrets"), [(False, ["zqh"]), (True, ["zqh", "zquser", "zqpart"])])
def test_no_name_stays_in_the_template_of_an_unknown_line(strict: bool, secrets: list[str], tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    text = "zqh07.zq.org:91:92 [0] NCCL INFO flurble of zquser42 on ZQH07 took 12 ms for zqpart9x7\n"
    log.write_text(text)
    run = load([log])
    ((template, _),) = analyze(run).coverage.unknown_templates
    assert "ZQH<N>" in template
    redactor = collect(run, [text], strict=strict)
    ((template, _),) = redact_analysis(analyze(run), redactor).coverage.unknown_templates
    assert [secret for secret in secrets if secret in template.lower()] == []


def test_a_word_that_nobody_has_to_know_goes_and_comes_back_the_same() -> None:
    names = Names()
    made = Ordinary(names)
    said = made.replaced("the rank failed for zorbulax with 12 errors")
    assert said == "the rank failed for word1 with 12 errors"
    assert made.replaced("zorbulax again") == "word1 again"
    assert "failed" in made.kept
    assert "zorbulax" not in made.kept
    assert made.learned("of zorbulax and quuxarn") == "of word1 and quuxarn"


def test_numbers_of_everyday_length_and_pointers_stay() -> None:
    made = Ordinary(Names())
    assert made.replaced("rank 12 at 0x7f0123456789") == "rank 12 at 0x7f0123456789"
