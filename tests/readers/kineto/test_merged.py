"""Traces of several ranks in one file: each event goes to its rank, whatever the script that merged them wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import nccl_insight
from nccl_insight.readers.kineto.merged import is_merged, label_of, ranks_of
from tests.job_maker import Layout, training

Content = dict[str, Any]
SLOW = 2


def _labelled(label: Callable[[int], str]) -> Callable[[dict[int, Content]], Content]:
    """As SGLang does: a label before the process, ids of the ranks as they were, the header of the first file."""

    def merge(files: dict[int, Content]) -> Content:
        whole = {**files[0], "deviceProperties": [d for f in files.values() for d in f["deviceProperties"]]}
        whole["traceEvents"] = [
            {**e, "pid": f"{label(rank)} {e['pid']}"} for rank, f in files.items() for e in f["traceEvents"]
        ]
        return whole

    return merge


def _moved(files: dict[int, Content]) -> Content:
    """As TraceLens does: the rank among the arguments, moved numbers, no header."""
    events = []
    for rank, content in files.items():
        for event in content["traceEvents"]:
            args = {**event["args"], "rank": rank, "pid_raw": event["pid"]}
            if "correlation" in args:
                args["correlation_raw"] = args["correlation"]
                args["correlation"] += rank * 10**8
            events.append({**event, "pid": event["pid"] + rank * 10**6, "args": args})
    return {"traceEvents": events}


def _files(folder: Path) -> dict[int, Content]:
    """Four ranks of one host, one slow; every rank counts correlations from one, so they clash."""
    job = training(Layout(1, 4, 1), slow=lambda r, _s: 1.3 if r == SLOW else 1.0, overlap=True)
    files = {}
    for rank, path in enumerate(job.write(folder)):
        content = json.loads(path.read_text())
        numbers: dict[int, int] = {}
        for event in content["traceEvents"]:
            if "correlation" in event["args"]:
                old = event["args"]["correlation"]
                event["args"]["correlation"] = numbers.setdefault(old, len(numbers) + 1)
        files[rank] = content
    return files


MERGERS = {
    "tensor ranks": _labelled(lambda r: f"[TP{r:02d}]"),
    "all kinds": _labelled(lambda r: f"[TP{r:02d}-DP00-PP00-EP{r:02d}]"),
    "stages": _labelled(lambda r: f"[TP{r % 2:02d}-PP{r // 2:02d}]"),
    "words": _labelled(lambda r: f"[rank {r}]"),
    "arguments": _moved,
}


@pytest.mark.parametrize("name", MERGERS)
@pytest.mark.parametrize("indent", [None, 4])
def test_each_event_goes_to_its_rank(tmp_path: Path, name: str, indent: int | None) -> None:
    files = _files(tmp_path / "apart")
    path = tmp_path / "merged.json"
    path.write_text(json.dumps(MERGERS[name](files), indent=indent))
    run = nccl_insight.load([path])
    for rank, content in files.items():
        kernels = [e for e in content["traceEvents"] if e["cat"] == "kernel"]
        transfers = [e for e in kernels if e["name"].startswith("nccl")]
        rows = run.table("collectives").filter(pl.col("rank") == rank)
        assert rows.height == len(transfers)
        assert rows["duration_ns"].sum() == pytest.approx(1000 * sum(e["dur"] for e in transfers), abs=1000)
        computed = 1000 * sum(e["dur"] for e in kernels if e not in transfers)
        steps = run.table("steps").filter(pl.col("rank") == rank)
        assert steps["step"].to_list() == list(range(6))
        assert steps["compute_ns"].sum() == pytest.approx(computed, rel=0.001)
    info = run.table("trace_info")
    assert info["rank"].to_list() == list(files)
    assert info["bytes_read"].sum() == path.stat().st_size
    found = nccl_insight.analyze(run).findings
    assert [f.ranks for f in found if f.name == "straggler-rank"] == [(SLOW,)]


def test_labels_that_do_not_tell_the_rank_are_said(tmp_path: Path) -> None:
    path = tmp_path / "merged.json"
    path.write_text(json.dumps(_labelled(lambda r: f"[DP{r // 2:02d}-EP{r % 2:02d}]")(_files(tmp_path / "apart"))))
    run = nccl_insight.load([path])
    assert run.table("trace_info")["rank"].to_list() == [None] * 4
    said = run.table("notes").filter(pl.col("kind") == "trace-metadata-missing")["detail"].to_list()
    assert sum("holds several ranks and does not tell the rank of dp1-ep0" in text for text in said) == 1


def test_a_merged_file_that_is_cut(tmp_path: Path) -> None:
    text = json.dumps(_labelled(lambda r: f"[TP{r:02d}]")(_files(tmp_path / "apart")))
    path = tmp_path / "merged.json"
    path.write_text(text[: len(text) * 5 // 8])
    run = nccl_insight.load([path])
    assert run.table("trace_info")["rank"].to_list() == [0, 1, 2]
    assert run.table("notes")["kind"].to_list().count("trace-truncated") == 1


def test_traces_of_one_rank_are_not_merged_ones(tmp_path: Path) -> None:
    files = _files(tmp_path / "apart")
    files[0]["traceEvents"].append({"ph": "X", "cat": "user_annotation", "name": "mine", "args": {"rank": 7}})
    for name in ("Spans", "PyTorch Profiler (0)", "", "TP00"):
        files[0]["traceEvents"].append({"ph": "M", "name": "process_name", "pid": name, "args": {"name": "x"}})
    assert not is_merged(json.dumps(files[0]).encode())


@pytest.mark.parametrize(
    ("process", "label"),
    [
        ("[TP03] 0", (("tp", 3),)),
        ("[TP01-DP02] 77", (("tp", 1), ("dp", 2))),
        ("[TP00 123]", (("tp", 0),)),
        ("[rank 3] Spans", (("rank", 3),)),
        ("rank12_Spans", (("rank", 12),)),
        ("[Unknown] 3", ()),
        ("Spans", ()),
    ],
)
def test_labels(process: str, label: tuple[tuple[str, int], ...]) -> None:
    assert label_of(process) == label


def test_the_rank_of_a_label() -> None:
    stages = [(("tp", t), ("pp", p)) for p in range(2) for t in range(4)]
    assert list(ranks_of(stages).values()) == list(range(8))
    assert ranks_of([(("dp", 0), ("ep", 0)), (("dp", 0), ("ep", 1)), (("dp", 1), ("ep", 0))]) == {}
