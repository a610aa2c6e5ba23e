"""Facts as tables: what ``query`` knows beside the tables."""

from __future__ import annotations

from pathlib import Path

import pytest

import nccl_insight
from nccl_insight.base.errors import UsageError
from nccl_insight.facts.relations import columns, overview, relation, relations
from nccl_insight.tables.run import Run
from tools import columns as tool

FIXTURES = Path(__file__).parents[2] / "fixtures"
HANG = FIXTURES / "triage" / "two-late-ranks-old-torch"


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    """A log of a healthy job, one of a hang, and traces."""
    kinds = (FIXTURES / "runs" / "healthy-16rank-ib" / "run.log", HANG, FIXTURES / "traces" / "gloo_late_rank2")
    return [nccl_insight.load([path]) for path in kinds]


@pytest.mark.parametrize("name", list(relations()))
def test_a_relation_has_the_columns_that_are_declared(runs: list[Run], name: str) -> None:
    for run in runs:
        assert relation(run, name).columns == list(relations()[name].columns)


def test_every_column_is_told_in_a_sentence_of_its_own() -> None:
    told = [sentence for known in relations().values() for sentence in known.columns.values()]
    assert len(relations()) >= 40
    assert [sentence for sentence in told if len(sentence.split()) < 5] == []
    own = [
        s for k in relations().values() for c, s in k.columns.items() if c not in ("input_id", "line", "host", "pid")
    ]
    assert len(set(own)) >= 0.8 * len(own)


def test_the_page_follows_the_declaration() -> None:
    assert tool.FACTS.read_text("utf-8") == tool.facts_document(), "run: python tools/columns.py"


def test_who_is_absent_can_be_asked(runs: list[Run]) -> None:
    found = nccl_insight.query(runs[1], "select ranks, source from fact_absences")
    assert found.height == 1
    assert found["ranks"].to_list() == [[3]]


def test_facts_join_tables(runs: list[Run]) -> None:
    joined = "fact_members m join communicators c on c.comm_id = m.comm_id"
    sql = f"select c.nranks, count(*) n from {joined} group by c.nranks"
    assert nccl_insight.query(runs[0], sql).rows() == [(16, 16)]


def test_names_are_listed_and_slips_are_recognized(runs: list[Run]) -> None:
    assert {"fact_absences", "connections"} <= set(overview()["table"])
    with pytest.raises(UsageError, match="did you mean fact_absences"):
        columns("fact_absence")
    with pytest.raises(UsageError, match="fact_absenses"):
        nccl_insight.query(runs[0], "select * from fact_absenses")
