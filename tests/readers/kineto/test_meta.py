"""What the metadata of a Kineto trace tells about one collective: ``record_param_comms``, kernels, annotations."""

from __future__ import annotations

import pytest

from nccl_insight.readers.kineto.meta import Meta, integer, small_int


@pytest.mark.parametrize(
    ("value", "number", "small"),
    [
        (7, 7, 7), ("7", 7, 7), (-1, -1, None), (" -12", -12, None), (True, None, None), (1 << 63, None, None),
        (1 << 31, 1 << 31, None), ("x", None, None), ("9" * 30, None, None), (None, None, None), (2.0, None, None),
    ],
)  # fmt: skip
def test_whole_numbers_also_as_text(value: object, number: int | None, small: int | None) -> None:
    assert integer(value) == number
    assert small_int(value) == small


def test_what_a_kernel_tells_of_its_collective() -> None:
    args = {
        "Collective name": "allreduce", "In msg nelems": 100, "Out msg nelems": -1, "dtype": "Float", "Group size": 4,
        "Process Group Name": 3, "Process Group Ranks": "[0, 2, ...]", "Global rank start": 0, "Global rank stride": 2,
        "Seq": 9, "Rank": 6,
    }  # fmt: skip
    found = Meta.of(args)
    assert found is not None
    assert (found.name, found.in_elements, found.dtype, found.group_size, found.process_group) == (
        "allreduce", 100, "Float", 4, "3",
    )  # fmt: skip
    assert found.out_elements == (1 << 32) - 1  # 32 bits that wrapped around
    assert found.group_ranks == [0, 2, 4, 6]
    assert (found.seq, found.group_rank) == (9, 6)
    assert Meta.of({"Collective name": ""}) is None
    assert Meta.of({"dtype": "Float"}) is None


def test_the_peer_of_a_send_is_its_destination() -> None:
    both = {"Src Rank": 1, "Dst Rank": 2}
    send, recv = Meta.of({"Collective name": "send", **both}), Meta.of({"Collective name": "recv", **both})
    assert send is not None
    assert recv is not None
    assert (send.peer, recv.peer) == (2, 1)


@pytest.mark.parametrize(
    ("dims", "elements"),
    [([[10, 20]], 200), ([[[10], [20]]], 30), ([], None), ([[]], None), ([[-1]], None), ("x", None)],
)
def test_an_annotation_tells_elements_by_its_shapes(dims: object, elements: int | None) -> None:
    event = {"name": "nccl:all_reduce", "args": {"Input Dims": dims, "Input type": ["c10::BFloat16"]}}
    found = Meta.of_range(event)  # type: ignore[arg-type]
    assert (found.in_elements, found.dtype) == (elements, "BFloat16")
