"""The manual page, the single file for machines without network, the bill of materials, the container."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

from tests import source

ROOT = Path(__file__).parents[1]


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tools_{name}", ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def made_up_site(folder: Path) -> Path:
    package = folder / "nccl_insight"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("import sys, helper\nprint(helper.NAME, sys.argv[1:])\nraise SystemExit(7)\n")
    (folder / "helper.py").write_text("NAME = 'found'\n")
    (folder / "bin").mkdir()
    (folder / "bin" / "x").write_text("left out")
    return folder


def test_the_single_file_unpacks_once_and_runs(tmp_path: Path) -> None:
    onefile = tool("onefile")
    target = tmp_path / "tool.pyz"
    digest = onefile.build(made_up_site(tmp_path / "site"), target)
    onefile.build(tmp_path / "site", tmp_path / "again.pyz")
    assert target.read_bytes() == (tmp_path / "again.pyz").read_bytes()
    environ = {**os.environ, "NCCL_INSIGHT_CACHE": str(tmp_path / "cache")}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(target), "analyze", "x y"], capture_output=True, text=True, env=environ, check=False
        )
        assert (done.returncode, done.stdout) == (7, "found ['analyze', 'x y']\n"), done.stderr
    assert sorted(p.name for p in (tmp_path / "cache").iterdir()) == [digest]
    assert not list((tmp_path / "cache").rglob("bin"))


def test_the_single_file_where_it_cannot_unpack(tmp_path: Path) -> None:
    onefile = tool("onefile")
    onefile.build(made_up_site(tmp_path / "site"), tmp_path / "tool.pyz")
    (tmp_path / "file").write_text("")
    environ = {**os.environ, "NCCL_INSIGHT_CACHE": str(tmp_path / "file" / "cache")}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "tool.pyz")], capture_output=True, text=True, env=environ, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("nccl-insight: cannot unpack into")
    assert done.stderr.count("\n") == 1


def test_the_bill_of_materials() -> None:
    """Of the test runner, which is always installed: all it needs, each once, with version and license."""
    found = tool("sbom").document("pytest")
    names = [c["name"] for c in found["components"]]
    assert found["metadata"]["component"]["name"] == "pytest"
    assert {"pluggy", "iniconfig", "packaging"} <= set(names)
    assert "hypothesis" not in names  # an extra
    assert len(names) == len(set(names))
    assert all(c["version"] == metadata.version(c["name"]) for c in found["components"])
    assert found["metadata"]["component"]["licenses"] == [{"license": {"id": "MIT"}}]
    refs = {c["bom-ref"] for c in [*found["components"], found["metadata"]["component"]]}
    assert {d["ref"] for d in found["dependencies"]} == refs
    assert all(set(d["dependsOn"]) <= refs for d in found["dependencies"])


def test_the_container_copies_what_is_there_and_runs_without_rights() -> None:
    text = (ROOT / "Containerfile").read_text()
    for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.M):
        for copied in line.split()[:-1]:
            assert (ROOT / copied).exists()
    last = text.rpartition("FROM ")[2]
    assert re.search(r"^USER (?!root)", last, re.M)
    assert 'ENTRYPOINT ["nccl-insight"]' in last


def test_sources_are_of_the_oldest_python() -> None:
    """The syntax of Python 3.10; mypy checks the library's names against it."""
    for path in source.modules():
        assert source.tree(path).body or path.name == "__init__.py", path


def test_changed_checks_are_noticed_by_their_examples() -> None:
    mutants = tool("mutants")
    tried, left = mutants.survivors(mutants.modules()["NI104"], mutants.rules()["NI104"], 12)
    assert tried == 12
    assert len(left) < tried


def test_workflows_name_actions_by_digest() -> None:
    workflows = sorted((Path(__file__).parents[1] / ".github" / "workflows").glob("*.yml"))
    used = [found for path in workflows for found in re.findall(r"uses: (\S+)", path.read_text("utf-8"))]
    assert used
    assert [name for name in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name)] == []
