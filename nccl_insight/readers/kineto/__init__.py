"""Traces of torch.profiler (Kineto)."""

import re

from nccl_insight.readers import Format, reads


def sniff(head: bytes, name: str) -> float:
    """Sure for ``traceEvents``; likely for a bare list of complete events; Kineto headers alone count too."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] == b"{":
        if re.search(rb'"traceEvents"\s*:', head):
            return 0.9
        return 0.8 if b'"schemaVersion"' in head and b'"deviceProperties"' in head else 0.0
    if text[:1] == b"[" and re.search(rb'"ph"\s*:\s*"[XMi]"', head) and b'"cat"' in head:
        return 0.6
    if not head and re.search(r"\.json(\.gz|\.zst)?$", name):
        return 0.6  # empty, or a compressed stream that is damaged from its start: reading says which
    return 0.0


FORMAT = Format(kind="torch_trace", sniff=sniff, read=reads("kineto.format"))
