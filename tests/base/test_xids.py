"""What Xids weigh, against the actions of NVIDIA's catalog."""

from __future__ import annotations

import pytest

from nccl_insight.base.xids import MEANINGS, meaning, weight
from nccl_insight.views.line import explained


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


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("Xid 79", ("xid-error", "root")), ("SXid 12028", ("xid-error", "root")),
        ("ncclRemoteError", ("peer-died", "effect")), ("exit code 137", ("process-killed", "root")),
        ("exitcode: -11", ("process-crashed", "root")), ("exit code 143", ("error-propagated", "effect")),
        ("CUDA_ERROR_OUT_OF_MEMORY", ("cuda-oom-init", "root")), ("errno 113", ("bootstrap-no-route", "root")),
        ("IBV_WC_RETRY_EXC_ERR", ("ib-completion-retry-exceeded", "root")),
    ],
)  # fmt: skip
def test_bare_names_and_numbers_are_explained(asked: str, expected: tuple[str, str]) -> None:
    found = explained(asked)
    assert found is not None
    assert [(line.diagnosis, line.role) for line in found.lines] == [expected]


def test_switches_have_the_words_of_their_driver() -> None:
    # NVSWITCH_REPORT_NONFATAL(_HW_NPORT_EGRESS_PRIVRSPERR, ...), NVSWITCH_REPORT_FATAL(_HW_DLPL_LTSSM_FAULT_UP, ...)
    assert (meaning(12028) or "").startswith("egress non-posted PRIV error (not fatal")
    assert (meaning(20034) or "").startswith("LTSSM Fault Up (fatal")
    assert meaning(9999) is None
