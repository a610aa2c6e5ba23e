"""Formatting of sizes, durations, bandwidths and rank sets for people.

Bandwidth is GB/s with 1 GB = 1e9 bytes, as nccl-tests prints it; message sizes are binary (KiB, MiB).
"""

from collections.abc import Iterable
from itertools import groupby

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_TIME = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"))


def format_bytes(size_bytes: float) -> str:
    """Binary size: ``1536`` -> ``1.5 KiB``."""
    value = float(size_bytes)
    for unit in _BINARY:
        if abs(value) < 1024 or unit == _BINARY[-1]:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def format_ns(duration_ns: float) -> str:
    """Duration given in nanoseconds: ``1500`` -> ``1.50 us``."""
    for factor, unit in _TIME:
        if abs(duration_ns) >= factor:
            return f"{duration_ns / factor:.2f} {unit}".replace(".00 ", " ")
    return f"{duration_ns:.0f} ns"


def format_gbps(bandwidth_gbps: float) -> str:
    """Bandwidth in GB/s (1e9 bytes per second)."""
    return f"{bandwidth_gbps:.1f} GB/s" if abs(bandwidth_gbps) < 100 else f"{bandwidth_gbps:.0f} GB/s"


def format_span_gbps(low_gbps: float, high_gbps: float) -> str:
    """``24.1 to 55.4 GB/s`` (1e9 bytes per second); one figure where both read alike."""
    low, high = f"{low_gbps:.1f}", f"{high_gbps:.1f}"
    return f"{high} GB/s" if low == high else f"{low} to {high} GB/s"


def format_ranks(ranks: Iterable[int], limit: int = 12) -> str:
    """Sorted ranks with runs folded: ``0-7,12``; more than ``limit`` runs end in ``... (N ranks)``."""
    ordered = sorted(set(ranks) - {None})  # rows of no rank
    # Ranks that follow one another are as far from their places.
    parts = ([rank for _, rank in part] for _, part in groupby(enumerate(ordered), key=lambda at: at[1] - at[0]))
    runs = [f"{part[0]}-{part[-1]}" if len(part) > 1 else f"{part[0]}" for part in parts]
    if len(runs) > limit:
        return ",".join(runs[:limit]) + f",... ({len(ordered):,} ranks)"
    return ",".join(runs)


def rank_words(ranks: Iterable[int], limit: int = 12) -> str:
    """Ranks for a sentence: ``rank 3`` or ``ranks 0-7,12``; ``limit`` as in :func:`format_ranks`."""
    every = set(ranks)
    return f"{'rank' if len(every) == 1 else 'ranks'} {format_ranks(every, limit)}"


def capital(words: str) -> str:
    """The words as a sentence begins: ``ranks 0-7`` -> ``Ranks 0-7``."""
    return words[:1].upper() + words[1:]


def plural(count: int, word: str, many: str | None = None) -> str:
    """``1 rank``, ``2 ranks``; ``many`` for irregular plurals."""
    return f"{count:,} {word if count == 1 else (many or word + 's')}"


def format_span_s(duration_s: float) -> str:
    """``1.90 s``, ``45 s``, ``31 min``, ``2.5 h``: how long one waits."""
    if duration_s < 120:
        return format_ns(duration_s * 1e9)
    return f"{duration_s / 60:.0f} min" if duration_s < 7200 else f"{duration_s / 3600:.1f} h"


def listed(items: Iterable[str], most: int = 4) -> str:
    """``a, b and 3 more``, each once."""
    every = list(dict.fromkeys(items))
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")
