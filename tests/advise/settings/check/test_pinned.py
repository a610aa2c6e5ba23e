"""Settings for experiments that were left set."""

from __future__ import annotations

from nccl_insight.advise.settings.check.combine import check_pinned


def test_pinned() -> None:
    assert [i.variable for i in check_pinned({"NCCL_ALGO": "Ring", "NCCL_IB_TIMEOUT": "22"})] == ["NCCL_ALGO"]
    assert list(check_pinned({"NCCL_PROTO": "^LL128"})) == []
    assert list(check_pinned({"NCCL_PROTO": "Simple", "NCCL_FASTRAK_USE_SNAP": "1"})) == []
