"""Every command that the guide shows is run on bundled data, and the site builds without a warning."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from nccl_insight.cli.cmd_demo import FILES, NEXT
from tests.cli import run_cli

ROOT = Path(__file__).parents[1]
GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
# What readers have of their own; the rest is written by `nccl-insight demo`.
DATA = {name: source for files in FILES.values() for name, source in files.items()} | {
    "good.log": "runs/healthy-16rank-ib/run.log",
    "logs": "runs/perrank-2.14",
}


def commands() -> list[tuple[str, str]]:
    found = []
    for page in GUIDE:
        for block in re.findall(r"^```console\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
            found += [(page.name, line[2:]) for line in block.splitlines() if line.startswith("$ ")]
    return found


def test_the_guide_shows_commands() -> None:
    assert len(commands()) > 10


@pytest.mark.parametrize(("page", "command"), [c for c in commands() if c[0] != "tour.md"])
def test_a_command_of_the_guide(page: str, command: str, tmp_path: Path) -> None:
    for name, source in DATA.items():
        path = ROOT / "fixtures" / source
        if path.is_dir():
            shutil.copytree(path, tmp_path / name)
        else:
            shutil.copy(path, tmp_path / name)
    words = shlex.split(command)
    assert words[0] == "nccl-insight"
    done = _run(command, tmp_path)
    expected = {0, 1} if words[1:3] == ["analyze", "logs/"] else {0}
    assert done.returncode in expected, f"{page}: {command}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr


def test_the_tour_runs_as_printed_from_an_empty_directory(tmp_path: Path) -> None:
    shown = [command for page, command in commands() if page == "tour.md"]
    assert sum(c.startswith("nccl-insight demo ") for c in shown) == 3
    for command in shown:
        assert _run(command, tmp_path).returncode == 0, command


@pytest.mark.parametrize("case", sorted(FILES))
def test_a_demo_writes_its_files_judges_them_and_says_what_runs_next(case: str, tmp_path: Path) -> None:
    done = _run(f"nccl-insight demo {case}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert {p.name for p in tmp_path.iterdir()} == set(FILES[case])
    assert re.search(r"^(FAIL|WARN)  ", done.stdout, re.M)
    told = re.findall(r"^  (nccl-insight .*)", done.stdout.partition("\nNext:\n")[2], re.M)
    assert set(NEXT[case]) < set(told)
    for command in told:
        assert _run(command, tmp_path).returncode in (0, 1), command


def test_a_demo_leaves_files_of_the_user_alone(tmp_path: Path) -> None:
    (tmp_path / "crash.log").write_text("mine\n")
    done = _run("nccl-insight demo crash", tmp_path)
    assert done.returncode == 2
    assert (tmp_path / "crash.log").read_text() == "mine\n"
    assert _run("nccl-insight demo crsh", tmp_path).returncode == 2


def test_the_wheel_holds_what_demo_writes() -> None:
    included = (ROOT / "pyproject.toml").read_text()
    for source in (s for files in FILES.values() for s in files.values()):
        assert (ROOT / "fixtures" / source).exists()
        assert f'"fixtures/{source}" = "nccl_insight/demo/{source}"' in included


def _run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return run_cli(*shlex.split(command)[1:], cwd=folder)


@pytest.mark.skipif(find_spec("zensical") is None, reason="zensical is not installed: pip install '.[docs]'")
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "tools/site.py", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "reference" / "checks" / "NI401.html").exists()
    assert "preflight" in (tmp_path / "site" / "reference" / "commands.html").read_text(encoding="utf-8")
