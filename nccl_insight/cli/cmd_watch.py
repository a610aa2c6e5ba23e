"""``nccl-insight watch``: who lags in a job that runs, since when, one line per change."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Adds the command."""

    @app.command()
    def watch(
        paths: list[str] = typer.Argument(
            None,
            metavar="PATH",
            help="Growing logs, Inspector files, or directories of them.",
            show_default=False,
        ),
        ras: str = typer.Option(
            "", "--ras", help="Ask NCCL's RAS service there (localhost:28028 if no path is given)."
        ),
        interval: float = typer.Option(5.0, "--interval", min=0.1, help="Seconds between two looks."),
        patience: float = typer.Option(
            10.0, "--patience", min=0.0, help="Seconds that a rank may be behind before it is named."
        ),
        stall: float = typer.Option(
            60.0, "--stall", min=1.0, help="Seconds without a new operation that count as a stall."
        ),
        for_: float = typer.Option(
            0.0, "--for", min=0.0, help="End after so many seconds (default: Ctrl-C)."
        ),
    ) -> None:
        """Watch a job that runs: one line when a rank falls behind, does not answer, or nothing goes on.

        Reads what files grow by and asks RAS (NCCL 2.24 and later, on a node of the job). Changes nothing in the job.
        Exit codes: 0 all ranks go on, 1 ranks lag or stall when it ends, 2 usage, 3 nobody answers.
        """
        import os

        from nccl_insight.errors import UsageError
        from nccl_insight.inputs.find import shown
        from nccl_insight.live.watch import loop
        from nccl_insight.live.watch.progress import Watch
        from nccl_insight.live.watch.ras import parse_address

        for path in paths or ():
            if not os.path.lexists(path):
                raise UsageError(f"{shown(path)}: no such file or directory")
            if not (os.path.isfile(path) or os.path.isdir(path)):
                raise UsageError(
                    f"{shown(path)}: not a file or directory; a pipe cannot be watched: give a file"
                )
        address = parse_address(ras) if ras or not paths else None
        state = Watch(patience, stall)
        try:
            for line in loop.watch(paths or (), address, state, interval, for_ or None):
                typer.echo(line)
        except KeyboardInterrupt:
            pass
        raise typer.Exit(1 if state.troubled else 0)
