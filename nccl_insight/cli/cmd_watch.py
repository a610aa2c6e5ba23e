"""``nccl-insight watch``: who lags in a job that runs, since when, one line per change."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from nccl_insight.base.errors import UsageError
from nccl_insight.cli.choices import option

if TYPE_CHECKING:
    from nccl_insight.live.watch.progress import Event


def watch(
    paths: list[str] = option("watch PATH", None, show_default=False),
    ras: str = option("watch --ras", ""),
    interval: float = option("watch --interval", 5.0, min=0.1),
    patience: float = option("watch --patience", 10.0, min=0.0),
    stall: float = option("watch --stall", 60.0, min=1.0),
    for_: float = option("watch --for", 0.0, min=0.0),
    pid: int = option("watch --pid", 0, min=0),
    every: list[str] = option("watch --every", []),
    json_: bool = option("watch --json", False),
    exec_: str = option("watch --exec", ""),
    metrics: str = option("watch --metrics", ""),
) -> None:
    """Watch a job that runs: one line when a rank falls behind, does not answer, or nothing goes on.

    Reads what files grow by and asks RAS (NCCL 2.24 and later, on a node of the job). Changes nothing in the job.
    Exit codes: 0 the job ran or completed, 1 a stall, a lost rank or a failure was seen, or ranks lag at the end,
    2 usage, 3 nobody answers.
    """
    import datetime

    from nccl_insight.live.watch import loop
    from nccl_insight.live.watch.outputs import Command, Metrics, to_json
    from nccl_insight.live.watch.progress import Watch
    from nccl_insight.live.watch.ras import parse_address

    _check(paths or ())
    job = loop.Job(
        paths or (),
        parse_address(ras) if ras or not paths else None,
        pid or None,
        [loop.Every.parse(text) for text in every],
    )
    state = Watch(patience, stall)
    with contextlib.ExitStack() as stack:
        command = stack.enter_context(contextlib.closing(Command(exec_))) if exec_ else None
        page = stack.enter_context(contextlib.closing(Metrics(metrics))) if metrics else None
        stack.enter_context(contextlib.suppress(KeyboardInterrupt))
        show = functools.partial(page.show, state) if page is not None else None
        for event in loop.watch(job, state, interval, for_ or None, looked=show):
            utc = datetime.datetime.now(datetime.timezone.utc)
            line = to_json(event, utc.isoformat(timespec="seconds").replace("+00:00", "Z"))
            said = command.run(event, line) if command is not None and event.kind != "note" else ()
            typer.echo(line if json_ else _text(event))
            for text in said:
                typer.echo(text, err=True)
    raise typer.Exit(1 if state.troubled else 0)


def _check(paths: Sequence[str]) -> None:
    from nccl_insight.inputs.find import shown

    for path in paths:
        if not os.path.lexists(path):
            raise UsageError(f"{shown(path)}: no such file or directory")
        if not (os.path.isfile(path) or os.path.isdir(path)):
            raise UsageError(f"{shown(path)}: not a file or directory; a pipe cannot be watched: give a file")


def _text(event: Event) -> str:
    """An event with the time, and what to do next."""
    clock = time.strftime("%H:%M:%S")
    return "\n".join([f"{clock} {event.text}", *(f"{' ' * len(clock)} next: {each}" for each in event.commands)])
