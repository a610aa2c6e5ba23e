"""The rows of some lines of a run, as tables of their own."""

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.tables.run import Run, Tables, picked
from nccl_insight.tables.schema import FLOODS

END: Final = 1 << 62


@dataclass(frozen=True)
class Span:
    """Lines ``first`` to ``last`` (not included) of an input."""

    input_id: int
    first: int = 0
    last: int = END


class PartTables(Tables):
    """The rows of some lines; each table is cut when it is first asked for."""

    def __init__(self, run: Run, spans: Sequence[Span]) -> None:
        super().__init__({}, {}, run.tables.placing)
        self._run = run
        self._cut: dict[str, pl.DataFrame] = {}
        self._spans = pl.DataFrame(
            [(s.input_id, s.first, s.last) for s in spans],
            schema={"input_id": pl.UInt16, "_first": pl.Int64, "_end": pl.Int64},
            orient="row",
        )

    def as_read(self, name: str) -> pl.DataFrame:
        """The rows of the table in these lines, as their inputs give them."""
        if name not in self._cut:
            self._cut[name] = self._select(name, self._run.tables.as_read(name))
        return self._cut[name]

    def __contains__(self, name: object) -> bool:
        return name in self._run.tables

    def __iter__(self) -> Iterator[str]:
        return iter(self._run.tables)

    def __len__(self) -> int:
        return len(self._run.tables)

    def height(self, name: str) -> int:
        """The number of rows."""
        return sum(frame.height for frame in self.frames(name))

    def has(self, name: str) -> bool:
        """Whether a row of the table is in these lines."""
        return name in self and any(frame.height for frame in self.frames(name))

    def frames(self, name: str, *columns: str) -> Iterator[pl.DataFrame]:
        """The rows in these lines of each piece of the table, or some of its columns; a large one is not kept."""
        if name in FLOODS and name not in self._cut:
            asked = dict.fromkeys((*columns, "input_id", "line")) if columns else ()
            for frame in self._run.pieces(name, *asked):
                rows = self._select(name, frame)
                yield rows.select(columns) if columns else rows
        else:
            yield picked(name, self[name], columns) if columns else self[name]

    def _select(self, name: str, frame: pl.DataFrame) -> pl.DataFrame:
        if not self._run.has_columns(name, "input_id") or frame.is_empty():
            return frame
        cut = frame.with_row_index("_row").join(
            self._spans.with_columns(pl.col("input_id").cast(frame.schema["input_id"])), on="input_id", how="inner"
        )
        if self._run.has_columns(name, "line"):
            place = pl.col("line").cast(pl.Int64)
            inside = place.is_null() | (place == 0) | ((place >= pl.col("_first")) & (place < pl.col("_end")))
            if name == "processes":
                # A number that was used again: the row of the first process stands for both.
                known = self["ranks"].select("host", "pid").unique().with_columns(_again=True)
                cut = cut.join(known, on=["host", "pid"], how="left", nulls_equal=True)
                inside |= pl.col("_again").fill_null(False)
            cut = cut.filter(inside)
        rows: pl.DataFrame = frame[cut.get_column("_row").unique().sort()]
        return rows
