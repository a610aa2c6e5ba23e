"""Trees of the largest communicator, between ranks and between nodes."""

from __future__ import annotations

from nccl_insight.views.trees import trees
from tests.by_hand import run

RANKS = [
    {"comm_id": "c", "nranks": 4, "rank": r, "host": h, "pid": r, "input_id": 0, "line": r}
    for r, h in enumerate("aabb")
]


def node(rank: int, parent: int | None, *children: int, channel: int = 0) -> dict[str, object]:
    tree = {"comm_id": "c", "input_id": 0, "channel": channel, "tree": 0}
    return {**tree, "rank": rank, "parent_rank": parent, "child_ranks": list(children)}


def test_a_tree_has_depth_children_and_hops_between_nodes() -> None:
    rows = [node(0, None, 1, 2), node(1, 0), node(2, 0, 3), node(3, 2)]
    found = trees(run(ranks=RANKS, trees=[*rows, *({**row, "channel": 1} for row in rows)]))
    assert found is not None
    assert [(t.channel, t.roots, t.depth, t.children, t.crossings) for t in found.trees] == [
        (0, (0,), 2, 2, 1), (1, (0,), 2, 2, 1),
    ]  # fmt: skip
    (folded,) = found.classes
    assert (folded.channels, folded.parents, folded.ranks) == ((0, 1), {0: None, 1: 0}, {0: (0, 1), 1: (2, 3)})
    assert (folded.hosts, found.nodes) == (("a", "b"), 2)


def test_what_the_log_lacks_and_what_is_damaged_ends_nothing() -> None:
    torn = trees(run(ranks=RANKS, trees=[node(0, None), node(2, None, 3)]))
    assert torn is not None
    assert torn.trees[0].roots == (0, 2)
    circle = trees(run(ranks=RANKS, trees=[node(0, 1), node(1, 0)]))
    assert circle is not None
    assert circle.trees[0].roots == ()
    assert trees(run(ranks=RANKS)) is None


def test_on_one_node_ranks_stand_for_themselves() -> None:
    found = trees(run(ranks=RANKS[:2], trees=[node(0, None, 1), node(1, 0)]))
    assert found is not None
    assert (found.classes[0].parents, found.classes[0].hosts) == ({0: None, 1: 0}, None)
