"""Rows of nccl-tests tables among lines of text (old and new layouts, also between lines of an NCCL log)."""

from __future__ import annotations

import pytest

from nccl_insight.readers.embedded.nccl_tests import op_of_name


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("./build/all_reduce_perf", "AllReduce"), ("reduce_perf_mpi", "Reduce"), ("alltoallv_perf", "AllToAllv"),
        ("nccl_alltoall.log", "AllToAll"), ("sendrecv_perf", "SendRecv"), ("notes.txt", None),
    ],
)  # fmt: skip
def test_collective_from_a_program_name(name: str, op: str | None) -> None:
    assert op_of_name(name) == op
