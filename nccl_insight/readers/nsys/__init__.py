"""Databases of Nsight Systems."""

from typing import Final

from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import Format
from nccl_insight.tables.run import Partial

MAGIC: Final = b"SQLite format 3\x00"


def sniff(head: bytes, name: str) -> float:
    """SQLite files; sure when a table name of Nsight Systems stands in the first pages."""
    if not head.startswith(MAGIC):
        return 0.0
    return 0.95 if b"CUPTI_ACTIVITY_KIND" in head or b"NVTX_EVENTS" in head or b"StringIds" in head else 0.6


def read(source: InputFile) -> Partial:
    """The tables of an input, see :mod:`nccl_insight.readers.nsys.format`."""
    from nccl_insight.readers.nsys import format

    return format.read(source)


FORMAT = Format(kind="nsys_sqlite", sniff=sniff, read=read)
