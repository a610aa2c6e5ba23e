"""GPU by NIC: how far each NIC is from each GPU, and which connections use it."""

from __future__ import annotations

from nccl_insight.report.figures.nics import nic_use
from nccl_insight.views.nics import GpuNics, Use
from tests import render_samples as samples

ANALYSIS, _ = samples.healthy()


def said(**more: object) -> str:
    given = {
        "gpus": (0, 1), "nics": (0, 1), "names": {}, "distance": {}, "connections": {(0, 0): 2, (1, 1): 3}, "uses": (),
        "hosts": 2, "alike": 2, "odd_hosts": (),
    }  # fmt: skip
    return nic_use(ANALYSIS, GpuNics(**{**given, **more})).summary  # type: ignore[arg-type]


def test_how_gpus_share_their_nics_is_told() -> None:
    assert said().startswith(
        "2 NICs carry the connections of 2 GPUs per node; one NIC per GPU; both nodes use their NICs alike"
    )
    assert "1 NIC carries the connections of 2 GPUs per node; NIC 0 serves 2 GPUs" in said(
        connections={(0, 0): 1, (1, 0): 1}
    )
    assert "several NICs per GPU" in said(connections={(0, 0): 1, (0, 1): 1})
    assert "2 of 3 nodes use their NICs alike, different are c" in said(hosts=3, odd_hosts=("c",))


def test_how_far_they_are_is_told_where_it_is_known() -> None:
    assert "how far the NICs are from the GPUs is not in the inputs" in said()
    near = {(0, 0): "PIX", (1, 1): "PXB", (0, 1): "SYS"}
    assert said(distance=near).endswith("no pair in use goes through the CPU.")
    assert said(distance={**near, (1, 1): "NODE"}).endswith("1 pair of GPU and NIC in use go through the CPU.")
    assert said(distance=near, connections={}) == "no connection is in the inputs; the color is the distance."


def test_uses_are_rows_with_their_distance() -> None:
    use = Use(None, 5, 1, 0, 7)
    figure = nic_use(ANALYSIS, GpuNics((1,), (0,), {0: "mlx5_0"}, {(1, 0): "PHB"}, {(1, 0): 7}, (use,), 1, 1, ()))
    assert figure.table.rows == (("unknown", "5", "1", "0", "PHB", "7"),)
    assert "mlx5_0" in figure.svg
