"""ROCm profiler databases (rocpd, SQLite), which rocprofv3 of ROCm 7 writes."""

from __future__ import annotations

from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import Format
from nccl_insight.readers.nsys import MAGIC
from nccl_insight.tables.run import Partial


def sniff(head: bytes, name: str) -> float:
    """Sure where the first pages name the table of kernel dispatches."""
    return 1.0 if head.startswith(MAGIC) and b"rocpd_kernel_dispatch" in head else 0.0


def read(source: InputFile) -> Partial:
    """The tables of an input, see :mod:`nccl_insight.readers.rocpd.format`."""
    from nccl_insight.readers.rocpd import format

    return format.read(source)


FORMAT = Format(kind="rocpd", sniff=sniff, read=read)
