"""The gate: node checks on made-up file trees, expectations, exit codes, and the collective with fake ranks."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

import nccl_insight.live.preflight
from nccl_insight.advise.settings.lint import lint_text
from nccl_insight.base import texts
from nccl_insight.base.model import Severity
from nccl_insight.live.capture.environment import World
from nccl_insight.live.preflight import chosen
from nccl_insight.live.preflight.gate import deadline_s
from tests.live.gates import cli

DOCS = Path(__file__).parents[3] / "docs" / "jobs"
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def test_single_checks_and_reports_from_the_command_line(tmp_path: Path) -> None:
    done = cli("--only", "memlock,ecc", "--report", "junit=a.xml", "--history", "h.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {line.split()[1]: line.split()[0] for line in done.stdout.splitlines()[:-1]} == {
        "memlock": done.stdout.split()[0],
        "ecc": "SKIP",
    }
    unknown = cli("--only", "xids", cwd=tmp_path)
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "did you mean 'xid'?" in unknown.stderr
    assert ElementTree.parse(tmp_path / "a.xml").getroot().tag == "testsuites"
    assert json.loads((tmp_path / "h.jsonl").read_text())["level"] == "quick"
    assert cli("--report", "pdf=a.pdf", cwd=tmp_path).returncode == 2


def test_names_of_checks_are_those_that_the_checks_have() -> None:
    """Every name in the sources can be asked for."""
    sources = Path(nccl_insight.live.preflight.__file__).parent
    text = "".join((sources / f"{name}.py").read_text() for name in ("gpus", "health", "fabric", "quick"))
    made = re.findall(
        r'\bCheck\(\s*"([a-z /]+)"|^\s+\("([a-z ]+)", "[a-z_]+", Status|_different\(gpus, "[a-z_]+", "([a-z ]+)"',
        text,
        re.M,
    )
    words = texts.of_file(sources / "checks.txt")
    told = {words[key].get("name") for key in re.findall(r'\bcheck_of\(\s*"([a-z0-9-]+)"', text)}
    names = {*(next(filter(None, groups)) for groups in made), *filter(None, told)}
    assert len(names) > 40
    assert chosen.names_of(",".join(sorted(names))) == sorted(names)


def test_the_quick_level_without_a_gpu_judges_nothing(tmp_path: Path) -> None:
    done = cli(cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout.strip().splitlines()[-1].endswith("action=none exit=3")
    assert "NCCL-INSIGHT preflight SKIP" in done.stdout
    wrong = cli("--expect", "gpus=8", "--format", "json", cwd=tmp_path)
    assert wrong.returncode == 1
    document = json.loads(wrong.stdout)
    (failed,) = [c for c in document["checks"] if c["status"] == "FAIL"]
    assert (failed["observed"], failed["expected"]) == ("0", "= 8")


def test_the_full_level_needs_a_launcher(tmp_path: Path) -> None:
    done = cli("--level", "full", cwd=tmp_path)
    assert done.returncode == 2
    assert "launcher" in done.stderr


@needs_torch
def test_gloo_gate_records_and_checks_its_own_expectations(tmp_path: Path) -> None:
    first = cli("--level", "standard", "--backend", "gloo", "--write-expect", "site.toml", cwd=tmp_path)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "busbw" not in (tmp_path / "site.toml").read_text()  # timings of CPU tensors are no expectation
    again = cli("--level", "standard", "--backend", "gloo", "--expect-file", "site.toml", cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    wrong = cli("--level", "standard", "--backend", "gloo", "--expect", "ranks=3", cwd=tmp_path)
    assert wrong.returncode == 1
    assert "FAIL  expect ranks" in wrong.stdout


# --- job script parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(p.name for p in DOCS.glob("*") if p.suffix in (".sh", ".sbatch", ".yaml")))
def test_job_script_parts_are_clean(name: str) -> None:
    path = DOCS / name
    result = lint_text(path.name, path.read_text())
    assert [f for f in result.findings if f.issue.severity in (Severity.ERROR, Severity.WARNING)] == []
    if path.suffix in (".sh", ".sbatch"):
        subprocess.run(["bash", "-n", str(path)], check=True)


def test_job_script_parts_exist() -> None:
    assert {p.suffix for p in DOCS.glob("*")} >= {".sh", ".sbatch", ".yaml", ".md"}


@pytest.mark.parametrize(("ranks", "seconds"), [(2, 120), (8, 120), (64, 240), (4096, 480)])
def test_the_deadline_of_a_job_grows_with_the_logarithm_of_its_ranks(ranks: int, seconds: int) -> None:
    assert deadline_s("full", World(0, ranks, 0, "n1", 29500)) == seconds
