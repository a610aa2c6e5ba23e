"""Profiles of XLA (JAX, TensorFlow, torch_xla) on GPUs."""

import re
from typing import Final

from nccl_insight.readers import Format, reads

_MARK: Final = re.compile(rb"\x12[\x05-\x40]/(?:host|device):\w")


def sniff(head: bytes, name: str) -> float:
    """Sure where the first field is a plane with the name of one, or the file has the name of a profile."""
    if head[:1] == b"\n" and _MARK.search(head):
        return 0.95
    return 0.94 if re.search(r"\.xplane\.pb(?:\.gz|\.zst)?$", name) and head[:1] == b"\n" else 0.0


FORMAT = Format(kind="xplane", sniff=sniff, read=reads("xplane.format"))
