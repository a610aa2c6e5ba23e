"""Copies that a capture measured beside collectives."""

from collections.abc import Mapping

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.facts.lateness import copies
from nccl_insight.tables.run import Run
from nccl_insight.views.listed import LISTED


@dataclass(frozen=True)
class HostCopy:
    """Copies of pinned memory of a rank's GPU in one direction (``h2d``, ``d2h``), GB/s (1e9).

    ``typical``: the median of the node. ``odd``: far below it.
    """

    host: str | None
    rank: int | None
    direction: str
    gbps: float
    typical: float | None
    odd: bool


@dataclass(frozen=True)
class PeerCopy:
    """Copies from one GPU of a node to another, GB/s (1e9); ``typical`` and ``odd`` as in :class:`HostCopy`."""

    host: str | None
    src: int
    dst: int
    gbps: float
    typical: float | None
    odd: bool


@dataclass(frozen=True)
class HostCopies:
    """All host copies by rank and direction; ``span``: the slowest and the fastest; ``odd_ranks``: how many ranks."""

    copies: tuple[HostCopy, ...]
    span: tuple[float, float]
    odd_ranks: int


@dataclass(frozen=True)
class PeerCopies:
    """All pairs of GPUs; some listed, the slowest first. ``worst``: those of the node of the slowest, by (from, to)."""

    pairs: int
    hosts: int
    odd: int
    span: tuple[float, float]
    slowest: tuple[PeerCopy, ...]
    worst_host: str | None
    gpus: tuple[int, ...]
    worst: Mapping[tuple[int, int], float]


def host_copies(run: Run) -> HostCopies | None:
    """Copies between host and GPUs, None where none were measured."""
    rows = copies.host_copies(run)
    if rows.is_empty():
        return None
    listed = rows.sort("rank", "direction").select("host", "rank", "direction", "gbps", "typical", "odd")
    odd = rows.filter("odd")["rank"].n_unique()
    return HostCopies(tuple(HostCopy(*row) for row in listed.iter_rows()), copies.reach(rows), odd)


def peer_copies(run: Run) -> PeerCopies | None:
    """Copies between GPUs, None where none were measured."""
    rows = copies.peer_copies(run)
    if rows.is_empty():
        return None
    by_speed = rows.sort("gbps").select("host", "src", "dst", "gbps", "typical", "odd")
    host = by_speed["host"][0]
    here = rows.filter(pl.col("host").eq_missing(pl.lit(host, dtype=pl.String)))
    return PeerCopies(
        pairs=rows.height,
        hosts=rows["host"].n_unique(),
        odd=rows.filter("odd").height,
        span=copies.reach(rows),
        slowest=tuple(PeerCopy(*row) for row in by_speed.head(LISTED).iter_rows()),
        worst_host=host,
        gpus=tuple(sorted(set(here["src"]) | set(here["dst"]))),
        worst={(src, dst): gbps for src, dst, gbps in here.select("src", "dst", "gbps").iter_rows()},
    )
