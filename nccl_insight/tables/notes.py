"""What readers notice about an input: rows of the table ``notes``, and their kinds: the diagnoses they lead to."""

from typing import Final

import polars as pl

from nccl_insight.tables import schema

CUT: Final = "trace-truncated"
LACKS: Final = "trace-metadata-missing"
LOG_CUT: Final = "log-truncated"
TORN: Final = "log-torn"
DROPPED: Final = "telemetry-dropped"
CLOCKS: Final = "clocks-not-comparable"
JOBS: Final = "several-jobs"


def note_rows(input_id: int | None, *rows: tuple[str, str] | tuple[str, str, int]) -> pl.DataFrame:
    """Rows of the table from kinds and details, and the line where one is meant."""
    given = [(input_id, row[2] if len(row) == 3 else None, row[0], row[1]) for row in rows]
    return pl.DataFrame(given, schema=dict(schema.SCHEMA["notes"]), orient="row")
