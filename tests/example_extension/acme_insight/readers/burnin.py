"""Acme's burn-in files: ``acme-burnin 1``, then one line ``GPU TFLOPS`` per GPU."""

from __future__ import annotations

import polars as pl

from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import Format
from nccl_insight.readers.side import read_content
from nccl_insight.tables.run import Partial

COLUMNS = {"input_id": pl.UInt32, "line": pl.UInt64, "gpu": pl.Int32, "tflops": pl.Float64}


def sniff(head: bytes, name: str) -> float:
    """1 for the first line of such a file."""
    return float(head.startswith(b"acme-burnin 1\n"))


def read(source: InputFile) -> Partial:
    """Table ``acme_burnin``: gpu and tflops (1e12 operations per second), a row per line that can be read."""
    rows = []
    for number, line in enumerate(read_content(source).text.splitlines(), 1):
        words = line.split()
        if len(words) == 2 and words[0].isdigit():
            rows.append((source.input_id, number, int(words[0]), float(words[1])))
    return Partial({"acme_burnin": pl.DataFrame(rows, schema=COLUMNS, orient="row")})


FORMAT = Format("acme-burnin", sniff, read)
