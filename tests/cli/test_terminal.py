"""What commands say on a terminal: widths, hints, names, cut texts, progress."""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from nccl_insight.advise.settings.check.values import check_value
from nccl_insight.base.errors import UsageError
from nccl_insight.base.model import Analysis
from nccl_insight.cli import with_command
from nccl_insight.cli.following import follow
from nccl_insight.engine.policy.config import resolve
from nccl_insight.report.explain_log import render as explain_log
from nccl_insight.report.prose import fit
from nccl_insight.report.sanitize import one_line
from nccl_insight.report.text import render as text_report
from nccl_insight.rules import discover
from nccl_insight.tables.run import Run, build_run
from nccl_insight.tables.sql import columns, overview, select
from nccl_insight.views.log import log
from tests import pages
from tests import render_samples as samples
from tests.cli import run_cli
from tests.runs import TINY_SHM


def test_globs_take_codes_and_names() -> None:
    codes = {rule.name: rule.code for rule in discover()}
    assert {codes[name] for name in resolve("NI21*")} == {c for c in codes.values() if c.startswith("NI21")}
    assert {codes[name] for name in resolve("ni2?0")} == {c for c in codes.values() if re.match(r"NI2\d0", c)}
    assert set(resolve("env-*")) == {name for name in codes if name.startswith("env-")}


def test_a_code_that_nobody_has_gets_no_guess_and_a_name_does() -> None:
    with pytest.raises(UsageError) as code:
        resolve("NI999")
    assert "did you mean" not in str(code.value)
    assert "nccl-insight rules" in str(code.value)
    with pytest.raises(UsageError, match="did you mean shm-too-small"):
        resolve("shm-to-small")


def test_help_is_a_command_and_a_missing_file_is_said_to_be_missing() -> None:
    known = frozenset({"analyze", "rules"})
    assert with_command(["help"], known) == ["--help"]
    assert with_command(["help", "rules"], known) == ["rules", "--help"]
    with pytest.raises(UsageError, match=r"nowhere\.log: no such file"):
        with_command(["nowhere.log"], known)
    assert with_command(["rulez"], known) == ["rulez"]


def test_tables_can_be_listed_described_and_mistyped() -> None:
    run = build_run({"ranks": pl.DataFrame({"rank": [0, 1]})})
    assert overview(run).select("table", "rows").rows() == [("ranks", 2)]
    assert "connections" in overview()["table"]
    assert dict(columns("steps").select("column", "type").iter_rows())["duration_ns"] == "Int64"
    assert (
        dict(columns("env").select("column", "type").iter_rows())["origin"]
        == "one of environment, config, file, default"
    )
    meanings = dict(columns("waits").select("column", "meaning").iter_rows())
    assert meanings["wait_share"] == "Part of the duration that was waiting, 0 to 1."
    with pytest.raises(UsageError, match="did you mean steps"):
        columns("step")
    with pytest.raises(UsageError, match="did you mean ranks"):
        select(run, "select * from rank")


def test_query_takes_its_words_in_either_order() -> None:
    sql = "select rank from ranks order by rank limit 1"
    for arguments in ((sql, TINY_SHM), (TINY_SHM, sql)):
        assert run_cli("query", *arguments, "--format", "csv").stdout == "rank\n0\n"
    assert run_cli("query", "--schema", "rank").returncode == 2


def test_a_cut_text_ends_between_words() -> None:
    text = "the collective was entered by ranks 0-6, and rank 7 is still in its forward pass"
    shown = one_line(text, 45)
    assert shown == "the collective was entered by ranks 0-6, and ... (36 more characters)"
    assert len(text) - len("the collective was entered by ranks 0-6, and") == 36


def test_the_line_of_the_log_is_on_as_few_rows_as_hold_it() -> None:
    analysis, _ = samples.failing()
    message = "node00:1:2 [3] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-yqMmIK to 9637892"
    line = replace(analysis.findings[0].evidence[0], text=message, line=7)
    long = replace(line, text="word " * 400)
    for evidence, rows in ((line, 2), (long, 4)):
        finding = replace(analysis.findings[0], evidence=(evidence,))
        page = text_report(replace(analysis, findings=(finding,)), width=80)
        shown = [row[7:] for row in page.splitlines() if row.startswith("    |  ")]
        assert len(shown) == rows
        assert max(map(len, shown)) <= 73
        assert " ".join(shown) == message or shown[-1].endswith(" ...")
    assert " ".join(shown).count("word") > 40


def test_a_binary_file_among_logs_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_bytes(TINY_SHM.read_bytes())
    (tmp_path / "core.bin").write_bytes(b"\x7fELF\x02\x01\x01\x00\xff\xfe\x00" + bytes(range(256)) * 8)
    shown = run_cli("analyze", ".", "--exit-zero", cwd=tmp_path).stdout
    assert "core.bin: program or library; it is no log and no trace" in shown
    alone = run_cli("analyze", "core.bin", cwd=tmp_path)
    assert alone.returncode == 3
    assert "it is no log and no trace" in alone.stdout


def test_where_a_finding_stands_leaves_a_narrow_terminal_its_width() -> None:
    analysis, _ = samples.failing()
    long = replace(
        analysis.findings[0],
        evidence=(replace(analysis.findings[0].evidence[0], input="/scratch/" + "job-4711/" * 5 + "all.log"),),
        ranks=(1, 3, 9, 11, 13, 15),
    )
    shown = text_report(replace(analysis, findings=(long,)), width=80).splitlines()
    (at,) = [n for n, line in enumerate(shown) if line.startswith("   --> ")]
    assert "all.log" in shown[at]
    assert "ranks" in shown[at + 1]
    assert max(map(len, shown)) <= 80


def test_colors_that_were_asked_for_go_through_a_pipe() -> None:
    plain = run_cli("analyze", TINY_SHM, "--exit-zero").stdout
    colored = run_cli("analyze", TINY_SHM, "--exit-zero", "--color", "always").stdout
    assert "\x1b[" not in plain
    assert "\x1b[1;31mFAIL" in colored


def test_a_phrase_gets_no_unit_in_the_report() -> None:
    finding = replace(
        samples.finding(observed="0 of 368 with GDRDMA", expected="GDRDMA where it can be"), unit="connections"
    )
    bare = replace(samples.finding("NI999", "other", observed="12", expected=">= 180"), unit="GB/s")
    analysis, run = samples.failing()
    page = pages.render(replace(analysis, findings=(finding, bare)), run, js="none")
    assert "<dd>0 of 368 with GDRDMA</dd>" in page
    assert "<dd>GDRDMA where it can be</dd>" in page
    assert "<dd>12 GB/s</dd>" in page
    assert "<dd>&gt;= 180 GB/s</dd>" in page


def test_the_first_warning_is_a_text_not_a_list() -> None:
    errors = pl.DataFrame({"level": ["WARN", "WARN"], "text": ["libfabric:17778: no provider", "other"]})
    told = explain_log(log(build_run({"errors": errors})))
    assert "2 warnings in the log, the first: libfabric:17778: no provider" in told
    assert "['" not in told


def test_a_number_out_of_range_is_not_explained_by_how_digits_are_read() -> None:
    too_large = check_value("NCCL_IB_TIMEOUT", "50")
    no_number = check_value("NCCL_IB_TIMEOUT", "20s")
    assert too_large is not None
    assert no_number is not None
    assert "digit" not in too_large.explanation
    assert "digit" in no_number.explanation


def test_a_half_written_log_is_not_judged_aloud(tmp_path: Path) -> None:
    """What only one look shows is not told; what the next look confirms is."""
    log = tmp_path / "run.log"
    log.write_text("0")
    early, late = samples.failing()[0], samples.healthy()[0]
    verdicts = [early, late]
    told: list[Analysis] = []

    def judge() -> tuple[Analysis, Run]:
        return verdicts[min(int(log.read_text()), 1)], build_run({})

    def grow(seconds: float) -> None:
        if log.read_text() == "0":
            log.write_text("01")

    follow([str(log)], judge, told.append, idle_s=6, sleep=grow)
    assert told == [late]


def test_following_tells_the_time_and_the_cause() -> None:
    result = run_cli("analyze", TINY_SHM, "--follow", "--idle", "1")
    first = result.stdout.splitlines()[0]
    assert datetime.datetime.strptime(first[:8], "%H:%M:%S")
    assert "/dev/shm" in first


def test_shells_can_complete_commands() -> None:
    shown = run_cli("--help").stdout
    assert "--install-completion" in shown
    asked = {"_NCCL_INSIGHT_COMPLETE": "complete_bash", "COMP_WORDS": "nccl-insight expl", "COMP_CWORD": "1"}
    complete = run_cli(env=asked)
    assert sorted(complete.stdout.split()) == ["explain", "explain-log"]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("explain NI40", ["NI401", "NI402"]),
        ("explain shm-too", ["shm-too-small"]),
        ("query --schema connectio", ["connections"]),
        ("query --schema fact_abs", ["fact_absences"]),
        ("analyze --format js", ["json"]),
        ("analyze -o github", ["github-issue"]),
        ("analyze --select rank-des", ["rank-desync"]),
    ],
)
def test_shells_can_complete_names(typed: str, expected: list[str]) -> None:
    words = f"nccl-insight {typed}"
    asked = {"_NCCL_INSIGHT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(typed.count(" ") + 1)}
    found = run_cli(env=asked).stdout.split()
    assert found[: len(expected)] == expected
    assert all(word.startswith(typed.split()[-1]) for word in found)


def test_tables_and_queries_tell_that_nothing_was_judged(tmp_path: Path) -> None:
    log = tmp_path / "hello.txt"
    log.write_text("hello\n")
    asked = run_cli("query", "select path from inputs", log, "--format", "csv")
    assert (asked.returncode, asked.stdout) == (3, f"path\n{log}\n")
    assert asked.stderr == f"nccl-insight: query: no NCCL line, trace or report in {log}\n"
    assert run_cli("tables", log, "-o", tmp_path / "out").returncode == 3
    assert (tmp_path / "out" / "inputs.parquet").exists()
    assert run_cli("query", "select count(*) from ranks", TINY_SHM).returncode == 0


def test_long_lines_wrap_under_their_indent_and_never_inside_a_path() -> None:
    path = "/a/very/long/path/that/is/never/broken/whatever/the/width/of/the/terminal/is/run.log:114"
    told = f"  new    ERROR    NI401 shm-too-small: the words of the title are many\n         see {path}, {path}\n"
    assert fit(told, None) == told
    lines = fit(told, 60).split("\n")
    assert sum(path in line for line in lines) == 2
    assert all(len(line) <= 60 or path in line for line in lines)
    assert lines[1].startswith(" " * 6)
