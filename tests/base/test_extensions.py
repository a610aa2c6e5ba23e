"""An extension adds a page, a rule, a message, an input format and a machine; a broken one is named."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli import run_cli

EXAMPLE = Path(__file__).parents[1] / "example_extension"
LOG = """\
gpu07:311:311 [0] NCCL INFO NCCL version 2.27.7+cuda12.9
gpu07:311:340 [0] NCCL WARN NET/Acme : link acme3 runs at 100 Gb/s
"""
Install = Callable[[str], dict[str, str]]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Lays the example out as an installer does; the entry point of the rules names what is given."""

    def lay(rules: str) -> dict[str, str]:
        site = tmp_path / "site"
        shutil.copytree(EXAMPLE / "acme_insight", site / "acme_insight")
        info = site / "acme_insight-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-insight\nVersion: 1.0\n")
        groups = {"grammars": "acme_insight.grammars", "readers": "acme_insight.readers", "rules": rules}
        groups["expectations"] = "acme_insight.expectations"
        lines = [f"[nccl_insight.{group}]\nacme = {package}\n" for group, package in groups.items()]
        (info / "entry_points.txt").write_text("\n".join(lines))
        return {"PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}

    return lay


def test_finding_of_an_extension_in_every_format(tmp_path: Path, install: Install) -> None:
    env = install("acme_insight.rules")
    (tmp_path / "run.log").write_text(LOG)
    (tmp_path / "burnin.txt").write_text("acme-burnin 1\n0 700\n1 712\n2 410\n3 705\n")
    done = run_cli(
        "analyze", tmp_path / "run.log", tmp_path / "burnin.txt", "-o", f"json={tmp_path / 'a.json'}",
        "-o", f"html={tmp_path / 'a.html'}", "--js", "none", env=env,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "acme-link-degraded" in done.stdout
    found = {f["code"]: f for f in json.loads((tmp_path / "a.json").read_text())["findings"]}
    assert found["NI990"]["hosts"] == ["gpu07"]
    assert [e["line"] for e in found["NI990"]["evidence"]] == [2]
    assert found["NI991"]["observed"] == "410 TFLOP/s"
    assert [e["line"] for e in found["NI991"]["evidence"]] == [4]
    page = (tmp_path / "a.html").read_text()
    assert "A link of Acme" in page
    assert "GPU 2 reached 410 TFLOP/s" in page


def test_machine_of_an_extension(install: Install) -> None:
    done = run_cli(
        "expect", "--gpu", "Acme X1", "--op", "AllReduce", "--size", "1G", "--format", "json",
        env=install("acme_insight.rules"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Acme X1 data sheet" in done.stdout


def test_without_the_extension_its_line_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(LOG)
    done = run_cli("analyze", tmp_path / "run.log", "--format", "json")
    assert "NI990" not in done.stdout


@pytest.mark.parametrize("rules", ["acme_insight.nothing", "json.decoder"])
def test_broken_extension_is_named(tmp_path: Path, install: Install, rules: str) -> None:
    (tmp_path / "run.log").write_text(LOG)
    done = run_cli("analyze", tmp_path / "run.log", env=install(rules))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert f"extension acme ({rules}, of acme-insight)" in done.stderr
