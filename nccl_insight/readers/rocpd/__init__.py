"""Profiles of rocprofv3: databases (rocpd, SQLite) and JSON."""

from nccl_insight.readers import Format, reads
from nccl_insight.readers.nsys import MAGIC


def sniff(head: bytes, name: str) -> float:
    """Sure where the first pages name the table of kernel dispatches, or JSON begins as rocprofv3's does."""
    if head.lstrip()[:1] == b"{" and b'"rocprofiler-sdk-tool"' in head[:200]:
        return 1.0
    return 1.0 if head.startswith(MAGIC) and b"rocpd_kernel_dispatch" in head else 0.0


FORMAT = Format(kind="rocpd", sniff=sniff, read=reads("rocpd.format"))
