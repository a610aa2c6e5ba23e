"""The command line: outputs, exit codes, one clear line for bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from nccl_insight import cli
from nccl_insight.tables.schema import SCHEMA
from tests.cli import run_cli
from tests.runs import HEALTHY, TINY_SHM

ROOT = Path(__file__).parents[2]


def one_line(text: str) -> bool:
    return len(text.strip().splitlines()) == 1


def test_healthy_run_exits_0_and_says_so() -> None:
    result = run_cli("analyze", HEALTHY)
    assert result.returncode == 0
    first, second, third, *_ = result.stdout.splitlines()
    assert first == "OK  No problem found"
    assert "16 ranks on 2 nodes, NCCL 2.27.7" in second
    assert third.startswith("  progress: init completed on all 16 ranks")
    assert result.stderr == ""


def test_findings_exit_1_with_evidence() -> None:
    result = run_cli("analyze", TINY_SHM)
    assert result.returncode == 1
    assert result.stdout.startswith("FAIL")
    assert "shm-too-small" in result.stdout
    assert "run.log:" in result.stdout
    assert run_cli("analyze", TINY_SHM, "--exit-zero").returncode == 0
    assert run_cli("analyze", TINY_SHM, "--fail-on", "never").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["analyze", "/does/not/exist.log"], 2, "no such file"),
        (["analyze", "--fail-on", "sometimes", str(HEALTHY)], 2, "sometimes"),
        (["analyze", "--select", "shm-to-small", str(HEALTHY)], 2, "shm-too-small"),
        (["analyze", "--input-format", "xyz", str(HEALTHY)], 2, "xyz"),
        (["analyze", str(HEALTHY), "-o", "pdf=x"], 2, "pdf"),
        (["analyze", str(HEALTHY), "-o", "x.html", "--js", "foo"], 2, "foo"),
        (["analyze", str(HEALTHY), "-o", "json=/does/not/exist/x.json"], 2, "cannot be written"),
        (["tables", str(HEALTHY), "-o", "/tmp/x", "--format", "xls"], 2, "xls"),
        (["query", "select nothing from nowhere", str(HEALTHY)], 2, "nowhere"),
        (["explain", "no-such-rule"], 2, "no-such-rule"),
        (["nonsense"], 2, "nonsense"),
    ],
)
def test_wrong_usage_exits_2(arguments: list[str], code: int, word: str) -> None:
    result = run_cli(*arguments)
    assert result.returncode == code
    assert word in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_nothing_to_judge_exits_3(tmp_path: Path) -> None:
    (tmp_path / "empty.log").write_text("")
    (tmp_path / "story.log").write_text("once upon a time\nthere was a GPU\n")
    for name in ("empty.log", "story.log"):
        result = run_cli("analyze", tmp_path / name)
        assert result.returncode == 3, name
        assert "Traceback" not in result.stderr
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    result = run_cli("analyze", nothing)
    assert result.returncode == 3
    assert one_line(result.stderr)


def test_low_coverage_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "new.log").write_text("a:1:2 [0] NCCL INFO Frobnicated a widget\n" * 10)
    assert run_cli("analyze", tmp_path / "new.log", "--min-coverage", "0.5").returncode == 3


def test_internal_errors_exit_4(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(command: str) -> None:
        raise ZeroDivisionError("by design")

    monkeypatch.setattr(cli, "build_app", broken)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 4
    shown = capsys.readouterr().err
    assert one_line(shown)
    assert "ZeroDivisionError" in shown


def test_a_closed_pipe_is_quiet() -> None:
    script = f"{sys.executable} -m nccl_insight parse {HEALTHY} | head -1"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert result.stderr == ""
    assert json.loads(result.stdout)["line"] == 1


@pytest.mark.parametrize("command", [["parse", str(HEALTHY)], ["explain", "NI401"]])
def test_a_pipe_that_nobody_reads_ends_with_its_own_code(command: list[str]) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "nccl_insight", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.close()
    assert child.wait(timeout=60) == 141
    assert child.stderr is not None
    assert child.stderr.read() == b""
    child.stderr.close()


def test_standard_input() -> None:
    result = run_cli("analyze", "-", stdin=TINY_SHM.read_text())
    assert result.returncode == 1
    assert "<stdin>" in result.stdout


def test_several_outputs_from_one_analysis(tmp_path: Path) -> None:
    names = {"json": "a.json", "md": "a.md", "junit": "a.xml", "html": "a.html", "text": "a.txt"}
    flags = [part for kind, name in names.items() for part in ("-o", f"{kind}={tmp_path / name}")]
    result = run_cli("analyze", TINY_SHM, *flags)
    assert result.returncode == 1
    for name in names.values():
        assert (tmp_path / name).stat().st_size > 200, name
    report = json.loads((tmp_path / "a.json").read_text())
    assert report["schema_version"] == 1
    assert report["verdict"]["status"] == "findings"
    assert report["findings"][0]["name"] == "shm-too-small"
    assert [e["primary"] for e in report["findings"][0]["evidence"]].count(True) == 1
    coverage = report["coverage"]
    parts = coverage["parsed"] + coverage["unknown"] + coverage["foreign"] + coverage["torn"]
    assert parts == coverage["lines"]


def test_only_json_on_standard_output() -> None:
    result = run_cli("analyze", HEALTHY, "--format", "json")
    assert json.loads(result.stdout)["verdict"]["status"] == "ok"


def test_same_input_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        run_cli("analyze", TINY_SHM, "-o", "r.html", cwd=tmp_path / name)
    assert (tmp_path / "a" / "r.html").read_bytes() == (tmp_path / "b" / "r.html").read_bytes()


def test_quiet() -> None:
    assert len(run_cli("analyze", TINY_SHM, "-q").stdout.strip().splitlines()) == 1
    assert run_cli("analyze", TINY_SHM, "-qq").stdout == ""


@pytest.mark.parametrize("kind", ["parquet", "csv", "ndjson"])
def test_tables_as_files(kind: str, tmp_path: Path) -> None:
    result = run_cli("tables", HEALTHY, "-o", tmp_path / "out", "--format", kind)
    assert result.returncode == 0
    path = tmp_path / "out" / f"ranks.{kind}"
    reader = {"parquet": pl.read_parquet, "csv": pl.read_csv, "ndjson": pl.read_ndjson}[kind]
    frame = reader(path)
    assert frame.height == 16
    assert frame.columns[: len(SCHEMA["ranks"])] == list(SCHEMA["ranks"])


def test_query() -> None:
    sql = "select host, count(*) as n from ranks group by host order by host"
    result = run_cli("query", sql, HEALTHY, "--format", "csv")
    assert result.stdout == "host,n\nnode00,8\nnode01,8\n"


def test_parse_gives_one_object_a_record() -> None:
    result = run_cli("parse", HEALTHY)
    objects = [json.loads(line) for line in result.stdout.splitlines()]
    assert [o["line"] for o in objects] == sorted(o["line"] for o in objects)
    start = next(o for o in objects if "Init START" in o["text"])
    assert start["message"] is not None
    assert start["fields"]["nranks"] == 16
    assert isinstance(start["fields"]["comm_id"], str)
    assert (start["level"], start["host"][:4]) == ("INFO", "node")


def test_grammar_commands(tmp_path: Path) -> None:
    assert run_cli("grammar", "lint").returncode == 0
    coverage = run_cli("grammar", "coverage", HEALTHY).stdout
    assert "of 1,173 NCCL lines understood" in coverage or "% of" in coverage
    explained = run_cli("grammar", "explain-line", "a:1:2 [0] NCCL INFO Using network IB").stdout
    assert "network" in explained
    # lark, which reads the same grammar, cuts the line.
    assert explained.split("read as\n")[1].split() == ["'Using", "network", "'", "network", "'IB'"]
    unknown = run_cli("grammar", "explain-line", "a:1:2 [0] NCCL INFO Using notwork IB").stdout
    assert "no rule knows" in unknown
    (tmp_path / "new.log").write_text("a:1:2 [0] NCCL INFO Frobnicated 3 of 0x12\n")
    suggested = run_cli("grammar", "suggest", tmp_path / "new.log").stdout
    assert '"Frobnicated " INT " of " PTR' in suggested


@pytest.mark.parametrize("command", [("--help",), ("lint", "run.sh"), ("expect",)])
def test_what_asks_for_no_tables_is_light(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("export NCCL_DEBUG=INFO\npython train.py\n")
    code = (
        f"import sys; sys.argv=['nccl-insight', *{command!r}]\n"
        "from nccl_insight import cli\n"
        "try: cli.main()\nexcept SystemExit: pass\n"
        "heavy={'polars','torch','plotly','lark'} & set(sys.modules); assert not heavy, heavy"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.returncode == 0, result.stderr


def test_a_log_is_analyzed_without_what_it_does_not_need(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        f"sys.argv = ['nccl-insight', 'analyze', {str(HEALTHY)!r}, '-o', {'json=' + str(tmp_path / 'a.json')!r}]\n"
        "from nccl_insight import cli\n"
        "try: cli.main()\nexcept SystemExit: pass\n"
        "print(*sys.modules, sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (tmp_path / "a.json").exists()
    modules = set(done.stdout.splitlines())
    assert {"polars", "nccl_insight.engine.analyze", "nccl_insight.readers.kineto"} <= modules
    others = {"plotly", "jinja2", "lark", "yaml", "zstandard", "rich", "torch", "ray", "fsspec", "sqlite3", "asyncio"}
    others |= {"xml", "multiprocessing", "http", "ssl"}
    own = {
        "share.redact", "share.replay", "live", "share.agents", "views", "report.html", "report.figures",
        "readers.kineto.format",
        "readers.nsys.format", "readers.xplane.format", "readers.rocpd.format", "readers.flight_recorder.format",
        "readers.gpu_activity", "readers.chrome", "cli.cmd_capture", "cli.cmd_tables", "language.reference",
    }  # fmt: skip
    assert modules & (others | {f"nccl_insight.{name}" for name in own}) == set()


def test_version() -> None:
    shown = run_cli("--version").stdout
    assert shown.startswith("nccl-insight 0.")
    assert "grammar" in shown


def test_readme_names_every_command() -> None:
    readme = (ROOT / "README.md").read_text()
    commands = [c.name or c.callback.__name__.replace("_", "-") for c in cli.build_app().registered_commands]
    assert [c for c in commands if f"`{c}" not in readme and f" {c} " not in readme] == []
