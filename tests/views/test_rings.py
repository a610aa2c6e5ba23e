"""Rings of the largest communicator as the nodes see them."""

from __future__ import annotations

from nccl_insight.views.rings import ring_orders
from tests.drawings import figures, ring_run, words


def test_a_cut_order_is_never_drawn_as_a_ring() -> None:
    (ring,) = ring_orders(ring_run(12))
    assert not ring.whole
    assert (11, 0) not in ring.hops()
    figure = figures(ring_run(12))["rings"]
    assert "the log cuts each order after 12 ranks" in figure.summary
    assert "crosses between nodes" not in figure.summary
    assert "cut in the log" in words(figure)
    assert "back to the first node" not in words(figure)
    assert figure.table.rows[0][1] == "12 of 16"
    assert figure.table.rows[0][4].endswith("(cut in the log)")
