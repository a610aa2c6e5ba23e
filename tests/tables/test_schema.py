"""Every table has a schema: columns that no input filled are there and null, unknown names are errors."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

import nccl_insight
from nccl_insight.tables import schema
from nccl_insight.tables.run import Run, build_run
from tools import columns as tool

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "nccl_insight"
ABOVE = ("facts", "rules", "engine", "report", "share/replay", "share/agents", "live", "cli")
CHECK = re.compile(r"\bin \w[\w.]*(\([^()]*\))?\.columns\b|\bset\(\w[\w.]*\.columns\)|\bhas_column\b")
# A loop over the columns of a result is no question whether one is there.
LOOP = re.compile(r"\bfor \w+ in \w[\w.]*\.columns\b")


def test_derived_columns_are_kept() -> None:
    assert tool.FILE.read_text("utf-8") == tool.text(), "run: python tools/columns.py"
    assert tool.DOCUMENT.read_text("utf-8") == tool.document(tool.FILE.read_text("utf-8")), (
        "run: python tools/columns.py"
    )


def test_derived_columns_are_captures() -> None:
    """The derivation against what grammar files say in plain sight."""
    found = tool.derived_columns()
    assert found["gdr"]["distance"] == pl.Int64
    assert found["thresholds"]["tree_ll128"] == pl.Int64
    assert found["paths"]["path_type"] == pl.String  # of a normaliser
    assert found["collnet"]["up_ranks"] == pl.List(pl.Int64)


@pytest.mark.parametrize("folder", ABOVE)
def test_no_column_checks_above_the_tables(folder: str) -> None:
    sources = [*(PACKAGE / folder).rglob("*.py"), *PACKAGE.glob(f"{folder}.py")]
    assert sources
    found = [
        f"{path.relative_to(PACKAGE)}:{number}: {line.strip()}"
        for path in sources
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if CHECK.search(LOOP.sub("", line))
    ]
    assert not found, f"every column is there, null where nothing filled it: {found}"


def test_the_pattern_of_a_column_check() -> None:
    for text in (
        'if "x" in frame.columns:',
        'if "x" not in run.table("gdr").columns:',
        '{"a", "b"} <= set(rows.columns)',
        "[c for c in names if c in self.rows.columns]",
    ):
        assert CHECK.search(LOOP.sub("", text)), text
    assert not CHECK.search(LOOP.sub("", "for name in frame.columns:"))


def _complete(run: Run) -> None:
    for name in run.tables:
        frame = run.table(name)
        assert dict(frame.schema) == {c: t() if isinstance(t, type) else t for c, t in schema.SCHEMA[name].items()}, (
            name
        )


@pytest.mark.parametrize("run", sorted(p.parent.name for p in (ROOT / "fixtures/runs").glob("*/run.log")))
def test_tables_of_logs_are_complete(run: str) -> None:
    _complete(nccl_insight.load(ROOT / "fixtures/runs" / run / "run.log"))


def test_tables_of_traces_are_complete(tmp_path: Path) -> None:
    paths = sorted((ROOT / "fixtures/traces/gloo_late_rank2").glob("*.json*"))
    assert paths
    _complete(nccl_insight.load(paths))
    _complete(nccl_insight.load(ROOT / "fixtures/traces/nsys_2022_4.sqlite.gz"))
    record = {"nccl_insight_capture": 1, "kind": "head"}
    (tmp_path / "capture.ndjson").write_text(json.dumps(record) + '\n{"kind": "node", "node": 0, "host": "n1"}\n')
    _complete(nccl_insight.load(tmp_path / "capture.ndjson"))


def test_a_run_without_input_has_all_columns() -> None:
    run = build_run({})
    assert run.table("gdr", "gdr_state", "distance").schema == {"gdr_state": pl.String, "distance": pl.Int64}
    assert run.table("trace_info", "world_size").height == 0


def test_columns_of_extensions_stay() -> None:
    rows = pl.DataFrame({"input_id": [0], "line": [1], "temperature": [3.5]})
    run = build_run({"gdr": rows, "own_table": rows})
    assert run.table("gdr")["temperature"].to_list() == [3.5]
    assert run.table("own_table").columns == ["input_id", "line", "temperature"]


def test_tall_and_small_frames_are_completed_alike() -> None:
    rows = pl.DataFrame({"line": [1], "rank": [3], "odd": ["x"]})
    tall = pl.concat([rows] * 20_001)
    assert schema.complete("rings", tall).head(1).equals(schema.complete("rings", rows))


@pytest.mark.parametrize(
    "rows", [[{"a": 7, "b": "x"}, {"a": 2**64 - 1}, {"b": 3}], [(7, "x"), (10**60, None), (None, 3)]]
)
def test_what_a_column_cannot_hold_is_null(rows: list[dict[str, object] | tuple[object, ...]]) -> None:
    made = schema.of_rows(rows, {"a": pl.Int64, "b": pl.String})
    assert made.rows() == [(7, "x"), (None, None), (None, "3")]


def test_no_rows_are_an_empty_frame() -> None:
    assert schema.of_rows([], {"a": pl.Int64}).schema == {"a": pl.Int64}
