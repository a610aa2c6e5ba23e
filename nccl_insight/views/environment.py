"""Versions and settings of the processes, and what the readers note."""

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.tables.run import Run
from nccl_insight.views.listed import LISTED

_NOTES = 20


@dataclass(frozen=True)
class Version:
    """Processes with the same versions; ``ranks`` of the largest communicator.

    ``odd``: fewer than the most common, and another version of NCCL is known.
    """

    nccl: str | None
    cuda: str | None
    driver: str | None
    library: str | None
    network: str | None
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    odd: bool


@dataclass(frozen=True)
class Setting:
    """A value of a setting and who set it; ``values``: how many different values the setting has."""

    name: str
    value: str | None
    origin: str | None
    hosts: tuple[str, ...]
    processes: int
    values: int


@dataclass(frozen=True)
class Environment:
    """The odd versions and the settings that differ first; of each some, and how many there are."""

    versions: tuple[Version, ...]
    n_versions: int
    settings: tuple[Setting, ...]
    n_settings: int


@dataclass(frozen=True)
class Notes:
    """The first notes of the readers: kind, text and line; ``total``: how many there are."""

    notes: tuple[tuple[str, str, int | None], ...]
    total: int


def environment(run: Run) -> Environment | None:
    """Versions and settings, None where no log tells them."""
    if run.table("processes").is_empty() and run.table("env").is_empty():
        return None
    versions, settings = _versions(run), _settings(run)
    # NCCL prints its version on rank 0 only: one that is not known is not another.
    known = versions.drop_nulls("nccl_version")
    most = known["count"].max() if known["nccl_version"].n_unique() > 1 else 0
    return Environment(
        tuple(
            Version(nccl, cuda, driver, library, network, tuple(ranks), tuple(hosts), nccl is not None and count < most)
            for nccl, cuda, driver, library, network, ranks, hosts, count in versions.head(LISTED).iter_rows()
        ),
        versions.height,
        tuple(
            Setting(name, value, origin, tuple(hosts), processes, values)
            for name, value, origin, hosts, processes, values in settings.head(LISTED).iter_rows()
        ),
        settings.height,
    )


def _versions(run: Run) -> pl.DataFrame:
    ranks = (
        run.lazy("ranks")
        .filter(pl.col("nranks") == pl.col("nranks").max())
        .unique(["host", "pid", "rank"], keep="first", maintain_order=True)
        .select("host", "pid", "rank")
    )
    keys = ["nccl_version", "cuda_version", "driver_version", "library", "network"]
    processes = run.lazy("processes").with_columns(pl.col("library", "driver_version").cast(pl.String))
    return (
        processes.join(ranks, on=["host", "pid"], how="left", nulls_equal=True)
        .group_by(keys)
        .agg(
            ranks=pl.col("rank").drop_nulls().unique().sort(),
            hosts=pl.col("host").drop_nulls().unique().sort(),
            count=pl.len(),
        )
        .sort(["count", *keys], nulls_last=True)
        .collect()
    )


def _settings(run: Run) -> pl.DataFrame:
    keys = ["name", "value", "origin"]
    return (
        run.lazy("env")
        .filter(pl.col("name").is_not_null())
        .with_columns(pl.col("origin").cast(pl.String))
        .group_by(keys)
        .agg(hosts=pl.col("host").drop_nulls().unique().sort(), processes=pl.struct("host", "pid").n_unique())
        .with_columns(values=pl.col("value").n_unique().over("name"))
        .sort([pl.col("values") == 1, "name", "processes", "value", "origin"], nulls_last=True)
        .collect()
    )


def notes(run: Run) -> Notes:
    """What the readers note."""
    table = run.table("notes")
    rows = table.head(_NOTES).select(
        pl.col("kind").cast(pl.String).fill_null(""), pl.col("detail").fill_null(""), "line"
    )
    return Notes(tuple(rows.iter_rows()), table.height)
