"""The card: one picture with verdict, cause, what happened and what to do, safe whatever the log says."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from xml.etree import ElementTree

import pytest

import nccl_insight
from nccl_insight.base.model import Analysis
from nccl_insight.report import card
from nccl_insight.report.figures.base import Figure
from tests import render_samples as samples
from tests.cli import run_cli
from tests.hostile import PAYLOADS
from tests.runs import HEALTHY, TINY_SHM

_NS = "{http://www.w3.org/2000/svg}"


def _words(text: str) -> list[str]:
    return [e.text or "" for e in ElementTree.fromstring(text).iter(f"{_NS}text")]


@pytest.fixture(scope="module")
def failed() -> Analysis:
    return nccl_insight.analyze(TINY_SHM)


def test_a_card_says_verdict_cause_line_order_and_step(failed: Analysis) -> None:
    said = _words(card.render(failed))
    assert said[0] == "FAIL"
    assert any("4 ranks on 1 node" in w for w in said)
    assert "/dev/shm is too small on node00" in " ".join(said)
    assert any(w.endswith(":114") for w in said)
    assert {"cause", "end"} <= set(said)
    assert any(w.startswith("df -h /dev/shm") for w in said)


def test_a_narrow_figure_stands_beside_the_words_and_a_wide_one_only_without_a_story(failed: Analysis) -> None:
    figure = Figure("f", "F", "said", svg='<svg class="draw" width="300" height="90" viewBox="0 0 300 90"></svg>')
    assert 'viewBox="0 0 300 90"' in card.render(failed, figure)
    wide = dataclasses.replace(figure, wide=True)
    assert 'viewBox="0 0 300 90"' not in card.render(failed, wide)
    assert 'viewBox="0 0 300 90"' in card.render(dataclasses.replace(failed, story=()), wide)


@pytest.mark.parametrize("name", sorted(samples.ALL))
def test_nothing_is_written_beyond_the_edge(name: str) -> None:
    analysis, _ = samples.ALL[name]()
    root = ElementTree.fromstring(card.render(analysis))
    assert (root.attrib["width"], root.attrib["height"]) == ("1200", "630")
    for text in root.iter(f"{_NS}text"):
        x, size = float(text.attrib["x"]), float(text.attrib["font-size"])
        wide = len(text.text or "") * size * 0.6
        assert (x if text.attrib.get("text-anchor") == "end" else x + wide) <= 1200
        assert float(text.attrib["y"]) < 630


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_hostile_text_stays_text(failed: Analysis, payload: str) -> None:
    first = dataclasses.replace(failed.findings[0], title=payload, next_step=payload)
    moments = tuple(dataclasses.replace(m, text=payload) for m in failed.story)
    hostile = dataclasses.replace(failed, headline=payload, findings=(first,), story=moments)
    root = ElementTree.fromstring(card.render(hostile))
    assert {e.tag.removeprefix(_NS) for e in root.iter()} <= {"svg", "style", "rect", "text", "path", "circle"}


def test_the_command_line_writes_it_by_its_suffix(tmp_path: Path) -> None:
    done = run_cli("analyze", TINY_SHM, "-o", tmp_path / "card.svg", "--redact", "--format", "chat")
    text = (tmp_path / "card.svg").read_text()
    assert done.returncode in (0, 1)
    assert "node00" not in text
    assert _words(text)[0] == "FAIL"


def test_a_healthy_job_has_a_card() -> None:
    assert _words(card.render(nccl_insight.analyze(HEALTHY)))[0] == "OK"
