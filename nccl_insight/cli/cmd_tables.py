"""``tables`` and ``query``: the tables as files, and SQL over them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import typer

from nccl_insight.errors import UsageError

_FORMATS = ("parquet", "csv", "ndjson")


def register(app: typer.Typer) -> None:
    """Adds the commands."""

    @app.command()
    def tables(
        paths: list[str] = typer.Argument(
            ..., metavar="PATH...|-", help="Logs, traces, directories, globs, or -."
        ),
        output: Path = typer.Option(..., "--output", "-o", help="Directory for one file per table."),
        format_: str = typer.Option("parquet", "--format", help="parquet, csv or ndjson."),
        input_format: str = typer.Option(
            "auto", "--input-format", help="Kind of the inputs instead of looking."
        ),
        empty: bool = typer.Option(False, "--empty", help="Also write tables without rows."),
    ) -> None:
        """Write the typed tables of a run, one file per table."""
        from nccl_insight import api
        from nccl_insight.cli.frames import write_frames
        from nccl_insight.writing import writing_directory

        if format_ not in _FORMATS:
            raise UsageError(f"--format {format_!r}: use one of {', '.join(_FORMATS)}")
        run = api.load(paths, None if input_format == "auto" else input_format, lazy=True)

        with writing_directory(output, [f.origin for f in run.inputs if f.origin]) as folder:

            def write(name: str) -> bool:
                return write_frames(run.pieces(name), folder / f"{name}.{format_}", format_, empty)

            with ThreadPoolExecutor(2) as pool:
                written = sum(pool.map(write, sorted(run.tables, key=run.height, reverse=True)))
        typer.echo(f"{written} tables written to {output}", err=True)

    @app.command()
    def query(
        sql: str = typer.Argument(..., help="SQL, e.g. 'select host, count(*) from ranks group by host'."),
        paths: list[str] = typer.Argument(
            ..., metavar="PATH...|-", help="Logs, traces, directories, globs, or -."
        ),
        format_: str = typer.Option("table", "--format", help="table, csv or ndjson."),
    ) -> None:
        """Run SQL over the tables of a run."""
        from nccl_insight import api
        from nccl_insight.cli.frames import show_frame
        from nccl_insight.tables.sql import check_sql, select

        check_sql(sql)  # before the inputs are read, which may take long
        typer.echo(show_frame(select(api.load(paths), sql), format_), nl=False)
