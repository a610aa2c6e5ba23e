"""The policy itself."""

from __future__ import annotations

from nccl_insight.base.model import Confidence
from nccl_insight.engine.policy.model import Policy
from tests.engine.policy.findings import finding


def test_low_confidence_is_kept_out_with_its_reason() -> None:
    policy = Policy(min_confidence=Confidence.HIGH)
    silence = policy.silenced(finding())
    assert silence is not None
    assert "min-confidence high" in silence[0]


def test_fails_compares_with_the_least_severity() -> None:
    assert Policy().fails((finding(),))
    assert not Policy(fail_on=None).fails((finding(),))
