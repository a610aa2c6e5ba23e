"""Parquet directories of Nsight Systems, see :mod:`nccl_insight.readers.nsys.parquet`."""

from __future__ import annotations

from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import Format
from nccl_insight.readers.nsys.database import read_database
from nccl_insight.readers.nsys.format import tables_of
from nccl_insight.readers.nsys.parquet import open_folder, sniff
from nccl_insight.tables.run import Partial


def read(source: InputFile) -> Partial:
    """The tables of an SQLite export."""
    return read_database(
        source, lambda base, notes: tables_of(base, notes, source.communication), open_folder
    )


FORMAT = Format(kind="nsys_parquet", sniff=sniff, read=read)
