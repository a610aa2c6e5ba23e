"""How process groups lie in a job, from numbers that ranks have in them; the truth is laid out here by hand."""

from __future__ import annotations

from itertools import product

import pytest

from nccl_insight.facts.who.layout import grid


def laid_out(tensor: int, data: int, stages: int) -> dict[str, list[list[int]]]:
    """The groups of a job whose ranks are numbered tensor first, then data, then stage."""
    rank = {
        place: number
        for number, place in enumerate((t, d, p) for p, d, t in product(range(stages), range(data), range(tensor)))
    }
    return {
        "tensor": [[rank[t, d, p] for t in range(tensor)] for d, p in product(range(data), range(stages))],
        "data": [[rank[t, d, p] for d in range(data)] for t, p in product(range(tensor), range(stages))],
        "stages": [[rank[t, d, p] for p in range(stages)] for t, d in product(range(tensor), range(data))],
        "model": [[rank[t, d, p] for p in range(stages) for t in range(tensor)] for d in range(data)],
    }


@pytest.mark.parametrize(("tensor", "data", "stages"), [(8, 4, 2), (4, 2, 4), (2, 6, 3), (4, 16, 8)])
@pytest.mark.parametrize("kind", ["tensor", "data", "stages", "model"])
def test_groups_are_found_without_one_rank(tensor: int, data: int, stages: int, kind: str) -> None:
    groups = laid_out(tensor, data, stages)[kind]
    pairs = [(rank, number) for group in groups for number, rank in enumerate(group) if rank != 3]
    found = grid(pairs, tensor * data * stages)
    assert found is not None
    assert all(found.members(rank) == set(group) for group in groups for rank in group)


def test_numbers_that_fit_no_grid_or_several_tell_nothing() -> None:
    assert grid([(0, 0), (1, 3), (2, 1), (3, 2)], 8) is None
    assert grid([(27, 1)], 32) is None  # the second of 26, 27 or of 25, 27
    assert grid([(5, 0), (9, 0)], 4) is None  # ranks that the job does not have
    assert grid([], 8) is None


def test_a_larger_group_may_fit_too() -> None:
    known = [(rank, rank % 4) for rank in range(4)]
    assert (small := grid(known, 16)) is not None
    assert (small.members(0), small.only) == (set(range(4)), False)
    assert (sure := grid([*known, (4, 0), (9, 1)], 16)) is not None
    assert (sure.members(9), sure.only) == ({8, 9, 10, 11}, True)


def test_ranks_of_one_name_are_of_one_group() -> None:
    """Four numbers of one group by eights, not of four groups by sevens; two names are two groups, by sevens."""
    assert (one := grid([(2, 0), (10, 1), (18, 2), (26, 3)], 56)) is not None
    assert one.members(2) >= {2, 10, 18, 26}
    assert (two := grid([(3, 0), (11, 1)], 56, named=[(3, "5"), (11, "6")])) is not None
    assert (two.members(3), two.members(11)) == ({3, 10}, {4, 11})
