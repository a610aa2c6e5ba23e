"""Transports between ranks."""

from __future__ import annotations

from nccl_insight.report import html_diff
from nccl_insight.tables.run import build_run
from nccl_insight.views.matrix import differing, matrix
from nccl_insight.views.page import structure
from tests import render_samples as samples
from tests.drawings import drawn


def test_connections_that_differ_are_outlined() -> None:
    good, bad = build_run(samples.cluster_tables(2)), build_run(samples.cluster_tables(2, bad_node=1))
    changed = differing(matrix(good), matrix(bad))
    assert changed
    analysis = samples.healthy()[0]
    pairs = html_diff.side_by_side((analysis, structure(good)), (analysis, structure(bad)))
    assert [f.id for f in pairs] == ["both-node", "good-matrix", "bad-matrix"]
    outlines = [e for e in drawn(pairs[2]).iter("rect") if e.get("class") == "changed"]
    assert len(outlines) == len(changed)
    assert not [e for e in drawn(pairs[1]).iter("rect") if e.get("class") == "changed"]
