"""Texts that stand apart from the code: each is asked for, with all values that it names."""

from __future__ import annotations

from nccl_insight.base.model import Severity
from nccl_insight.rules.says import said


def test_a_severity_may_hang_on_a_value() -> None:
    loud = said("ib-port-error.ports", {"texts": ["mlx5_0"], "up": 0, "of_job": True, "some": False})
    quiet = said("ib-port-error.ports", {"texts": ["mlx5_0"], "up": 0, "of_job": False, "some": False})
    assert (loud["severity"], quiet["severity"]) == (Severity.ERROR, Severity.INFO)
