"""Changed machines."""

from __future__ import annotations

import pytest

from nccl_insight.advise.expect.machine import Machine, build
from nccl_insight.advise.expect.model import parts_of
from nccl_insight.advise.expect.whatif import change
from nccl_insight.base.errors import UsageError
from tests.advise.expect.busbw import _busbw


def test_changes() -> None:
    machine = build("H100", nodes=2, nics="8x400", network="ib")
    assert change(machine, "gpus=512").nodes == 64
    assert change(machine, "nics=4x200,gdr=off").gdr is False
    assert change(machine, "gpu=MI300X").fabric == "mesh"
    assert change(machine, "network=tcp").network.name == "tcp"
    assert change(machine, "algorithm=nvlstree").algorithm == "NVLS"
    for wrong in ("gpus=13", "speed=1", "nics=8", "nvls=maybe", "nodes=0", "nodes"):
        with pytest.raises(UsageError):
            change(machine, wrong)


def test_an_algorithm_can_be_asked_for() -> None:
    def busbw(machine: Machine, algorithm: str) -> float:
        parts = parts_of(change(machine, f"algorithm={algorithm}"), "AllReduce")
        assert parts is not None
        assert parts.rate.algorithm.startswith(algorithm)
        return parts.rate.typical

    node = build("H100", nodes=1, gpus_per_node=8)
    assert busbw(node, "Tree") < busbw(node, "Ring") < busbw(node, "NVLS")
    # The tree in a node is bound by NVLink, NVLS by the switch; across many nodes all of them by the NICs.
    pair, many = (build("H100", nodes=n, gpus_per_node=8, nics="8x400", network="ib") for n in (2, 16))
    assert busbw(pair, "Tree") < busbw(pair, "NVLS")
    assert busbw(many, "Tree") <= busbw(many, "Ring")
    for wrong in ("algorithm=Bruck", "algorithm="):
        with pytest.raises(UsageError, match="Ring, Tree, NVLS"):
            change(node, wrong)
    with pytest.raises(UsageError, match="cannot do NVLS"):
        change(build("A100"), "algorithm=NVLS")


def test_racks_that_nvlink_does_not_join_are_as_fast_as_their_nics() -> None:
    rack = build("GB300", nodes=2, gpus_per_node=4, nics="4x800", network="roce")
    apart = build("GB300", nodes=2, gpus_per_node=4, nics="4x800", network="roce", domains=2)
    assert (rack.domains, apart.domains) == (1, 2)
    # Four 800 Gbit/s NICs of two nodes: 358 of 400 GB/s (Google Cloud, A4X Max).
    low, _, high = _busbw(apart, "AllReduce", 8 << 30)
    assert 200 < low < 358 < high
    assert "in 2 NVLink domains" in apart.describe()
    assert change(rack, "domains=2") == apart
    for wrong in (0, 3):
        with pytest.raises(UsageError, match="--domains"):
            build("GB200", nodes=2, domains=wrong)
    with pytest.raises(UsageError, match="at most the number of nodes"):
        change(rack, "domains=3")


def test_the_ring_takes_longer_to_start_and_the_tree_to_move_much() -> None:
    def busbw(algorithm: str, size: int) -> float:
        machine = build("H100", nodes=64, nics="8x400", network="ib", nvls=False)
        return _busbw(change(machine, f"algorithm={algorithm}"), "AllReduce", size)[1]

    assert busbw("Tree", 8) > 2 * busbw("Ring", 8)
    assert busbw("Ring", 8 << 30) > busbw("Tree", 8 << 30)
