"""The health mask of an NVLink fabric: two bits for each state, four for the configuration."""

from __future__ import annotations

import pytest

from nccl_insight.base.fabric_health import fabric_states


@pytest.mark.parametrize(
    ("mask", "bad", "good"),
    [
        (0x000, (), ()),
        (0x001, ("degraded bandwidth",), ()),
        (0x002, (), ("bandwidth not degraded",)),
        (0x1AA, (), ("bandwidth not degraded", "no route in recovery", "routes healthy", "no access time-out")),
        (0x310, ("an unhealthy route", "a wrong chassis serial number"), ()),
        (0x800, ("a wrong state of the GPU",), ()),
        (0x900, (), ()),
    ],
)
def test_a_mask_says_what_is_wrong_and_what_is_well(mask: int, bad: tuple[str, ...], good: tuple[str, ...]) -> None:
    assert fabric_states(mask) == (bad, good)
