"""Trees between nodes: the chain of ranks inside a node is one box."""

from __future__ import annotations

from xml.etree import ElementTree

from nccl_insight.report.figures.trees import trees
from nccl_insight.views.trees import Folded, Tree, Trees
from tests import render_samples as samples
from tests.report.figures.svg import words

ANALYSIS, _ = samples.healthy()
PAIR = Folded((0, 1), {0: None, 1: 0}, {0: 0, 1: 1}, {0: (0, 1), 1: (2, 3, 4, 5)}, ("a", "b"))


def test_trees_are_counted_by_kind() -> None:
    tree = Tree(0, 0, (0,), 2, 2, 1)
    one = trees(ANALYSIS, Trees((tree,), (PAIR,), 2))
    assert one.summary == "1 tree; depth 2, at most 2 children per rank."
    alike = trees(ANALYSIS, Trees((tree, Tree(1, 0, (0,), 3, 1, 1)), (PAIR,), 2))
    assert alike.summary == "2 trees, all alike between the nodes; depth 3, at most 2 children per rank."
    torn = trees(ANALYSIS, Trees((Tree(0, 0, (0, 4), 1, 1, 0),), (PAIR,), 1))
    assert torn.summary.endswith("1 tree with several roots, because the log lacks ranks.")
    assert torn.table.rows == (("0", "0", "0, 4", "1", "1", "0"),)


def test_a_node_is_a_box_with_its_chain_of_ranks() -> None:
    figure = trees(ANALYSIS, Trees((Tree(0, 0, (0,), 2, 2, 1),), (PAIR,), 2))
    said = words(ElementTree.fromstring(figure.svg))
    assert "channels 0-1 (root on top)" in said
    assert {"a", "b", "0 > 1", "2 > ... > 5"} <= set(said)
