"""A run: the tables of everything that was read, and a way back to the text of a line."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial, update_wrapper
from itertools import chain, count, islice, takewhile
from typing import Concatenate, Final, ParamSpec, Protocol, TypeAlias, TypeVar

import polars as pl

from nccl_insight.base.data import dataclass, field
from nccl_insight.base.errors import UsageError
from nccl_insight.base.threads import in_order
from nccl_insight.inputs.find import InputFile
from nccl_insight.tables import schema
from nccl_insight.tables.once import Once

T = TypeVar("T")
P = ParamSpec("P")


class LineReader(Protocol):
    """Gives back raw lines of the inputs, for evidence."""

    def lines(self, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], str]:
        """Text of ``(input_id, line)`` pairs; pairs that cannot be read again are left out."""


class NoLines:
    """A reader for runs whose inputs have no lines (traces, tests)."""

    def lines(self, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], str]:
        """Nothing can be read back."""
        return {}


def fact(build: Callable[Concatenate[Run, P], T]) -> Callable[Concatenate[Run, P], T]:
    """A derived value of a run, made by whoever asks first and shared with all others, whatever thread they run in.

    The function is the fact: its name is the only key, and what it calls are its inputs. Further arguments, which must
    be hashable, make a value of their own each.
    """

    def value(run: Run, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run.memo((value, args, *kwargs.items()), lambda: build(run, *args, **kwargs))

    update_wrapper(value, build)
    return value


@dataclass(frozen=True)
class Asked:
    """What the user says of a run besides its inputs.

    ``thresholds``: numbers of checks that the policy changes, by check and key. ``symptom``: ``hang``, ``slow``,
    ``crash`` or empty. ``nics``: those of each node as COUNTxGBITS, or empty.
    """

    thresholds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    symptom: str = ""
    nics: str = ""

    def threshold(self, name: str, key: str, default: float) -> float:
        """The policy's value of ``[thresholds.<name>] <key>``, else the check's own default."""
        return self.thresholds.get(name, {}).get(key, default)

    def shared(self, key: str, default: float) -> float:
        """The policy's value of a key that one check alone has, for facts that are worked out on its behalf."""
        return next((values[key] for values in self.thresholds.values() if key in values), default)


@dataclass(frozen=True)
class Partial:
    """What one input gave: rows by table, which are concatenated over the inputs."""

    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)


# Of more rows than this another thread puts the pieces together.
_LARGE: Final = 100_000


def picked(name: str, frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Some columns of a table, in that order and type, :data:`schema.OWNER` among them; missing ones null."""
    if schema.OWNER in columns and schema.OWNER not in frame.columns:
        frame = frame.with_columns(schema.owner())
    kinds = {**(schema.SCHEMA.get(name) or frame.schema), schema.OWNER: pl.UInt64}
    return schema.shaped(frame, {column: kinds[column] for column in columns})


class Deferred(Protocol):
    """A table that is put together when it is asked for."""

    height: int
    """Number of lines that it comes from: about that of its rows."""

    streams: bool
    """Whether each line gives one row, in frames of bounded size."""

    def frames(self, columns: Sequence[str] = ()) -> Iterator[pl.DataFrame]:
        """The rows in order, in frames of the same columns. ``columns``: all that will be looked at, if not all."""

    def last(self) -> Iterator[pl.DataFrame]:
        """Like :meth:`frames`, for the last time: lets go of what the rows are made from on the way."""


Placing: TypeAlias = "Mapping[str, Callable[[Tables], pl.DataFrame]]"


class Tables(Mapping[str, pl.DataFrame]):
    """All tables by name; some are put together when they are first asked for, those without rows not before.

    Called, it lists them. ``placing``: what tells whose the rows of some tables are.
    """

    def __init__(
        self, ready: Mapping[str, pl.DataFrame], deferred: Mapping[str, Deferred], placing: Placing | None = None
    ) -> None:
        self._ready = dict(ready)
        self._deferred = dict(deferred)
        self.placing = placing or {}
        self._made = Once()
        self._placed = Once()
        self._passing = threading.RLock()

    def __call__(self) -> pl.DataFrame:
        """Names of the tables that have rows: ``table, rows, columns``."""
        found = ((name, self[name]) for name in sorted(self))
        counted = [(name, frame.height, frame.width) for name, frame in found if frame.height]
        kinds = {"table": pl.String, "rows": pl.Int64, "columns": pl.Int64}
        return pl.DataFrame(counted, schema=kinds, orient="row")

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name in self.placing:
            return self.derived(name, lambda: schema.complete(name, self.placing[name](self)))
        return self.as_read(name)

    def derived(self, key: Hashable, build: Callable[[], T]) -> T:
        """What is made of the tables once, by key."""
        return self._placed.get(key, build)

    def as_read(self, name: str) -> pl.DataFrame:
        """A table as its inputs give it, without what other tables tell of its rows."""
        table = self._deferred.get(name)
        if table is not None:
            # Waited for before the table counts as being made: who passes over its pieces may still begin to.
            with self._passing if table.streams else nullcontext():
                return self._made.get(name, partial(self._make, name, table))
        if name not in self._ready and name in schema.SCHEMA:
            return schema.empty(name)
        return self._ready[name]

    def _make(self, name: str, table: Deferred) -> pl.DataFrame:
        made = pl.concat([schema.complete(name, frame) for frame in table.last()])
        self._ready[name] = made
        del self._deferred[name]
        return made

    def passing(self) -> AbstractContextManager[object]:
        """While a thread is in it, no other puts a table together of which that one may look at the pieces."""
        return self._passing

    def __contains__(self, name: object) -> bool:
        return name in schema.SCHEMA or name in self._ready or name in self._deferred

    def __iter__(self) -> Iterator[str]:
        return iter({**schema.SCHEMA, **self._ready, **self._deferred})

    def __len__(self) -> int:
        return len(schema.SCHEMA.keys() | self._ready.keys() | self._deferred.keys())

    def height(self, name: str) -> int:
        """About the number of rows of a table."""
        if name in self.placing and name not in self._ready:
            return self[name].height
        if name in self._deferred:
            return self._deferred[name].height
        return self._ready[name].height if name in self._ready else 0

    def has(self, name: str) -> bool:
        """Whether a table has a row, which need not put a large one together."""
        if name in self._deferred and self._deferred[name].streams:
            return self._deferred[name].height > 0
        if name in self.placing and name not in self._ready:
            return self[name].height > 0
        return (name in self._ready or name in self._deferred) and self[name].height > 0

    def deferred(self, name: str) -> Deferred | None:
        """A table that was not asked for yet."""
        return self._deferred.get(name)

    def frames(self, name: str, *columns: str) -> Iterator[pl.DataFrame]:
        """The table, or some of its columns, in pieces, for those who need not have it whole."""
        table = self._deferred.get(name)
        if table is None or name in self._made:
            whole = self[name]
            return iter([picked(name, whole, columns) if columns else whole])
        frames = (
            picked(name, frame, columns) if columns else schema.complete(name, frame) for frame in table.frames(columns)
        )
        if not table.streams or table.height <= _LARGE:
            return frames
        # The next one is put together while one is looked at; in lists, as a frame compared with an end is a frame.
        return chain.from_iterable(takewhile(bool, in_order(lambda _: list(islice(frames, 1)), count(), 1, 1)))


@dataclass(frozen=True, repr=False)
class Run:
    """Tables by name (:mod:`nccl_insight.tables.schema`). Rules read nothing else.

    ``inputs``: what the tables were read from, in the order of ``input_id``. ``asked``: what the user says of the job.
    """

    tables: Tables
    reader: LineReader = field(default_factory=NoLines)
    inputs: tuple[InputFile, ...] = ()
    asked: Asked = Asked()
    _memo: Once = field(default_factory=Once, repr=False, compare=False)

    def __repr__(self) -> str:
        listed = self.tables()
        largest = listed.sort("rows", descending=True).select("table", "rows").head(6)
        most = ", ".join(f"{name} {height:,}" for name, height in largest.iter_rows())
        files = ", ".join(file.display for file in self.inputs[:3]) + (", ..." if len(self.inputs) > 3 else "")
        rows = f"{listed.height} tables with rows ({most or 'none'})"
        return f"<Run of {files or 'no input'}: {rows}; .tables() lists them>"

    def _repr_html_(self) -> str:
        """The list of tables, for notebooks."""
        from html import escape

        rows = "".join(
            f"<tr><td><code>{escape(name)}</code></td><td>{height:,}</td><td>{columns}</td></tr>"
            for name, height, columns in self.tables().iter_rows()
        )
        files = escape(", ".join(file.display for file in self.inputs[:8]))
        head = "<tr><th>table</th><th>rows</th><th>columns</th></tr>"
        return f"<p><b>Run</b> of {files or 'no input'}</p><table>{head}{rows}</table>"

    def table(self, name: str, *columns: str) -> pl.DataFrame:
        """The table with all its columns, or with those that are asked for; without rows when the run has none.

        Raises UsageError: no run can have a table of that name, or the table has no such column; it says the nearest
        one.
        """
        frame = self.tables.get(name)
        if frame is None and name not in schema.SCHEMA:
            _check_name(name)
        frame = schema.empty(name) if frame is None else frame
        for column in columns:
            if column not in frame.columns:
                raise UsageError(f"table {name} has no column {column!r}" + near(column, frame.columns))
        return frame.select(columns) if columns else frame

    def __getitem__(self, name: str) -> pl.DataFrame:
        """``run["ranks"]``: the table with all its columns, as :meth:`table` gives it."""
        return self.table(name)

    def _ipython_key_completions_(self) -> list[str]:
        return self.tables()["table"].to_list()

    def has_columns(self, name: str, *columns: str) -> bool:
        """Whether a table is one with these columns, for those who go through all: traces have no lines."""
        known = schema.SCHEMA.get(name) or self.table(name).columns
        return all(column in known for column in columns)

    def having(self, *columns: str) -> Iterator[str]:
        """Names of the tables with these columns that have rows."""
        return (name for name in self.tables if self.has_columns(name, *columns) and self.has(name))

    def lazy(self, name: str) -> pl.LazyFrame:
        """The table as a LazyFrame."""
        return self.table(name).lazy()

    def has(self, name: str) -> bool:
        """Whether the table has at least one row."""
        return self.tables.has(name)

    def height(self, name: str) -> int:
        """About the number of rows of a table, for what must not put it together."""
        return self.tables.height(name) if name in self.tables else self.table(name).height

    def pieces(self, name: str, *columns: str) -> Iterator[pl.DataFrame]:
        """A table in frames of the same columns, for those who need not have a large one whole.

        ``columns``: those of the contract that are asked for, and :data:`schema.OWNER`; all of the table for none. A
        large table is faster to look at where few are.
        """
        if name in self.tables:
            return self.tables.frames(name, *columns)
        return iter([picked(name, self.table(name), columns) if columns else self.table(name)])

    def deferred(self, name: str) -> Deferred | None:
        """A table that is put together when it is asked for, and was not yet."""
        return self.tables.deferred(name)

    def knows(self, known: Callable[[Run], object]) -> bool:
        """Whether a :func:`fact` was asked for before."""
        return (known, ()) in self._memo

    def memo(self, key: Hashable, build: Callable[[], T]) -> T:
        """A derived value by key, built once per run and shared, whatever thread asks; what :func:`fact` rests on."""
        return self._memo.get(key, build)

    def judged_as(self, asked: Asked) -> Run:
        """The run, nothing derived of it yet, as what the user says makes it; itself where that is nothing new."""
        return self if asked == self.asked else Run(self.tables, self.reader, self.inputs, asked)

    def passing(self) -> AbstractContextManager[object]:
        """For a thread that looks at pieces of tables while others ask for whole ones."""
        return self.tables.passing()


@cache
def _known_names() -> frozenset[str]:
    """The tables that a run can have."""
    from nccl_insight.language.load import default_grammar

    return frozenset({m.table for m in default_grammar().messages.values() if m.table} | set(schema.SCHEMA))


def _check_name(name: str) -> None:
    if name in schema.SCHEMA:
        return  # all but a few; the others stand in the grammar
    known = _known_names()
    if name not in known:
        raise UsageError(f"no table is called {name!r}" + near(name, known))


def near(name: str, known: Iterable[str]) -> str:
    """``; did you mean X?`` with the nearest of the known names, or nothing."""
    found = difflib.get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""


def build_run(
    tables: Mapping[str, pl.DataFrame],
    reader: LineReader | None = None,
    later: Mapping[str, Deferred] | None = None,
    inputs: Iterable[InputFile] = (),
    placing: Placing | None = None,
) -> Run:
    """A run whose tables have all the columns of ``schema.SCHEMA``; those of ``later`` are made when asked for."""
    later = later or {}
    frames = {n: schema.complete(n, frame) for n, frame in tables.items() if n not in later}
    return Run(Tables(frames, later, placing), reader or NoLines(), tuple(inputs))
