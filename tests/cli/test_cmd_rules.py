"""The commands rules, explain and config show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nccl_insight.base.pages import HEADINGS, read_page
from nccl_insight.cli import main
from nccl_insight.cli.cmd_rules import catalog, explanation
from nccl_insight.rules import discover, rule_of
from tests.cli import run_cli
from tests.runs import TINY_SHM


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["nccl-insight", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def test_rules_lists_every_diagnosis(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(monkeypatch, capsys, "rules")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [r.code for r in discover()]


def test_rules_as_json_and_markdown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(monkeypatch, capsys, "rules", "NI501", "shm-*", "--format", "json")
    rows = json.loads(out)
    assert [r["name"] for r in rows] == ["shm-too-small", "shm-permission", "shm-attach-missing", "peer-died"]
    assert rows[0]["severity"] == "error"
    _, out, _ = run(monkeypatch, capsys, "rules", "NI501", "--format", "md")
    assert out.splitlines()[2].startswith("| NI501 | peer-died | S |")
    code, _, err = run(monkeypatch, capsys, "rules", "--format", "xml")
    assert code == 2
    assert "--format" in err


def test_explain_by_code_and_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, by_code, _ = run(monkeypatch, capsys, "explain", "NI401")
    assert code == 0
    assert by_code.startswith("NI401 shm-too-small\n")
    for heading in HEADINGS:
        assert heading in by_code
    assert run(monkeypatch, capsys, "explain", "shm-too-small")[1] == by_code


def test_explain_of_an_unknown_name_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(monkeypatch, capsys, "explain", "shm-to-small")
    assert (code, out) == (2, "")
    assert "did you mean shm-too-small?" in err
    assert len(err.strip().splitlines()) == 1


def test_config_show_names_the_origin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "nccl-insight.toml"
    path.write_text("[analyze]\nfail-on = 'warning'\n[[ignore]]\ncode = 'NI217'\nreason = 'no RDMA here'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NCCL_INSIGHT_MIN_CONFIDENCE", "medium")
    code, out, _ = run(monkeypatch, capsys, "config", "show")
    assert code == 0
    rows = {line.split("  ", 1)[0]: line for line in out.splitlines()}
    assert rows["fail-on"].endswith(f"warning   [{path}]")
    assert rows["min-confidence"].endswith("medium   [environment NCCL_INSIGHT_MIN_CONFIDENCE]")
    assert rows["min-coverage"].endswith("0   [default]")
    assert "no RDMA here" in rows["ignore ib-no-device"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "gpu01:1:2 [0] misc/ibvwrap.cc:268 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out",
            ["ib-qp-timeout (NI223)", "role        root", "harmless    no", "NCCL 2.3", "what to do"],
        ),
        (
            "gpu01:1:2 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so",
            ["nothing is wrong by itself", "explain NI116"],
        ),
        ("Cuda failure 802 'system not yet initialized'", ["fabric-manager-issue"]),
        ("Using network Socket", ["over TCP sockets", "check"]),
        (
            "NVRM: Xid (PCI:0000:4b:00): 79, pid=1, GPU has fallen off the bus.",
            ["Xid 79: GPU has fallen off", "power it off"],
        ),
        ("NVRM: Xid (PCI:0000:4b:00): 31, pid=1, MMU Fault", ["Xid 31: GPU memory page fault", "compute-sanitizer"]),
        ("NVRM: Xid (PCI:0000:4b:00): 145, RLW", ["Xid 145: NVLink RLW", "nvidia-smi nvlink -e"]),
        ("gpu01:1:2 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>", ["nothing is wrong"]),
        ("gpu01:1:2 [0] x.cc:1 NCCL WARN Gone: no space left on device", ["shm-too-small", "a guess by its words"]),
        ("does not loop back to start", ["graph-inconsistent (NI321)"]),
        ("ibv_poll_cq", ["ib-verbs-failed"]),
    ],
)
def test_explain_of_a_line_or_a_part_of_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, says: list[str]
) -> None:
    code, out, _ = run(monkeypatch, capsys, "explain", text)
    assert code == 0
    for words in says:
        assert words in out


@pytest.mark.parametrize("logic", [False, True])
def test_a_new_diagnosis_starts_with_files_to_fill_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], logic: bool
) -> None:
    (tmp_path / "nccl_insight" / "rules").mkdir(parents=True)
    new = ["rules", "new", "cable-swapped", "--family", "network", "--into", str(tmp_path)]
    new += ["--logic"] if logic else []
    code, out, _ = run(monkeypatch, capsys, *new)
    assert code == 0
    assert "fill in what stands between < and >" in out
    known = {rule.code for rule in discover()}
    (found,) = (tmp_path / "nccl_insight/rules/network").glob("*.md")
    number = found.name[2:5]
    assert number.startswith("2")
    assert f"NI{number}" not in known
    page = read_page(found)
    assert rule_of(page, "x", [found.parent]).code == f"NI{number}"
    assert set(HEADINGS) <= set(page.sections)
    if logic:
        compile(page.module.read_text(), page.module.name, "exec")
        assert page.says["found"]["title"]
        assert 'ctx.tells("found")' in page.module.read_text()
    code, _, err = run(monkeypatch, capsys, *new)
    assert code == 2
    assert "is there already" in err


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["shm-too-small", "--family", "memory"], "is there already: NI401"),
        (["Bad_Name", "--family", "memory"], "is no name"),
        (["cable-swapped", "--family", "cables"], "no family is called 'cables'"),
        (["cable-swapped"], "give a name and a family"),
        (["cable-swapped", "--family", "network", "--into", "/nonexistent"], "not the folder of the source tree"),
    ],
)
def test_what_cannot_be_a_new_diagnosis_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: list[str], says: str
) -> None:
    code, _, err = run(monkeypatch, capsys, "rules", "new", *given)
    assert code == 2
    assert says in err


def test_slips_in_names_and_formats_are_recognized() -> None:
    done = run_cli("explain", "shm-too-smal")
    assert done.returncode == 2
    assert "did you mean shm-too-small?" in done.stderr
    done = run_cli("analyze", TINY_SHM, "--format", "jsn")
    assert done.returncode == 2
    assert "did you mean 'json'?" in done.stderr


@pytest.mark.parametrize("width", [80, 100])
def test_the_catalog_and_its_pages_fit_a_terminal(width: int) -> None:
    rules = list(discover())
    assert max(map(len, catalog(rules, "text", width).splitlines())) <= width
    for line in explanation(rules[0], width).splitlines():
        assert len(line) <= width or " " not in line.strip()
    listed = catalog(rules, "text", width)
    assert all(rule.code in listed and rule.summary.split()[-1] in listed for rule in rules)
    assert "F stops the job" in listed
