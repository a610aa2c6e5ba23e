"""Faults of the first version that no other test keeps out."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from tests import source
from tests.cli import run_cli

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "nccl_insight"
HEALTHY = ROOT / "fixtures/runs/healthy-16rank-ib/run.log"


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(source.tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("command", ["redact", "tables"])
def test_a_damaged_stream_ends_no_command(command: str, tmp_path: Path) -> None:
    packed = bytearray(zstandard.compress(HEALTHY.read_bytes()))
    packed[len(packed) // 2] ^= 0xFF
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "bad.log.zst").write_bytes(packed)
    (tmp_path / "in" / "good.log").write_bytes(HEALTHY.read_bytes())
    result = run_cli(command, tmp_path / "in", "-o", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert "internal error" not in result.stderr


def test_a_bundle_of_a_pipe_holds_its_log(tmp_path: Path) -> None:
    """A pipe cannot be read twice: what was read is packed."""
    bundle = tmp_path / "ticket.zip"
    reading, writing = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-m", "nccl_insight", "analyze", f"/dev/fd/{reading}", "--bundle", bundle, "--exit-zero"],
        pass_fds=[reading],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(HEALTHY.read_bytes())
        _, said = process.communicate()
    assert process.returncode == 0, said
    again = run_cli("analyze", bundle, "--format", "json", "--exit-zero")
    assert '"nranks":16' in again.stdout.replace(" ", "")


def test_no_finding_sends_users_to_a_setting_that_is_not_there() -> None:
    found = [
        p.name
        for p in (PACKAGE / "rules").rglob("*")
        if p.suffix in (".py", ".md") and "in the configuration" in p.read_text("utf-8")
    ]
    assert found == []


def test_what_is_always_there_is_imported_plainly() -> None:
    assert not [p for p in (PACKAGE / "loading").glob("*.py") if "importlib" in _imports(p)]


def test_the_collector_of_the_host_program_is_left_alone() -> None:
    """Only the command line, which owns its process, tunes the garbage collector."""
    users = {p.relative_to(PACKAGE).parts[0] for p in source.modules() if "gc" in _imports(p)}
    assert users <= {"cli"}


def test_the_layers_of_the_page_are_those_that_are_checked() -> None:
    """docs/architecture.md names every layer that import-linter knows."""
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["type"] == "layers")
    names = [name.strip().removeprefix("nccl_insight.") for layer in layers for name in layer.split("|")]
    assert [name for name in names if f"`{name}`" not in page] == []


def test_no_sentence_ends_in_mid_line() -> None:
    """A string behind an assignment that lacks its parentheses is a statement that does nothing."""
    lost = [
        f"{path.relative_to(PACKAGE)}:{later.lineno}"
        for path in source.modules()
        for node in ast.walk(source.tree(path))
        if isinstance(node, ast.FunctionDef | ast.If | ast.For | ast.With)
        for later in [*node.body[1:], *getattr(node, "orelse", ())]
        if isinstance(later, ast.Expr) and isinstance(later.value, ast.Constant | ast.JoinedStr)
    ]
    assert lost == []


@pytest.mark.parametrize("library", ["lark", "plotly"])
def test_dependencies_are_used_at_run_time(library: str) -> None:
    assert any(library in _imports(path) for path in source.modules())


def test_types_are_shipped_and_ci_installs_what_the_project_names() -> None:
    assert (PACKAGE / "py.typed").is_file()
    ci = (ROOT / ".ci/run").read_text("utf-8")
    assert "pip install --quiet -e '.[dev,docs,mcp]'" in ci
    assert not re.search(r"pip install[^\n]*\b(?:ruff|mypy|import-linter)\b", ci)
