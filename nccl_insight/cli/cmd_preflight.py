"""``nccl-insight preflight``: a gate for launch scripts."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from nccl_insight.base.errors import UsageError
from nccl_insight.cli.choices import Backend, option

if TYPE_CHECKING:
    from nccl_insight.live.capture.environment import World
    from nccl_insight.live.preflight.gate import Asked
    from nccl_insight.live.preflight.model import Result


def preflight(
    level: str = option("preflight --level", "quick"),
    expect: list[str] = option("preflight --expect", []),
    expect_file: Path | None = option("preflight --expect-file", None),
    write_expect: Path | None = option("preflight --write-expect", None),
    backend: Backend = option("preflight --backend", "nccl"),
    nproc: int = option("preflight --nproc", 0, min=0),
    deadline: float = option("preflight --deadline", 0.0, min=0.0),
    ops: str = option("preflight --ops", ""),
    sizes: str = option("preflight --sizes", ""),
    output: Path | None = option("preflight --output", None, "-o"),
    strict: bool = option("preflight --strict", False),
    format_: str = option("preflight --format", "text"),
    report: list[str] = option("preflight --report", []),
    history: Path | None = option("preflight --history", None),
    only: str = option("preflight --only", ""),
    plugin: list[str] = option("preflight --plugin", []),
    window: float = option("preflight --window", 0.0, min=0.0),
    stress: float = option("preflight --stress", 0.0, min=0.0),
    exit_map: str = option("preflight --exit-map", ""),
    quiet: bool = option("preflight --quiet", False, "-q"),
) -> None:
    """Check this node before a job: settings, devices, limits, libraries, a short all-reduce, expectations.

    Exit codes: 0 go, 1 a check failed, 2 usage, 3 nothing to judge (no GPU), 5 the collective hangs.
    """
    from nccl_insight.live.capture.plan import parse_ops, parse_size
    from nccl_insight.live.preflight import chosen, gate, outputs
    from nccl_insight.live.preflight import expect as expectations
    from nccl_insight.live.preflight.model import parse_exit_map
    from nccl_insight.live.preflight.node import Node

    if format_ not in outputs.FORMATS:
        raise UsageError(f"--format {format_!r} is not known; choose from {', '.join(outputs.FORMATS)}")
    reports = [parse_report(text) for text in report]
    asked = gate.Asked(
        level, backend, nproc, deadline, output=output, strict=strict, only=chosen.names_of(only),
        ops=parse_ops(ops) if ops else (), sizes=[parse_size(text) for text in sizes.split(",")] if sizes else [],
        plugins=[chosen.plugin_of(text) for text in plugin], window_s=window * 3600 or None, stress_s=stress,
        wanted=[*map(expectations.parse, expect), *(expectations.load(expect_file) if expect_file else ())],
        history=history,
    )  # fmt: skip
    codes = parse_exit_map(exit_map) if exit_map else {}
    node = Node(dict(os.environ))
    world = _world(level, node.environ)
    result = gate.judge(asked, node, world)
    if world is None or world.rank == 0:
        _keep(result, asked, reports)
    if write_expect is not None:
        _record(write_expect, result, backend)
    if world is None or world.rank == 0:
        _show(result, format_, quiet)
    elif result.code != 0:
        for check in result.failed:
            typer.echo(f"rank {world.rank}: {check.line()}", err=True)
        typer.echo(result.last_line())
    raise typer.Exit(codes.get(int(result.code), int(result.code)))


def _world(level: str, environ: Mapping[str, str]) -> World | None:
    """The launcher's world, which the level full needs; of the level standard, local rank 0 alone goes on."""
    from nccl_insight.live.capture.environment import local_rank_of, world_of

    world = world_of(environ) if level == "full" else None
    if level == "full" and world is None:
        raise UsageError("--level full runs under the job's launcher (torchrun, srun, mpirun): one preflight per rank")
    local_rank = local_rank_of(environ) if level == "standard" else 0
    if local_rank != 0:
        typer.echo(f"preflight: local rank {local_rank} leaves this node to local rank 0", err=True)
        raise typer.Exit(0)
    return world


def _keep(result: Result, asked: Asked, reports: list[tuple[str, str]]) -> None:
    from nccl_insight.cli.output import write_text
    from nccl_insight.live.preflight import outputs

    if asked.history is not None:
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%MZ")
        outputs.remember(asked.history, result, now)
    for kind, target in reports:
        write_text(target, _render(result, kind))


def _record(file: Path, result: Result, backend: str) -> None:
    """Writes what this node gives as what is expected of it from now on."""
    from nccl_insight.live.preflight import expect as expectations

    if result.failed or not result.judged:
        why = "this node did not pass" if result.failed else "nothing was judged"
        typer.echo(f"{file}: not written, since {why}", err=True)
        return
    varying = () if backend == "nccl" else expectations.RATES  # CPU tensors vary with the load
    count = expectations.save(file, {**result.facts, **dict.fromkeys(varying)})
    typer.echo(f"{file}: {count} expectations recorded", err=True)


def parse_report(text: str) -> tuple[str, str]:
    """Format and file of ``FORMAT=FILE``. Raises UsageError: it has another form."""
    from nccl_insight.live.preflight.outputs import FORMATS

    kind, equals, target = text.partition("=")
    if not equals or not target or kind not in FORMATS[1:]:
        raise UsageError(f"--report {text!r}: write FORMAT=FILE with one of {', '.join(FORMATS[1:])}")
    return kind, target


def _render(result: Result, format_: str) -> str:
    from nccl_insight.live.preflight import outputs

    if format_ == "json":
        return outputs.to_json(result) + "\n"
    if format_ == "junit":
        return outputs.to_junit(result)
    return outputs.to_prometheus(result)


def _show(result: Result, format_: str, quiet: bool) -> None:
    from nccl_insight.cli.output import terminal_width

    if format_ != "text":
        typer.echo(_render(result, format_), nl=False)
        return
    lines = [] if quiet else [check.line() for check in result.checks]
    if not quiet and result.code == 3 and not result.strict:
        lines.append(
            "SKIP  no GPU on this machine: nothing was judged (--level standard --backend gloo tries it on CPUs)"
        )
    for line in lines:
        typer.echo(_fitted(line, terminal_width()))
    typer.echo(result.last_line())


def _fitted(line: str, width: int | None) -> str:
    """A check for a terminal: what to do begins a row of its own where one row is too short."""
    from nccl_insight.report.prose import fit

    apart = width is not None and len(line) > width
    return fit(line.replace("; do: ", f"\n{'':<23}do: ") if apart else line, width)
