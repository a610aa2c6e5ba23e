"""SQL over the tables of a run, and over nothing else: no function that opens files or connections."""

import re
from collections.abc import Mapping
from typing import Final

import polars as pl

from nccl_insight.base import toml
from nccl_insight.base.errors import UsageError
from nccl_insight.language.load import default_grammar
from nccl_insight.tables import declared, schema
from nccl_insight.tables.run import Run, near

# One alternative for each way in which SQL quotes: the parser of polars is of the generic dialect, without backslashes.
_TOKEN: Final = re.compile(
    r"""(?P<blank>\s+|--[^\n]*)|(?P<text>'(?:[^']|'')*')|(?P<name>"(?:[^"]|"")*"|`(?:[^`]|``)*`)"""
    r"""|(?P<word>[^\W\d]\w*)|(?P<number>\d[\w.]*)|(?P<sign>[-+*/%<>=!|&~^(),.;:?\[\]])"""
)
_STATEMENTS: Final = frozenset({"select", "with", "show", "explain"})


# Functions on values, and words that stand before a parenthesis and call nothing.
_CALLED: Final = frozenset(word for words in toml.beside(__file__).values() for word in words)
_UNKNOWN_TABLE: Final = re.compile(r"relation '([^']{1,80})' was not found")
_UNKNOWN_COLUMN: Final = re.compile(r"unable to find column \"([^\"]{1,80})\"")
_TEXT: Final = re.compile(r"'([a-z][a-z0-9_]{2,80})'")
# A source in a plan that is no table of the run: "Csv SCAN [file]", "PYTHON SCAN".
_SCAN: Final = re.compile(r"^\W*(?:[A-Z][A-Za-z]* +)?SCAN\b", re.M)
_LONGEST: Final = 20_000
# The parser goes down once for each of these; thousands end the process.
_DEEPEST: Final = 50
_MOST_TOKENS: Final = 4_000
_MOST_IN_A_ROW: Final = 500


def check_sql(sql: str) -> None:
    """Refuses SQL that could read anything but the tables of the run, or bring the process down.

    The text is cut into the tokens of polars' parser, all ways of quoting among them; what is no token is refused. Then
    a list of what is allowed decides: kinds of statement, functions, and lengths. Raises UsageError: why it is refused.
    """
    if len(sql) > _LONGEST:
        raise UsageError(f"query: the SQL is longer than {_LONGEST:,} characters")
    tokens = _tokens(sql)
    first = next((text for kind, text in tokens if text != "("), "")
    if first not in _STATEMENTS:
        raise UsageError("query: only SELECT, WITH, SHOW TABLES and EXPLAIN are understood")
    if [text for _, text in tokens[:2]] == ["with", "recursive"] or ("word", "recursive") in tokens:
        raise UsageError("query: WITH RECURSIVE is not supported")
    depth = chain = 0
    for (kind, text), (_, after) in zip(tokens, [*tokens[1:], ("", "")], strict=True):
        depth += (text in ("(", "case", "[")) - (text in (")", "end", "]"))
        chain = 0 if text in (",", ")", "from", "where") else chain + 1
        if depth > _DEEPEST or chain > _MOST_IN_A_ROW:
            raise UsageError("query: the SQL is nested too deeply")
        if after == "(" and (kind == "name" or (kind == "word" and text not in _CALLED)):
            raise UsageError(f"query: {text}() is not available: only functions on values in the tables of the run are")
        if kind == "word" and text in ("from", "join") and after.startswith("'"):
            raise UsageError("query: a text stands in the place of a table; query --tables lists the tables")


def _tokens(sql: str) -> list[tuple[str, str]]:
    """Kind and text of each token, words in lower case."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(sql):
        match = _TOKEN.match(sql, at)
        kind = match.lastgroup if match else None
        glued = match is not None and kind == "word" and sql[match.end() : match.end() + 1] == "'"
        if match is None or kind is None or glued or sql.startswith("/*", at):
            shown = sql[at : at + 20].split("\n")[0]
            raise UsageError(f"query: cannot be read from here: {shown!r}")
        if kind != "blank":
            found.append((kind, match[0].lower() if kind == "word" else match[0]))
        at = match.end()
        if len(found) > _MOST_TOKENS:
            raise UsageError("query: the SQL is too long")
    return found


def current(sql: str) -> tuple[str, Mapping[str, str]]:
    """The SQL with the present names of messages in place of older ones, and which were replaced (old: new)."""
    renamed = default_grammar().renamed
    found = {old: renamed[old] for old in _TEXT.findall(sql) if old in renamed}
    return _TEXT.sub(lambda m: f"'{found.get(m[1], m[1])}'", sql), found


def select(run: Run, sql: str) -> pl.DataFrame:
    """The result of a SELECT over the tables of a run, by their names. Older names of messages are understood.

    Raises UsageError: the SQL is wrong, or could read anything but the tables.
    """
    check_sql(sql)
    sql, _ = current(sql)
    context = pl.SQLContext(frames={name: frame.lazy() for name, frame in run.tables.items()})
    try:
        plan = context.execute(sql, eager=False)
        if _SCAN.search(plan.explain(optimized=False)):
            raise UsageError("query: only the tables of the run can be read")
        return plan.collect()
    except (pl.exceptions.PolarsError, ValueError) as error:
        said = str(error).splitlines()[0]
        unknown = _UNKNOWN_TABLE.search(said)
        if unknown:
            said = f"no table is called {unknown[1]!r}{near(unknown[1], run.tables)} (query --tables lists them)"
        elif column := _UNKNOWN_COLUMN.search(said):
            known = {name for table in run.tables if table in sql for name in run.table(table).columns}
            said = f"no column is called {column[1]!r}{near(column[1], known)} (query --schema TABLE lists them)"
        raise UsageError(f"query: {said}") from error


def overview(run: Run | None = None) -> pl.DataFrame:
    """Names of the tables with their number of columns; of a run with their rows, the empty ones left out.

    Columns: ``table, rows, columns`` (``rows`` only for a run).
    """
    if run is None:
        rows = [(name, len(columns)) for name, columns in sorted(schema.SCHEMA.items())]
        return pl.DataFrame(rows, schema={"table": pl.String, "columns": pl.Int64}, orient="row")
    return run.tables()


def columns(table: str) -> pl.DataFrame:
    """Columns of a table: ``column, type, meaning``; units stand in the names of the columns.

    Raises UsageError: there is no table of that name; the message gives the nearest one.
    """
    if table not in schema.SCHEMA:
        raise UsageError(f"no table is called {table!r}{near(table, schema.SCHEMA)} (query --tables lists them)")
    meant = declared.sentences(declared.declaration())[table]
    rows = [(name, _type(kind), meant[name]) for name, kind in schema.SCHEMA[table].items()]
    return pl.DataFrame(rows, schema=["column", "type", "meaning"], orient="row")


def _type(kind: pl.DataType | type[pl.DataType]) -> str:
    if isinstance(kind, pl.Enum):
        return "one of " + ", ".join(kind.categories)
    return str(kind)
