"""What the health mask of a GPU's NVLink fabric says (nvml.h, ``NVML_GPU_FABRIC_HEALTH_MASK``)."""

from typing import Final

# Two bits each from bit 0 on: 0 not supported, 1 true, 2 false; and what they say when true, and when false.
_STATES: Final = (
    ("degraded bandwidth", "bandwidth not degraded"),
    ("a route that is being recovered", "no route in recovery"),
    ("an unhealthy route", "routes healthy"),
    ("recovery from an access time-out", "no access time-out"),
)
_TRUE: Final = 1
_FALSE: Final = 2
# Four bits from bit 8 on: 0 not supported, 1 none.
_CONFIGURATION: Final = (
    "a wrong system GUID",
    "a wrong chassis serial number",
    "no partition",
    "too few NVLinks",
    "an incompatible firmware",
    "an invalid location",
    "a wrong state of the GPU",
)
_FIRST: Final = 2


def fabric_states(mask: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is wrong by a mask, and what is known to be well."""
    bits = [(mask >> 2 * n) & 3 for n in range(len(_STATES))]
    wrong = dict(enumerate(_CONFIGURATION, _FIRST)).get((mask >> 8) & 15)
    bad = (words[0] for bit, words in zip(bits, _STATES, strict=True) if bit == _TRUE)
    return (*bad, *filter(None, [wrong])), tuple(
        words[1] for bit, words in zip(bits, _STATES, strict=True) if bit == _FALSE
    )
