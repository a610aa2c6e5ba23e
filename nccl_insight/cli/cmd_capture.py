"""``nccl-insight capture``: run collectives, or any command, with the right settings and keep everything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from nccl_insight.base.errors import NotJudgedError, UsageError
from nccl_insight.cli.choices import Backend, option

if TYPE_CHECKING:
    from nccl_insight.live.capture.environment import World
    from nccl_insight.live.capture.parent import Captured
    from nccl_insight.live.capture.plan import Plan


def capture(
    command: list[str] | None = typer.Argument(
        None, metavar="[-- CMD...]", help="Run this instead of the built-in sweep."
    ),
    output: Path | None = option("capture --output", None, "-o"),
    backend: Backend = option("capture --backend", "nccl"),
    nproc: int = option("capture --nproc", 0, min=0),
    ops: str = option("capture --ops", "all_reduce"),
    min_bytes: str = option("capture --min-bytes", "8"),
    max_bytes: str = option("capture --max-bytes", ""),
    factor: int = option("capture --factor", 8),
    iterations: int = option("capture --iters", 20, min=1),
    warmup: int = option("capture --warmup", 5, min=0),
    deadline: float = option("capture --deadline", 0.0, min=0.0),
    dtype: Literal["float32", "float16", "bfloat16", "int32"] = option("capture --dtype", "float32"),
    profile: bool = option("capture --profile/--no-profile", True),
    inject: str = option("capture --inject", ""),
    export: bool = option("capture --export", False),
    archive: Path | None = option("capture --archive", None),
) -> None:
    """Run collectives on this node (or the launcher's world) and keep logs, traces, timings and topology.

    `capture -- CMD` runs CMD with the same settings. The directory is read whole by `analyze`.
    Exit codes: 0 done, 1 a process failed, 2 usage, 3 no GPU or no torch, 5 the deadline passed.
    """
    import os

    from nccl_insight.live.capture import parent, plan
    from nccl_insight.live.capture.archive import pack
    from nccl_insight.live.capture.environment import world_of

    environ = dict(os.environ)
    if archive is not None and not archive.absolute().parent.is_dir():
        raise UsageError(f"{archive}: its directory does not exist")
    world = world_of(environ)
    if command:
        done = parent.wrap(command, _place(output, world), deadline or None, environ, world)
    else:
        largest = max_bytes or ("256M" if backend == "nccl" else "8M")
        wanted = plan.Plan(
            backend=backend,
            ops=plan.parse_ops(ops),
            sizes=plan.sweep(plan.parse_size(min_bytes), plan.parse_size(largest), factor),
            iterations=iterations,
            warmup=warmup,
            profile_steps=30 if profile else 0,
            dtype=dtype,
            slow_rank=plan.parse_injection(inject) if inject else None,
        )
        ranks = _ranks(wanted, nproc, world, environ)
        done = parent.capture(wanted, parent.Launch(_place(output, world), ranks, deadline or 300.0, environ, world))
    _tell(done, export, on_cpu=not command and backend == "gloo")
    if done.unusable:
        raise NotJudgedError(done.unusable)
    if archive is not None and (world is None or world.rank == 0):
        typer.echo(f"{archive}: {pack(done.directory, archive):,} bytes")
    raise typer.Exit(done.code)


def _ranks(wanted: Plan, nproc: int, world: World | None, environ: Mapping[str, str]) -> int:
    """How many ranks there will be; those of this node without a launcher."""
    from nccl_insight.live.capture import parent

    here = parent.require_gpu(environ) if wanted.backend == "nccl" else 2
    ranks = world.size if world else nproc or here
    if wanted.slow_rank is not None and wanted.slow_rank >= ranks:
        raise UsageError(f"--inject slow-rank={wanted.slow_rank}: there are only {ranks} ranks")
    parent.require_torch()
    return ranks


def _place(output: Path | None, world: World | None) -> Path:
    from nccl_insight.live.capture import parent

    return parent.join_directory(output, world) if world else parent.make_directory(output or _fresh())


def _tell(done: Captured, export: bool, on_cpu: bool) -> None:
    """What was run, measured and kept."""
    from nccl_insight.live.capture import parent

    directory = done.directory
    typer.echo(parent.describe(done), err=True)
    for line in parent.export_reports(directory) if export else ():
        typer.echo(line, err=True)
    if on_cpu:
        typer.echo("gloo: CPU tensors, no GPU, no NCCL log; timings say nothing about GPU links")
    for line in (*_table(directory), *parent.left_out(directory)):
        typer.echo(line)
    if directory.is_dir() and all(path.name.startswith((".", "capture.")) for path in directory.iterdir()):
        typer.echo(f"nothing was written into {directory}: the command did not start NCCL, or cleared NCCL_DEBUG_FILE")
    else:
        typer.echo(f"captured in {directory}; next: nccl-insight analyze {directory}")


def _fresh() -> Path:
    """The first free ``nccl-capture-N`` of the working directory."""
    number = 1
    while Path(f"nccl-capture-{number}").exists():
        number += 1
    return Path(f"nccl-capture-{number}")


def _table(directory: Path) -> list[str]:
    """The largest message of each operation, with its bandwidth."""
    import polars as pl

    from nccl_insight.base.units import format_bytes, plural
    from nccl_insight.inputs.find import find_inputs
    from nccl_insight.readers.capture import FORMAT

    path = directory / "capture.rank0.jsonl"
    if not path.exists():
        return []
    rows = FORMAT.read(find_inputs([str(path)])[0]).tables.get("benchmarks")
    if rows is None:
        return ["no measurement was finished"]
    best = rows.sort("size_bytes").group_by("op", maintain_order=True).last()
    lines = []
    for row in best.select("op", "size_bytes", "time_us", "busbw_gbps", "wrong", "nranks").iter_rows(named=True):
        busbw = "-" if row["busbw_gbps"] is None else f"{row['busbw_gbps']:.2f}"
        lines.append(
            f"{row['op']:<14} {format_bytes(row['size_bytes']):>10}  {plural(row['nranks'], 'rank')}  "
            f"{row['time_us']:>12.1f} us  busbw {busbw:>8} GB/s  wrong {row['wrong']}"
        )
    wrong = rows.filter(pl.col("wrong") > 0)
    return [*lines, *([f"WRONG RESULTS in {wrong.height} of {rows.height} measurements"] if wrong.height else [])]
