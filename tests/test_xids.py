"""What Xids weigh, against the actions of NVIDIA's catalog."""

from __future__ import annotations

import pytest

from nccl_insight.base.xids import MEANINGS, weight


@pytest.mark.parametrize(
    ("xid", "expected"),
    [
        # "Ignore", "restart the application", "reset the GPU or contact support"
        (37, "info"), (44, "info"), (141, "info"), (160, "info"),
        (11, "warning"), (32, "warning"), (39, "warning"), (100, "warning"), (135, "warning"),
        (46, "error"), (62, "error"), (95, "error"), (119, "error"), (167, "error"), (168, "error"),
    ],
)  # fmt: skip
def test_the_weight_follows_the_action(xid: int, expected: str) -> None:
    assert xid in MEANINGS
    assert weight(xid, None) == expected
