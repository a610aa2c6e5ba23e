"""Parquet directories of Nsight Systems, see :mod:`nccl_insight.readers.nsys.parquet`."""

import re
from typing import Final

from nccl_insight.inputs.find import NSYS_TEXTS, InputFile
from nccl_insight.readers import Format
from nccl_insight.tables.run import Partial

_MAGIC: Final = b"PAR1"


def sniff(head: bytes, name: str) -> float:
    """Sure of the file of texts of an export."""
    return 0.97 if head.startswith(_MAGIC) and re.split(r"[/\\]", name)[-1] == NSYS_TEXTS else 0.0


def read(source: InputFile) -> Partial:
    """The tables of an SQLite export."""
    from nccl_insight.readers.nsys.database import read_database
    from nccl_insight.readers.nsys.format import tables_of
    from nccl_insight.readers.nsys.parquet import open_folder

    return read_database(source, lambda base, notes: tables_of(base, notes, source), open_folder)


FORMAT = Format(kind="nsys_parquet", sniff=sniff, read=read)
