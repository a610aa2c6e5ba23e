"""Where NCCL's memory goes: bytes by rank and purpose, on the GPU and in the host's memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import polars as pl

from nccl_insight.model import Analysis
from nccl_insight.report.figures import svg
from nccl_insight.report.figures.base import MAX_ROWS, Figure
from nccl_insight.report.figures.nodes import named_ranks
from nccl_insight.tables.run import Run
from nccl_insight.units import format_bytes, format_ranks, plural

_COLORS = 6
_SHOWN = 24
_BAR, _ROW, _TOP = 620.0, 30.0, 14.0
_LEAST = 1 << 20


def memory(analysis: Analysis, run: Run) -> Figure | None:
    """One bar per rank and place, ranks with the same amounts in one row; None below 1 MiB in all."""
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
    purposes = (
        parts.group_by("purpose")
        .agg(pl.col("bytes").sum())
        .sort(["bytes", "purpose"], descending=[True, False])
    )
    named = (
        purposes["purpose"].to_list()[: _COLORS - 1]
        if purposes.height > _COLORS
        else purposes["purpose"].to_list()
    )
    rows = _rows(parts)
    listed = frame.sort(["bytes", "rank"], descending=[True, False], nulls_last=True).head(MAX_ROWS)
    table = [
        (
            "unknown" if row["rank"] is None else str(row["rank"]), row["host"] or "unknown", row["place"],
            row["comm_id"] or "unknown", row["purpose"] or "other", format_bytes(row["bytes"]), f"{row['count']:,}",
            format_bytes(row["peak_bytes"] or row["bytes"]),
        )
        for row in listed.iter_rows(named=True)
    ]  # fmt: skip
    return Figure(
        "memory", "Where NCCL's memory goes", _said(parts, purposes), (
            "Rank", "Host", "Place", "Communicator", "Purpose", "Bytes", "Allocations", "Peak",
        ), tuple(table), frame.height, (0, 5, 6, 7), "Memory by rank, communicator and purpose, most first",
        svg=_draw(rows, named, named_ranks(analysis)), wide=True,
    )  # fmt: skip


Row = tuple[str, tuple[int, ...], dict[str, int]]


def _rows(parts: pl.DataFrame) -> list[Row]:
    """``(place, ranks, bytes by purpose)``, the most bytes first; GPU memory before the host's."""
    alike: dict[tuple[str, tuple[tuple[str, int], ...]], list[int]] = defaultdict(list)
    for (place, _, _), part in parts.group_by("place", "host", "pid", maintain_order=True):
        amounts = tuple(zip(part["purpose"].to_list(), part["bytes"].to_list(), strict=True))
        rank = part["rank"][0]
        alike[str(place), amounts].append(-1 if rank is None else int(rank))
    rows = [(place, tuple(sorted(ranks)), dict(amounts)) for (place, amounts), ranks in alike.items()]
    return sorted(rows, key=lambda row: (row[0], -sum(row[2].values()), row[1]))


def _said(parts: pl.DataFrame, purposes: pl.DataFrame) -> str:
    said = []
    for place, word in (("device", "GPU"), ("host", "host")):
        sums = (
            parts.filter(pl.col("place") == place)
            .group_by("host", "pid")
            .agg(pl.col("bytes").sum(), pl.col("rank").max())
        )
        if sums.is_empty():
            continue
        top = sums.sort(["bytes", "rank"], descending=[True, False], nulls_last=True).row(0, named=True)
        who = f"rank {top['rank']}" if top["rank"] is not None else "one process"
        same = int(sums["bytes"].n_unique()) == 1 and sums.height > 1
        said.append(
            f"{word} memory: {format_bytes(top['bytes'])} "
            + (f"on each of {plural(sums.height, 'process', 'processes')}" if same else f"at most, on {who}")
        )
    first, size = purposes.row(0)
    share = 100 * size / int(purposes["bytes"].sum())
    return f"{'; '.join(said)}; {share:.0f} % of it is for {first}. From the log's allocation lines."


def _draw(rows: Sequence[Row], named: Sequence[str], marked: frozenset[int]) -> str:
    shown = rows[:_SHOWN]
    labels = [_label(place, ranks) for place, ranks, _ in shown]
    left = svg.room(labels, 34)
    most = max(sum(amounts.values()) for _, _, amounts in rows)
    parts = []
    for number, ((place, ranks, amounts), label) in enumerate(zip(shown, labels, strict=True)):
        y, x = _TOP + _ROW * number, left
        hot = any(r in marked for r in ranks)
        known = [r for r in ranks if r >= 0]
        parts.append(svg.text(left - 10, y + 16, label, "t e hot" if hot else "t e", 34, ranks=known))
        for color, purpose in enumerate([*named, "other"]):
            size = amounts.get(purpose, 0) if purpose in named else sum(
                n for p, n in amounts.items() if p not in named
            )  # fmt: skip
            if not size:
                continue
            wide = max(_BAR * size / most, 1.0)
            said = f"{label}: {purpose} {format_bytes(size)} of {place} memory"
            parts.append(
                svg.rect(
                    x, y, wide, _ROW - 8, f"cell m{min(color, _COLORS - 1)}", said, ranks=known, radius=2
                )
            )
            if wide > 7.2 * len(format_bytes(size)) + 8:
                parts.append(svg.text(x + wide / 2, y + 15, format_bytes(size), "t c s ink"))
            x += wide
        parts.append(svg.text(x + 8, y + 16, format_bytes(sum(amounts.values())), "t b"))
    height = _TOP + _ROW * len(shown) + 22
    shades = [(f"cell m{n}", purpose) for n, purpose in enumerate(named)]
    if any(p not in named for _, _, amounts in rows for p in amounts):
        shades.append((f"cell m{_COLORS - 1}", "other"))
    key, wide = svg.legend(left, height - 4, shades)
    parts += key
    if len(rows) > len(shown):
        parts.append(svg.text(left - 10, height - 4, f"and {len(rows) - len(shown)} more", "t e s"))
    width = left + max(_BAR + 90, wide) + 10
    return svg.drawing(width, height + 8, "Memory of NCCL by rank and purpose", parts)


def _label(place: str, ranks: tuple[int, ...]) -> str:
    known = [r for r in ranks if r >= 0]
    if not known:
        who = plural(len(ranks), "process", "processes")
    else:
        who = f"{'rank' if len(known) == 1 else 'ranks'} {format_ranks(known, 3)}"
    return f"{who}, {'GPU' if place == 'device' else 'host'}"
