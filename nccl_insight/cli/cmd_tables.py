"""``tables`` and ``query``: the tables as files, and SQL over them."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from nccl_insight.base.errors import NotJudgedError, UsageError
from nccl_insight.cli.choices import option, table_names

if TYPE_CHECKING:
    from nccl_insight.tables.run import Run


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(tables)
    app.command()(query)


def tables(
    paths: list[str] = option("tables PATH...|-", ...),
    output: Path = option("tables --output", ..., "-o"),
    format_: Literal["parquet", "csv", "ndjson"] = option("tables --format", "parquet"),
    input_format: str = option("tables --input-format", "auto"),
    empty: bool = option("tables --empty", False),
) -> None:
    """Write the typed tables of a run, one file per table.

    Exit codes: 0 written, 2 usage, 3 written, but nothing in the inputs is of NCCL.
    """
    from nccl_insight.base.threads import in_order
    from nccl_insight.base.writing import writing_directory
    from nccl_insight.cli.frames import write_frames
    from nccl_insight.share import api

    run = api.load(paths, None if input_format == "auto" else input_format, lazy=True)
    empty_handed = _nothing(run, paths)
    with writing_directory(output, [f.origin for f in run.inputs if f.origin]) as folder:

        def write(name: str) -> bool:
            return write_frames(run.pieces(name), folder / f"{name}.{format_}", format_, empty)

        written = sum(in_order(write, sorted(run.tables, key=run.height, reverse=True), 2))
    typer.echo(f"{written} tables written to {output}", err=True)
    if empty_handed:
        raise NotJudgedError(f"tables: {empty_handed}")


def _nothing(run: "Run", paths: list[str]) -> str:
    """Why a run has no row that comes of NCCL or of a job; empty where it has one."""
    from nccl_insight.engine.summary import has_matter

    return "" if has_matter(run) else f"no NCCL line, trace or report in {' '.join(paths)}"


def query(
    words: list[str] | None = typer.Argument(
        None, metavar="[SQL] PATH...|-", help="One SELECT, then logs, traces, directories, globs, or -."
    ),
    format_: Literal["table", "csv", "json", "ndjson"] = option("query --format", "table"),
    list_tables: bool = option("query --tables", False),
    of: str | None = option("query --schema", None, autocompletion=table_names),
    output: str = option("query --output", "-", "-o"),
) -> None:
    """Run SQL over the tables of a run.

    Exit codes: 0 told, 2 usage, 3 told, but nothing in the inputs is of NCCL.
    """
    from nccl_insight.cli.frames import show_frame
    from nccl_insight.cli.output import check_outputs, terminal_width, write_text
    from nccl_insight.cli.progress import progress
    from nccl_insight.facts import relations
    from nccl_insight.share import api
    from nccl_insight.tables import sql as language

    given = list(words or [])
    width = terminal_width() if output == "-" else None
    if of is not None:
        told = relations.columns(of) if of.startswith(relations.PREFIX) else language.columns(of)
        write_text(output, show_frame(told, format_, width))
        return
    if list_tables:
        check_outputs(given, [output])
        frame = language.overview(api.load(given)) if given else relations.overview()
        write_text(output, show_frame(frame, format_, width))
        return
    sql, paths = _sql_and_paths(given)
    check_outputs(paths, [output])
    language.check_sql(sql)  # before the inputs are read, which may take long
    for old, now in language.current(sql)[1].items():
        typer.echo(f"query: the message {old} is called {now} now", err=True)
    with progress(paths):
        run = api.load(paths)
        frame = language.select(relations.with_facts(run, sql), sql)
    write_text(output, show_frame(frame, format_, width))
    if empty_handed := _nothing(run, paths):
        raise NotJudgedError(f"query: {empty_handed}")


def _sql_and_paths(given: list[str]) -> tuple[str, list[str]]:
    """The SQL and the paths, in either order: what begins like a query is one.

    Raises UsageError: one of them is missing.
    """
    found = [word for word in given if word.lstrip(" (").lower().startswith(("select", "with", "show", "explain"))]
    sql = next((word for word in found if " " in word.strip()), given[0] if given else "")
    paths = list(given)
    if sql in paths:
        paths.remove(sql)
    if not sql or not paths:
        raise UsageError("query: give a SELECT and a path; query --tables lists the tables")
    return sql, paths
