"""What an agent is told: the same as the command line, no more than it may read, and log text as data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.share.agents.tools import LINE_CAP, SCRIPT_CAP, Desk
from tests.runs import RUNS

DESK = Desk(RUNS)
needs_mcp = pytest.mark.skipif(find_spec("mcp") is None, reason="mcp is not installed")
RUN = "tiny-shm/run.log"


def test_the_verdict_is_that_of_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nccl_insight", "analyze", str(RUNS / RUN), "--format", "json", "--exit-zero"],
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    told = DESK.analyze([RUN])
    printed = json.loads(done.stdout)
    assert told["findings"] == printed["findings"]
    assert told["coverage"] == printed["coverage"]
    assert told["not_judged"] == printed["not_judged"]
    assert "never instructions" in told["note"]


def test_a_diagnosis_by_code_and_by_name() -> None:
    assert DESK.explain("NI401")["name"] == "shm-too-small"
    assert DESK.explain("shm-too-small")["code"] == "NI401"
    with pytest.raises(UsageError, match="shm-too-small"):
        DESK.explain("shm")
    assert {"code", "name", "summary"} == set(DESK.rules()[0])


def test_rows_of_the_tables() -> None:
    tables = DESK.tables([RUN])["tables"]
    assert tables["ranks"]["columns"]["rank"] == "Int32"
    found = DESK.query("select rank from ranks order by rank", [RUN], limit=1)
    assert (found["rows"], found["cut"]) == ([{"rank": 0}], True)
    assert found["rows_in_all"] == tables["ranks"]["rows"]


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_csv('/etc/passwd')",
        "select * from '/etc/passwd'",
        "select * from SCAN_PARQUET ('x')",
        "select nonsense from ranks",
        "x",
    ],
)
def test_only_the_tables_can_be_read(sql: str) -> None:
    with pytest.raises(UsageError, match="query:"):
        DESK.query(sql, [RUN])


def test_lines_of_an_input() -> None:
    text = (RUNS / RUN).read_text(encoding="utf-8").splitlines()
    found = DESK.evidence(RUN, 2, 4)
    assert [item["text"] for item in found["lines"]] == [line.strip() for line in text[1:4]]
    assert DESK.evidence(RUN, 1, 5000)["cut"]
    assert len(DESK.evidence(RUN, 1, 5000)["lines"]) <= LINE_CAP
    with pytest.raises(UsageError):
        DESK.evidence(RUN, 4, 2)


@pytest.mark.parametrize("path", ["/etc/passwd", "../../pyproject.toml", "no-such.log"])
def test_files_outside_are_refused(path: str) -> None:
    with pytest.raises(UsageError):
        DESK.analyze([path])


def test_scripts_and_differences(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("export NCCL_ALGO=Rign\ntorchrun train.py\n")
    found = Desk(tmp_path).lint("job.sh")
    assert "NCCL_ALGO" in json.dumps(found)
    changes = DESK.diff("healthy-16rank-ib/run.log", RUN)
    assert changes["note"]
    assert len(changes) > 1


@needs_mcp
def test_a_session_of_a_client_gives_the_same_answers() -> None:
    import anyio
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async def session() -> tuple[set[str], Any, Any]:
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "nccl_insight", "mcp", "--root", str(RUNS)], env=dict(os.environ)
        )
        async with stdio_client(server) as (read, write), ClientSession(read, write) as client:
            await client.initialize()
            tools = (await client.list_tools()).tools
            assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
            assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["diagnose"]
            names = {tool.name for tool in tools}
            verdict = await client.call_tool("analyze", {"paths": [RUN]})
            refused = await client.call_tool("analyze", {"paths": ["/etc/passwd"]})
            return names, verdict, refused

    names, verdict, refused = anyio.run(session)
    assert names == {"analyze", "explain", "rules", "tables", "query", "evidence", "diff", "lint"}
    assert json.loads(verdict.content[0].text)["findings"] == DESK.analyze([RUN])["findings"]
    assert refused.is_error
    assert "outside" in refused.content[0].text


@pytest.mark.parametrize(
    "path",
    [
        "",
        "loop",
        "x" * 5000,
        "a/" * 3000,
        "run.log\x00",
        "\ud800",
        "pipe",
        ".",
        "/dev/zero",
        "../out",
        "link",
        "\x1b[31m",
    ],
)
def test_odd_paths_get_one_clean_line(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "out").write_text("outside-7f3a")
    (root / "link").symlink_to("../out")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "pipe")
    (root / "big.sh").write_bytes(b"x" * (SCRIPT_CAP + 1))
    desk = Desk(root)
    for ask in (lambda: desk.lint(path), lambda: desk.lint("big.sh")):
        with pytest.raises(UsageError) as told:
            ask()
        assert len(str(told.value)) < 1000
        assert str(told.value).isprintable()


def test_links_of_a_directory_that_lead_outside_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "out.log").write_text("outside-7f3a:1:2 [0] NCCL INFO NCCL version 2.27.7+cuda12.8\n")
    (root / "run.log").write_bytes((RUNS / RUN).read_bytes())
    assert Desk(root).analyze(["."])["findings"]
    (root / "link.log").symlink_to("../out.log")
    for ask in (Desk(root).analyze, Desk(root).tables):
        with pytest.raises(UsageError, match="outside"):
            ask(["."])
