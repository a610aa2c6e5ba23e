"""Configuration: where it is found, what wins, what is refused, and what it does to findings."""

from __future__ import annotations

import os
import subprocess
from datetime import date
from pathlib import Path

import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.base.model import Confidence, Severity
from nccl_insight.engine.policy import Ignore
from nccl_insight.engine.policy.config import load_policy, read_file, resolve
from tests.engine.policy.findings import finding


def written(folder: Path, text: str, name: str = "nccl-insight.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults() -> None:
    policy = load_policy()
    assert policy.select is None
    assert policy.fail_on is Severity.ERROR
    assert policy.min_confidence is Confidence.LOW
    assert policy.ignore == ()


def test_nearest_file_wins_alone(tmp_path: Path) -> None:
    written(tmp_path, '[analyze]\nfail-on = "never"\nmin-confidence = "high"\n')
    inner = tmp_path / "a" / "b"
    written(tmp_path / "a", '[analyze]\nfail-on = "warning"\n')
    inner.mkdir()
    policy = load_policy(cwd=inner)
    assert policy.fail_on is Severity.WARNING
    assert policy.min_confidence is Confidence.LOW
    assert policy.origins["fail_on"] == str(tmp_path / "a" / "nccl-insight.toml")
    assert load_policy(cwd=inner, isolated=True).fail_on is Severity.ERROR


def test_pyproject_counts_only_with_our_table(tmp_path: Path) -> None:
    written(tmp_path, '[tool.nccl-insight.analyze]\nfail-on = "info"\n', "pyproject.toml")
    inner = tmp_path / "inner"
    written(inner, "[tool.ruff]\nline-length = 100\n", "pyproject.toml")
    assert load_policy(cwd=inner).fail_on is Severity.INFO


def test_user_configuration_is_the_last_resort(tmp_path: Path) -> None:
    written(tmp_path / "config" / "nccl-insight", "[analyze]\nmin-coverage = 0.5\n")
    work = tmp_path / "work"
    work.mkdir()
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    assert load_policy(cwd=work, environ=environ).min_coverage == 0.5
    written(work, '[analyze]\nfail-on = "info"\n')
    assert load_policy(cwd=work, environ=environ).min_coverage == 0.0


def test_options_beat_environment_beats_file(tmp_path: Path) -> None:
    written(tmp_path, '[analyze]\nfail-on = "never"\nmin-confidence = "high"\nmin-coverage = 0.1\n')
    policy = load_policy(
        {"fail-on": "info", "min-confidence": None, "select": []},
        cwd=tmp_path,
        environ={"NCCL_INSIGHT_FAIL_ON": "warning", "NCCL_INSIGHT_MIN_CONFIDENCE": "medium"},
    )
    assert policy.fail_on is Severity.INFO
    assert policy.min_confidence is Confidence.MEDIUM
    assert policy.min_coverage == 0.1
    assert policy.origins["fail_on"] == "option --fail-on"
    assert policy.origins["min_confidence"] == "environment NCCL_INSIGHT_MIN_CONFIDENCE"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[analyse]\n", ("'analyse'", "did you mean analyze")),
        ("[analyze]\nfail_on = 'error'\n", ("'fail_on'", "did you mean fail-on")),
        ("[analyze]\nfail-on = 'fatal'\n", ("fail-on", "must be one of", "never")),
        ("[analyze]\nselect = ['peer-dead']\n", ("peer-dead", "did you mean peer-died")),
        ("[analyze]\nignore = ['NI501']\n", ("needs a reason",)),
        ("[analyze]\nmin-coverage = 3\n", ("share between 0 and 1",)),
        ("[[ignore]]\ncode = 'NI501'\n", ("reason",)),
        ("[[ignore]]\nreason = 'known'\n", ("needs a code or name",)),
        ("[[ignore]]\ncode = 'NI501'\nreason = 'x'\nuntil = 'soon'\n", ("date",)),
        ("[[ignore]]\ncode = 'NI501'\nreason = 'x'\nwhy = 'y'\n", ("'why'",)),
        ("[severity]\nNI501 = 'loud'\n", ("must be one of error, warning, info",)),
        ("[thresholds.peer-died]\nx = 1\n", ("no thresholds", "communicator-leak")),
        ("[thresholds.communicator-leak]\ncommunicator = 5\n", ("did you mean communicators",)),
        ("[thresholds.communicator-leak]\ncommunicators = 'many'\n", ("must be a number",)),
        ("[analyze\n", ("not valid TOML",)),
        ("analyze = 3\n", ("must be a table",)),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        load_policy(cwd=tmp_path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message.strip()
    for word in words:
        assert word in message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.toml"):
        load_policy(config=tmp_path / "gone.toml")


def test_codes_names_beginnings_and_globs() -> None:
    assert resolve("NI501") == resolve("peer-died") == ("peer-died",)
    assert set(resolve("NI5")) > {"peer-died", "watchdog-timeout"}
    assert set(resolve("shm-*")) == {"shm-too-small", "shm-permission", "shm-attach-missing"}
    with pytest.raises(UsageError):
        resolve("")


def test_ignore_needs_its_match_and_its_date(tmp_path: Path) -> None:
    written(
        tmp_path,
        "[[ignore]]\ncode = 'NI501'\nmatch = 'gpu0*'\nreason = 'drained host'\nuntil = 2027-01-31\n"
        "[[ignore]]\ncode = 'NI217'\nreason = 'no RDMA here'\n",
    )
    policy = load_policy(cwd=tmp_path, today=date(2027, 1, 31))
    assert policy.silenced(finding()) == ("drained host", "2027-01-31")
    assert policy.silenced(finding(host="node1")) is None
    assert policy.notes() == ()
    later = load_policy(cwd=tmp_path, today=date(2027, 2, 1))
    assert later.silenced(finding()) is None
    assert "expired on 2027-01-31" in later.notes()[0]


def test_options_for_ignore_carry_where_they_came_from() -> None:
    policy = load_policy({"ignore": ["NI501", "NI217"]})
    assert policy.ignore == (Ignore("peer-died", "ignored by --ignore"), Ignore("ib-no-device", "ignored by --ignore"))
    assert load_policy(environ={"NCCL_INSIGHT_IGNORE": "peer-died"}).ignore[0].name == "peer-died"


def test_severity_and_thresholds_are_read(tmp_path: Path) -> None:
    written(tmp_path, "[severity]\nNI501 = 'info'\n[thresholds.communicator-leak]\ncommunicators = 5\n")
    policy = load_policy(cwd=tmp_path)
    assert policy.severity_of("peer-died", Severity.ERROR) is Severity.INFO
    assert policy.severity_of("ib-no-device", Severity.INFO) is Severity.INFO
    assert policy.thresholds == {"communicator-leak": {"communicators": 5.0}}


def test_the_configuration_of_the_readme_is_accepted(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    (tmp_path / "nccl-insight.toml").write_text(readme.split("```toml\n")[1].split("```")[0])
    policy = load_policy({}, config=None, isolated=False, cwd=tmp_path, environ={}, today=date(2026, 1, 1))
    assert policy.fail_on is Severity.WARNING
    assert policy.severity == {"env-deprecated": Severity.WARNING}


def test_an_option_is_named_once_in_its_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^--fail-on: must be one of"):
        load_policy({"fail-on": "bad"}, config=None, isolated=True, cwd=tmp_path, environ={}, today=date(2026, 1, 1))


def test_one_option_may_hold_several_names() -> None:
    policy = load_policy({"select": ["shm-too-small,NI106", "peer-died"]})
    assert policy.select == {"shm-too-small", "env-deprecated", "peer-died"}


def test_a_configuration_may_come_through_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    written(tmp_path, '[analyze]\nfail-on = "info"\n')
    writer = subprocess.Popen(["sh", "-c", "cat nccl-insight.toml > pipe"], cwd=tmp_path)
    assert load_policy(config=pipe).fail_on is Severity.INFO
    assert writer.wait(60) == 0


@pytest.mark.parametrize("text", ["a = " + "[" * 20_000, "a = " + "9" * 6_000])
def test_a_configuration_that_cannot_be_parsed_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "nccl-insight.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match="not valid TOML"):
        read_file(path)
