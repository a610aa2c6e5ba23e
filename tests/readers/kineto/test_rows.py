"""The ``collectives`` table of a Kineto trace."""

from __future__ import annotations

import pytest

from nccl_insight.readers.kineto.rows import Groups


@pytest.mark.parametrize(
    ("text", "ranks"),
    [("[0, 1]", [0, 1]), ("[2,3 ]", [2, 3]), ("[]", None), ("[,]", None), ("[1,]", None), ("[1 2]", None),
     ("[0, 1, ...]", None), ("[9999999999]", None), ("[" + "1" * 6000 + "]", None)],
)  # fmt: skip
def test_ranks_that_are_no_list_are_unknown(text: str, ranks: list[int] | None) -> None:
    assert Groups().ranks_of("zz", text) == ranks
