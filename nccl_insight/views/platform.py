"""GPUs, NICs and settings of a job, as tickets name them."""

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.facts.fabric.networks import nics
from nccl_insight.facts.figures.expected import gpu_of
from nccl_insight.facts.setup.user_settings import user_settings
from nccl_insight.tables.run import Run

_NAMES = 8


@dataclass(frozen=True)
class Nics:
    """NICs of the host that has most, their speeds, and some names."""

    per_host: int
    speeds_gbit: tuple[int, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Platform:
    """``gpu``: the model, where it is known. ``settings``: what the user set, name and value."""

    gpu: str | None
    nics: Nics | None
    settings: tuple[tuple[str, str], ...]


def platform(run: Run) -> Platform:
    """The platform of a run."""
    known = gpu_of(run)
    settings = tuple((s.name, s.value) for s in user_settings(run))
    return Platform(known.name if known else None, _nics(run), settings)


def _nics(run: Run) -> Nics | None:
    listed = nics(run)
    if listed.is_empty():
        return None
    return Nics(
        int(str(listed.group_by("host").agg(pl.col("name").n_unique().alias("n"))["n"].max())),
        tuple(sorted({int(s) for s in listed["speed_gbit"].drop_nulls()})),
        tuple(sorted({str(n) for n in listed["name"].drop_nulls()})[:_NAMES]),
    )
