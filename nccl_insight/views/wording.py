"""Release of NCCL from the wording of its messages, where a host prints no version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from nccl_insight.model import Ref
from nccl_insight.run import Run
from nccl_insight.views.mentions import mentions
from nccl_insight.views.settings import hosts_of, refs

_ERAS: Final = (
    ("2.4-2.18", r"NET/Plugin ?: No plugin found \(libnccl-net"),
    ("2.19-2.20", r"NET/Plugin ?: dlerror=.*No plugin found \(libnccl-net"),
    ("2.21-2.30", r"NET/Plugin: (Could not find: libnccl-net|No plugin found \(libnccl-net)"),
)
"""Releases and how they say that there is no network plugin; every process says it once."""


@dataclass(frozen=True)
class Clash:
    """Two groups of hosts whose wording belongs to different releases."""

    hosts: tuple[str, ...]
    observed: str
    other_hosts: tuple[str, ...]
    expected: str
    evidence: tuple[Ref, ...]


def wording_clashes(run: Run) -> tuple[Clash, ...]:
    """Clashes between hosts: each host has one wording only, and they differ."""
    seen: list[tuple[str, pl.DataFrame]] = []
    for era, pattern in _ERAS:
        rows = mentions(run, pattern, ("plugins", "errors", "unknown")).filter(pl.col("host").is_not_null())
        if rows.height:
            seen.append((era, rows))
    if len(seen) < 2:
        return ()
    usual_era, usual = max(seen, key=lambda s: s[1].height)
    others = hosts_of(usual)
    found: list[Clash] = []
    for era, rows in seen:
        if era == usual_era or set(hosts_of(rows)) & set(others):
            continue
        found.append(Clash(hosts_of(rows), era, others, usual_era, (*refs(rows, 1), *refs(usual, 1))))
    return tuple(found)
