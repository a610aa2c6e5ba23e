"""What explain-log tells of a run, part by part."""

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Mend, Replayed
from nccl_insight.engine.analyze import replayed
from nccl_insight.tables.run import Run
from nccl_insight.tables.schema import is_loud
from nccl_insight.views.log import choices as chosen
from nccl_insight.views.log import job as members
from nccl_insight.views.log import paths
from nccl_insight.views.rings import Rings, rings
from nccl_insight.views.steps import Spent, spent

_FILES = 6


@dataclass(frozen=True)
class Input:
    """A file, its kind, its lines and how many of them are NCCL's."""

    path: str
    kind: str
    lines: int
    nccl_lines: int


@dataclass(frozen=True)
class Inputs:
    """The first files of ``total``."""

    files: tuple[Input, ...]
    total: int


@dataclass(frozen=True)
class Trouble:
    """Warnings, and the text of the first where the log has it."""

    warnings: int
    first: str | None


def inputs(run: Run) -> Inputs:
    """The files that were read."""
    table = run.table("inputs").select("path", "kind", "lines", "nccl_lines")
    return Inputs(tuple(Input(*row) for row in table.head(_FILES).iter_rows()), table.height)


def trouble(run: Run) -> Trouble | None:
    """The warnings of the log, None without any."""
    loud = run.table("errors").filter(is_loud(pl.col("level")) & (pl.col("level") != "DIAG"))
    texts = loud.get_column("text").drop_nulls()
    return Trouble(loud.height, texts.item(0) if texts.len() else None) if loud.height else None


@dataclass(frozen=True)
class Statistics:
    """A row of the table ``collective_statistics``."""

    op: str | None
    size_bytes: int | None
    group_size: int | None
    process_group: str | None
    count: int
    median_ns: float
    median_busbw_gbps: float | None


@dataclass(frozen=True)
class Log:
    """Parts that are None have nothing to tell."""

    inputs: Inputs
    job: members.Job
    communicators: members.Communicators | None
    network: paths.Network
    transports: paths.Transports | None
    rings: Rings | None
    trees: paths.Trees | None
    algorithms: chosen.Algorithms
    settings: chosen.Settings
    start_up: tuple[chosen.StartUp, ...]
    calls: tuple[chosen.Calls, ...] | None
    steps: Spent | None
    mends: tuple[Mend, ...]
    replay: Replayed | None
    statistics: tuple[Statistics, ...]
    trouble: Trouble | None
    limits: chosen.Limits | None


def log(run: Run) -> Log:
    """Everything that is told of a run."""
    mends, replay = replayed(run)
    # The collectives by operation and size, those that take most first.
    columns = ("op", "size_bytes", "group_size", "process_group", "count", "median_ns", "median_busbw_gbps")
    return Log(
        inputs=inputs(run),
        job=members.job(run),
        communicators=members.communicators(run),
        network=paths.network(run),
        transports=paths.transports(run),
        rings=rings(run),
        trees=paths.trees(run),
        algorithms=chosen.algorithms(run),
        settings=chosen.settings(run),
        start_up=chosen.start_up(run),
        calls=chosen.calls(run),
        steps=spent(run),
        mends=mends,
        replay=replay,
        statistics=tuple(Statistics(*row) for row in run.table("collective_statistics").select(columns).iter_rows()),
        trouble=trouble(run),
        limits=chosen.limits(run),
    )
