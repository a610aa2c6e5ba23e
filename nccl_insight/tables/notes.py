"""What readers notice about an input: rows of the table ``notes``, and their kinds: the diagnoses they lead to."""

from typing import Final

import polars as pl

from nccl_insight.base.natures import called
from nccl_insight.tables import schema

CUT: Final = called("trace-cut")
LACKS: Final = called("trace-unnamed")
LOG_CUT: Final = called("log-cut")
TORN: Final = called("log-damaged")
DROPPED: Final = called("records-dropped")
CLOCKS: Final = called("clocks-apart")
JOBS: Final = called("jobs")


def note_rows(input_id: int | None, *rows: tuple[str, str] | tuple[str, str, int]) -> pl.DataFrame:
    """Rows of the table from kinds and details, and the line where one is meant."""
    if not rows:
        return schema.empty("notes")
    given = [(input_id, row[2] if len(row) == 3 else None, row[0], row[1]) for row in rows]
    return pl.DataFrame(given, schema=dict(schema.SCHEMA["notes"]), orient="row")
