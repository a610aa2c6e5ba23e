"""Databases of Nsight Systems."""

from typing import Final

from nccl_insight.readers import Format, reads

MAGIC: Final = b"SQLite format 3\x00"


def sniff(head: bytes, name: str) -> float:
    """SQLite files; sure when a table name of Nsight Systems stands in the first pages."""
    if not head.startswith(MAGIC):
        return 0.0
    return 0.95 if b"CUPTI_ACTIVITY_KIND" in head or b"NVTX_EVENTS" in head or b"StringIds" in head else 0.6


FORMAT = Format(kind="nsys_sqlite", sniff=sniff, read=reads("nsys.format"))
