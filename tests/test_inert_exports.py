# ruff: noqa: E501
"""Hostile text in exports: no formula, no link, no terminal control."""

from __future__ import annotations

import csv
import dataclasses
import io
import json

import polars as pl
import pytest

import nccl_insight
from nccl_insight.base.model import Severity
from nccl_insight.cli.frames import show_frame
from nccl_insight.report import sarif
from nccl_insight.report.timeline import chrome_json
from nccl_insight.tables.run import build_run
from nccl_insight.views.events import events as events_of
from tests.hostile import PAYLOADS
from tests.runs import TINY_SHM

FORMULAS = (
    "=1+1", "+1+1", "@SUM(A1)", "-2+3+cmd|' /C calc'!A0", "-cmd", "\t=1+1", "\r=1+1", "\n=1+1", "＝1+1", "-1E5=x", '=HYPERLINK("http://x")',
)  # fmt: skip


@pytest.mark.parametrize("text", FORMULAS)
def test_a_spreadsheet_runs_nothing(text: str) -> None:
    shown = show_frame(pl.DataFrame({"value": [text], "list": [[text]]}), "csv")
    (row,) = list(csv.reader(io.StringIO(shown)))[1:]
    assert row[0] == "'" + text
    assert row[1].startswith("[")


@pytest.mark.parametrize("text", ["-5", "-0.25", "a=1", "mlx5_0:1", "", "-"])
def test_numbers_and_words_stay(text: str) -> None:
    shown = show_frame(pl.DataFrame({"value": [text], "n": [1]}), "csv")
    assert next(iter(list(csv.reader(io.StringIO(shown)))[1:]))[0] == text


def test_sarif_has_no_link_of_a_log() -> None:
    text = "[click](javascript:alert(1)) \x1b[31m\u202e " + PAYLOADS[0]
    result = sarif.Result("NI201", Severity.ERROR, [text, text], [("//evil.example/x.log", 3), ("javascript:x", 0)])
    found = json.loads(sarif.document("t", [result], {"NI201": "x"}, {"NI201": text}))
    (run,) = found["runs"]
    said = run["results"][0]["message"]["text"] + run["tool"]["driver"]["rules"][0]["shortDescription"]["text"]
    assert "](" not in said
    uris = [at["physicalLocation"]["artifactLocation"]["uri"] for at in run["results"][0]["locations"]]
    assert uris == ["/evil.example/x.log", "javascript%3Ax"]


def test_sarif_of_hostile_findings_has_no_control() -> None:
    analysis = nccl_insight.analyze(nccl_insight.load(TINY_SHM))
    bad = tuple(dataclasses.replace(f, title="\x1b[31m[a](b) \u202e", explanation="[a](b)") for f in analysis.findings)
    shown = sarif.render(dataclasses.replace(analysis, findings=bad))
    assert "](" not in shown
    assert "\\u001b" not in shown
    assert "\u202e" not in shown


def test_the_timeline_shows_names_without_control() -> None:
    name = "\x1b]0;pwned\x07" + "\u202e<script>" + "x" * 5000
    rows = pl.DataFrame(
        {"rank": [0], "start_ns": [5], "duration_ns": [7], "op": ["AllReduce"], "process_group": [name], "device": [0], "stream": [7]}
    )  # fmt: skip
    data = chrome_json(events_of(build_run({"collectives": rows})))
    (event,) = [e for e in json.loads(data)["traceEvents"] if e["ph"] == "X"]
    shown = event["args"]["process_group"]
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert len(shown) < 300
