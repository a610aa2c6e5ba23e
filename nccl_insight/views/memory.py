"""NCCL's memory by rank and purpose, on the GPU (``device``) and in the host's memory (``host``)."""

from collections import defaultdict
from collections.abc import Mapping

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.tables.run import Run
from nccl_insight.views.listed import LISTED

_LEAST = 1 << 20


@dataclass(frozen=True)
class Processes:
    """Processes with the same amounts in one place; ``ranks``: those that are known; bytes by purpose."""

    place: str
    processes: int
    ranks: tuple[int, ...]
    bytes: Mapping[str, int]


@dataclass(frozen=True)
class Place:
    """GPU or host memory: the process with most bytes, its rank where known, and whether all have as many."""

    place: str
    processes: int
    most_bytes: int
    rank: int | None
    alike: bool


@dataclass(frozen=True)
class Amount:
    """A row of the table ``nccl_memory``; ``peak_bytes`` where the log tells it."""

    rank: int | None
    host: str | None
    place: str
    comm_id: str | None
    purpose: str | None
    bytes: int
    count: int
    peak_bytes: int | None


@dataclass(frozen=True)
class Memory:
    """Allocations of the log. ``purposes``: name and bytes, most first. ``amounts``: of ``n_amounts`` the largest."""

    places: tuple[Place, ...]
    purposes: tuple[tuple[str, int], ...]
    processes: tuple[Processes, ...]
    amounts: tuple[Amount, ...]
    n_amounts: int


def memory(run: Run) -> Memory | None:
    """NCCL's memory, None below 1 MiB in all."""
    frame = run.table("nccl_memory").filter(pl.col("bytes") > 0)
    parts = (
        frame.with_columns(pl.col("place").cast(pl.String), pl.col("purpose").fill_null("other"))
        .group_by("place", "host", "pid", "purpose")
        .agg(pl.col("rank").drop_nulls().min(), pl.col("bytes").sum(), pl.col("count").sum())
        .with_columns(pl.col("rank").max().over("host", "pid"))
        .sort("place", "rank", "host", "pid", "purpose", nulls_last=True)
    )
    if parts.is_empty() or int(parts["bytes"].sum()) < _LEAST:
        return None
    purposes = parts.group_by("purpose").agg(pl.col("bytes").sum()).sort(["bytes", "purpose"], descending=[True, False])
    listed = frame.sort(["bytes", "rank"], descending=[True, False], nulls_last=True).head(LISTED)
    columns = ("rank", "host", "place", "comm_id", "purpose", "bytes", "count", "peak_bytes")
    return Memory(
        places=_places(parts),
        purposes=tuple((str(name), int(size)) for name, size in purposes.iter_rows()),
        processes=_processes(parts),
        amounts=tuple(Amount(*row) for row in listed.select(columns).iter_rows()),
        n_amounts=frame.height,
    )


def _processes(parts: pl.DataFrame) -> tuple[Processes, ...]:
    """The most bytes first; GPU memory before the host's."""
    alike: dict[tuple[str, tuple[tuple[str, int], ...]], list[int]] = defaultdict(list)
    for (place, _, _), part in parts.group_by("place", "host", "pid", maintain_order=True):
        amounts = tuple(zip(part["purpose"].to_list(), part["bytes"].to_list(), strict=True))
        rank = part["rank"][0]
        alike[str(place), amounts].append(-1 if rank is None else int(rank))
    rows = [(place, sorted(ranks), dict(amounts)) for (place, amounts), ranks in alike.items()]
    rows.sort(key=lambda row: (row[0], -sum(row[2].values()), row[1]))
    return tuple(
        Processes(place, len(ranks), tuple(r for r in ranks if r >= 0), amounts) for place, ranks, amounts in rows
    )


def _places(parts: pl.DataFrame) -> tuple[Place, ...]:
    found = []
    for place in ("device", "host"):
        sums = (
            parts.filter(pl.col("place") == place)
            .group_by("host", "pid")
            .agg(pl.col("bytes").sum(), pl.col("rank").max())
        )
        if sums.is_empty():
            continue
        top = sums.sort(["bytes", "rank"], descending=[True, False], nulls_last=True).row(0, named=True)
        alike = sums.height > 1 and int(sums["bytes"].n_unique()) == 1
        found.append(Place(place, sums.height, int(top["bytes"]), top["rank"], alike))
    return tuple(found)
