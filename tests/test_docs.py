"""Every command that the guide shows is run on bundled data, and the site builds without a warning."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
DATA = {
    "run.log": "runs/healthy-16rank-ib/run.log", "good.log": "runs/healthy-16rank-ib/run.log",
    "crash.log": "runs/tiny-shm/run.log", "hang.log": "triage/two-late-ranks-old-torch/run.log",
    "logs": "runs/perrank-2.14", "slow": "traces/gloo_late_rank2",
}  # fmt: skip


def commands() -> list[tuple[str, str]]:
    found = []
    for page in GUIDE:
        for block in re.findall(r"^```console\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
            found += [(page.name, line[2:]) for line in block.splitlines() if line.startswith("$ ")]
    return found


def test_the_guide_shows_commands() -> None:
    assert len(commands()) > 10


@pytest.mark.parametrize(("page", "command"), commands())
def test_a_command_of_the_guide(page: str, command: str, tmp_path: Path) -> None:
    for name, source in DATA.items():
        path = ROOT / "fixtures" / source
        if path.is_dir():
            shutil.copytree(path, tmp_path / name)
        else:
            shutil.copy(path, tmp_path / name)
    words = shlex.split(command)
    assert words[0] == "nccl-insight"
    done = subprocess.run(
        [sys.executable, "-m", "nccl_insight", *words[1:]],
        cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False, env=dict(os.environ),
    )  # fmt: skip
    expected = {0, 1} if words[1:3] == ["analyze", "logs/"] else {0}
    assert done.returncode in expected, f"{page}: {command}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(
    find_spec("material") is None, reason="mkdocs-material is not installed: pip install '.[docs]'"
)
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "reference" / "checks" / "NI401.html").exists()
    assert "preflight" in (tmp_path / "site" / "reference" / "commands.html").read_text(encoding="utf-8")
