"""Two runs that differ in what a test says, and their analyses."""

from __future__ import annotations

import polars as pl

from nccl_insight.base.model import (
    Action,
    Analysis,
    Confidence,
    Coverage,
    Finding,
    FindingClass,
    Job,
    Role,
    Severity,
    ToolInfo,
)
from nccl_insight.engine.compare import Comparison, compare
from nccl_insight.tables.run import Run, build_run


def finding(name: str, severity: Severity, title: str = "title") -> Finding:
    return Finding(
        "NI999", name, FindingClass.PERFORMANCE, severity, Confidence.HIGH, Action.CONFIG, title, "", "do", "", "", "",
        (), (), None, Role.INDEPENDENT, None, (), (), "f",
    )  # fmt: skip


def analysis(*findings: Finding) -> Analysis:
    return Analysis("findings", findings, Job(), Coverage(), (), ToolInfo("t", "0", 1, "x"))


def _run(env: dict[str, str] | None = None, total_s: float = 1.0, version: str = "2.21.5", host: str = "a") -> Run:
    settings = env or {}
    return build_run(
        {
            "inputs": pl.DataFrame({"input_id": [0], "path": ["run.log"]}),
            "processes": pl.DataFrame(
                {"host": [host], "pid": [1], "nccl_version": [version], "network": ["IB"], "input_id": [0], "line": [1]}
            ),
            "ranks": pl.DataFrame({"comm_id": ["c"], "rank": [0], "host": [host], "pid": [1], "nranks": [1]}),
            "env": pl.DataFrame(
                {
                    "host": [host] * len(settings),
                    "pid": [1] * len(settings),
                    "name": list(settings),
                    "value": list(settings.values()),
                    "origin": ["environment"] * len(settings),
                    "input_id": [0] * len(settings),
                    "line": list(range(5, 5 + len(settings))),
                },
                schema_overrides={"name": pl.String, "value": pl.String, "host": pl.String},
            ),
            "init_timings": pl.DataFrame(
                {"comm_id": ["c"], "rank": [0], "total_s": [total_s], "input_id": [0], "line": [9]}
            ),
        }
    )


def _compare(good: Run, bad: Run, before: tuple[Finding, ...] = (), after: tuple[Finding, ...] = ()) -> Comparison:
    return compare(good, bad, analysis(*before), analysis(*after))
