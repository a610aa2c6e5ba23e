# ruff: noqa: E501
"""Tables that put ranks side by side, and the timeline as Chrome JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import polars as pl

import nccl_insight
from nccl_insight.base.model import Mend, Replayed
from nccl_insight.report.explain_log import sections
from nccl_insight.report.timeline import chrome_json
from nccl_insight.tables.run import build_run
from nccl_insight.views.events import events as events_of
from nccl_insight.views.log import log
from tests.cli import run_cli
from tests.report.two_ranks import two_ranks
from tests.runs import TINY_SHM
from tests.trace_maker import all_reduce, job, trace, write

# "Trace Event Format" of the Chromium project: what viewers need of metadata, complete and flow events.
_NUMBER = {"type": "number"}
_WHERE = {"pid": {"type": "integer"}, "tid": {"type": "integer"}, "name": {"type": "string"}}
SCHEMA = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "traceEvents": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["ph", "pid", "tid", "name"],
                "properties": _WHERE,
                "oneOf": [
                    {
                        "properties": {"ph": {"const": "X"}, "ts": _NUMBER, "dur": {"type": "number", "minimum": 0}},
                        "required": ["ts", "dur", "cat"],
                    },
                    {"properties": {"ph": {"const": "M"}, "args": {"type": "object"}}, "required": ["args"]},
                    {"properties": {"ph": {"enum": ["s", "f"]}, "ts": _NUMBER}, "required": ["ts", "id", "cat"]},
                ],
            },
        },
    },
}


def test_ranks_side_by_side(tmp_path: Path) -> None:
    run = nccl_insight.load(two_ranks(tmp_path))
    waits = run.table("waits")
    assert waits.select("rank", "wait_ns", "times_last", "times_first").rows() == [(0, 40_000, 0, 1), (1, 0, 1, 0)]
    (row,) = run.table("collective_ranks").to_dicts()
    assert row["ranks"] == [0, 1]
    assert row["duration_ns"] == [50_000, 10_000]
    assert row["wait_ns"] == [40_000, 0]
    assert (row["transfer_ns"], row["last_rank"], row["end_spread_ns"]) == (10_000, 1, 0)
    (kind,) = run.table("collective_statistics").to_dicts()
    assert (kind["op"], kind["count"], kind["median_ns"], kind["wait_ns"]) == ("AllReduce", 1, 10_000, 20_000)


def test_arrows_lead_from_the_last_to_those_that_waited(tmp_path: Path) -> None:
    """Also where the clock of one rank is 7 s ahead: slices end together."""
    for shift in (0.0, 7e6):
        folder = tmp_path / str(shift)
        folder.mkdir()
        document = json.loads(chrome_json(events_of(nccl_insight.load(two_ranks(folder, shift)))))
        jsonschema.validate(document, SCHEMA)
        events = document["traceEvents"]
        slices = {e["pid"]: e for e in events if e.get("cat") == "collective"}
        assert {pid: e["dur"] for pid, e in slices.items()} == {0: 50.0, 1: 10.0}
        assert slices[1]["ts"] - slices[0]["ts"] == 40.0
        arrow = [(e["ph"], e["pid"], e["ts"] - slices[0]["ts"]) for e in events if e["ph"] in "sf"]
        assert arrow == [("s", 1, 40.0), ("f", 0, 40.0)]
        assert {e["name"] for e in events if e.get("cat") == "step"} == {"step 4"}


def test_the_command_writes_a_timeline(tmp_path: Path) -> None:
    paths = job(tmp_path, ranks=2, iterations=5)
    target = tmp_path / "timeline.json"
    run_cli("analyze", *paths, "--timeline", target, "-qq")
    document = json.loads(target.read_text())
    jsonschema.validate(document, SCHEMA)
    assert sum(e.get("cat") == "collective" for e in document["traceEvents"]) == 10


def test_the_command_says_that_a_timeline_is_empty_and_hides_names(tmp_path: Path) -> None:
    target = tmp_path / "timeline.json"
    assert "no collective of these inputs has times" in run_cli("analyze", TINY_SHM, "--timeline", target, "-qq").stderr
    given = job(tmp_path, ranks=2, iterations=1)
    for path in given:
        path.write_text(path.read_text().replace('"Process Group Name": "0"', '"Process Group Name": "zqorion7-pp"'))
    for hide in ((), ("--redact", "strict")):
        run_cli("analyze", *given, "--timeline", target, "-qq", *hide)
        assert ("zqorion7" in target.read_text()) == (not hide)


def test_a_run_without_traces_has_an_empty_timeline() -> None:
    assert json.loads(chrome_json(events_of(build_run({"inputs": pl.DataFrame()}))))["traceEvents"] == []


def test_traces_in_words(tmp_path: Path) -> None:
    shown = run_cli("explain-log", *two_ranks(tmp_path)).stdout
    assert "The traces cannot be replayed: the traces hold next to no compute" in shown
    assert "- 1 AllReduce of 256 B on 2 ranks in group 0: median 10 us" in shown
    assert "Kernels belong to steps by the CPU's span of the step" in shown


def test_what_mending_would_gain_in_words() -> None:
    """Of 25.55 ms in five steps the first mend saves 4 ms, the second one more of its own 1.5 ms."""
    mends = (
        Mend("rank 1 like its peers", "rank", (1,), None, (), 4_310_000, 4_000_000, 0.157, 4_000_000),
        Mend("transfers of ranks 2, 3 like those of other groups", "group", (2, 3), None, (), 4_110_000, 5_000_000, 0.196, 1_500_000),
    )  # fmt: skip
    replayed = Replayed(0.001, ranks=4, steps=5, window_ns=25_550_000, ideal_ns=None, refused="")
    told = sections(replace(log(build_run({"inputs": pl.DataFrame()})), mends=mends, replay=replayed))
    assert told["What mending would gain"] == [
        "As recorded a step takes 5.11 ms; mended one after the other:",
        "1. rank 1 like its peers: 4.31 ms (16% less, alone 16%)",
        "2. transfers of ranks 2, 3 like those of other groups: 4.11 ms (20% less, alone 6%)",
    ]


def test_the_critical_path_goes_through_the_last_rank(tmp_path: Path) -> None:
    """Rank 0 waits in the first operation, rank 1 in the second: the path is the work of who came last to each."""
    paths = []
    for rank, spans in enumerate([((100.0, 50.0), (200.0, 30.0)), ((140.0, 10.0), (180.0, 50.0))]):
        made = [all_reduce(at, took, 64, [0, 1], seq=n) for n, (at, took) in enumerate(spans, 1)]
        paths.append(write(tmp_path / f"r{rank}.json", trace(rank, 2, made)))
    document = json.loads(chrome_json(events_of(nccl_insight.load(paths))))
    legs = [e for e in document["traceEvents"] if e.get("cat") == "critical path"]
    assert [(e["name"], e["dur"]) for e in legs] == [
        ("rank 1: AllReduce", 10.0), ("rank 0: own work", 50.0), ("rank 0: AllReduce", 30.0),
    ]  # fmt: skip
    assert {e["pid"] for e in legs} == {2}
    jsonschema.validate(document, SCHEMA)


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
