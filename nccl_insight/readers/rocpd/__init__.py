"""Profiles of rocprofv3: databases (rocpd, SQLite) and JSON."""

from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import Format
from nccl_insight.readers.nsys import MAGIC
from nccl_insight.tables.run import Partial


def sniff(head: bytes, name: str) -> float:
    """Sure where the first pages name the table of kernel dispatches, or JSON begins as rocprofv3's does."""
    if head.lstrip()[:1] == b"{" and b'"rocprofiler-sdk-tool"' in head[:200]:
        return 1.0
    return 1.0 if head.startswith(MAGIC) and b"rocpd_kernel_dispatch" in head else 0.0


def read(source: InputFile) -> Partial:
    """The tables of an input, see :mod:`nccl_insight.readers.rocpd.format`."""
    from nccl_insight.readers.rocpd import format

    return format.read(source)


FORMAT = Format(kind="rocpd", sniff=sniff, read=read)
