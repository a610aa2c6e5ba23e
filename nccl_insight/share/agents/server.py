"""The MCP server: the questions of :class:`Desk` as tools on standard input and output."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from nccl_insight.base import toml
from nccl_insight.base.errors import InsightError, UsageError
from nccl_insight.report.sanitize import one_line
from nccl_insight.share.agents.tools import TEXT_CAP, Desk

ANSWER_CAP: Final = 1_000_000
PROMPT: Final[str] = toml.beside(__file__)["prompt"]
INSTRUCTIONS: Final[str] = toml.beside(__file__)["instructions"]


def serve(root: Path) -> None:
    """Serves until the input ends. Raises UsageError: the MCP library is not installed, or the root is no directory."""
    if not root.is_dir():
        raise UsageError(f"--root {root}: no such directory")
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp.types import ToolAnnotations
    except ImportError as error:
        raise UsageError("mcp needs the MCP library: pip install 'nccl-insight[mcp]'") from error
    server = MCPServer("nccl-insight", instructions=INSTRUCTIONS)
    desk = Desk(root)

    def analyze(paths: list[str]) -> dict[str, Any]:
        """Verdict on the logs and traces of one job: findings with evidence, cause, next step; coverage; not judged."""
        return answer(lambda: desk.analyze(paths), ToolError)

    def explain(name: str) -> dict[str, Any]:
        """What a diagnosis means, by code (NI401) or name (shm-too-small)."""
        return answer(lambda: desk.explain(name), ToolError)

    def rules() -> dict[str, Any]:
        """All diagnoses: code, name, summary."""
        return answer(lambda: {"rules": desk.rules()}, ToolError)

    def tables(paths: list[str]) -> dict[str, Any]:
        """The tables of a run that have rows, with their columns and types: what query can select from."""
        return answer(lambda: desk.tables(paths), ToolError)

    def query(sql: str, paths: list[str], limit: int = 100) -> dict[str, Any]:
        """Rows of a SELECT over the tables of a run (at most 500). See tables for names and columns."""
        return answer(lambda: desk.query(sql, paths, limit), ToolError)

    def evidence(path: str, first: int, last: int) -> dict[str, Any]:
        """Lines first..last (from 1, at most 200) of one input file, e.g. around the evidence of a finding."""
        return answer(lambda: desk.evidence(path, first, last), ToolError)

    def diff(good: str, bad: str) -> dict[str, Any]:
        """What changed between a good and a bad run: settings, versions, transports, findings."""
        return answer(lambda: desk.diff(good, bad), ToolError)

    def lint(path: str) -> dict[str, Any]:
        """NCCL settings of a launch script, checked without running it."""
        return answer(lambda: desk.lint(path), ToolError)

    def diagnose(paths: str) -> str:
        """What to ask, in order, about a job that is slow, hangs or died."""
        return PROMPT.format(paths=one_line(paths, TEXT_CAP))

    reads = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
    for tool in (analyze, explain, rules, tables, query, evidence, diff, lint):
        server.tool(annotations=reads)(tool)
    server.prompt()(diagnose)
    server.run("stdio")


def answer(ask: Callable[[], dict[str, Any]], refused: type[Exception]) -> dict[str, Any]:
    """The answer. A wrong question is no fault of the server, but an error with one clean line.

    Raises refused: why there is no answer.
    """
    try:
        found = ask()
    except InsightError as error:
        raise refused(one_line(str(error), TEXT_CAP)) from error
    size = len(json.dumps(found, default=str))
    if size > ANSWER_CAP:
        raise refused(f"the answer has {size:,} characters, more than {ANSWER_CAP:,}: ask for less (query, evidence)")
    return found
