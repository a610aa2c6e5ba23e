"""Bandwidth arithmetic of collectives: bytes that count, algbw, busbw, and the groups of operations.

Definitions follow nccl-tests (``doc/PERFORMANCE.md``): 1 GB = 1e9 bytes, ``algbw = S / t`` and ``busbw = algbw x
factor(op, n)``. ``S`` is the whole buffer: AllGather counts its full output, ReduceScatter its full input,
AllToAll, Gather and Scatter the buffers of all ranks together. With one rank every factor would be 0, which says
nothing: the result is then unknown (None / null), never "0 GB/s".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nccl_insight.base import toml

if TYPE_CHECKING:  # what needs names of operations alone does without
    import polars as pl

# The factors from algbw to busbw: 2 (n - 1) / n, (n - 1) / n, and 1.
_TWICE: Final = frozenset({"AllReduce"})
SHARED: Final = frozenset({"AllGather", "ReduceScatter", "AllToAll", "AllToAllv", "Gather", "Scatter"})
_PLAIN: Final = frozenset({"Broadcast", "Reduce", "Send", "Recv", "SendRecv"})
# S is the count that a rank passes times the number of ranks; AllToAllv has a count for each peer.
PER_RANK: Final = frozenset({"AllGather", "ReduceScatter", "AllToAll", "Gather", "Scatter"})
# Operations whose S is the buffer that a rank passes.
OWN: Final = _TWICE | _PLAIN
# The collectives of NCCL's tuning model (NCCL_NUM_FUNCTIONS).
BULK: Final = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce")
# No rank is through before all have come.
SYNCHRONISING: Final = ("AllReduce", "AllGather", "ReduceScatter", "AllToAll", "AllToAllv", "Barrier")
# With experts, as many bytes as the router sends tokens: no two of one size.
BY_TOKENS: Final = ("AllToAll", "AllToAllv")

_DTYPE_BYTES: Final = {name: int(size) for size, names in toml.beside(__file__).items() for name in names}


def _dtype_key(name: str) -> str:
    key = name.strip().lower()
    for prefix in ("nccl", "torch.", "c10::"):
        key = key.removeprefix(prefix)
    return key


def dtype_size(name: str | None) -> int | None:
    """Bytes of one element, by any of the names that torch, NCCL and nccl-tests print; None if unknown."""
    return None if name is None else _DTYPE_BYTES.get(_dtype_key(name))


def dtype_size_expr(dtype: pl.Expr) -> pl.Expr:
    """Bytes of one element for a column of type names (UInt64, null if unknown)."""
    import polars as pl

    key = dtype.cast(pl.String).str.to_lowercase().str.replace(r"^(nccl|torch\.|c10::)", "")
    return key.replace_strict(list(_DTYPE_BYTES), list(_DTYPE_BYTES.values()), default=None, return_dtype=pl.UInt64)


def busbw_factor(op: str, nranks: int | None) -> float | None:
    """Factor from algbw to busbw; None for an unknown op, an unknown number of ranks or one rank."""
    if op in _PLAIN:
        return 1.0 if nranks is None or nranks > 1 else None
    if nranks is None or nranks < 2:
        return None
    if op in _TWICE:
        return 2 * (nranks - 1) / nranks
    return (nranks - 1) / nranks if op in SHARED else None


def traffic_bytes(op: str, count: int, element_bytes: int, nranks: int | None) -> int | None:
    """``S`` from the count that a rank passes to NCCL (send count of AllGather, receive count of ReduceScatter,
    count per peer of AllToAll, Gather and Scatter)."""
    if op not in PER_RANK:
        return count * element_bytes
    return None if nranks is None else count * element_bytes * nranks


def algbw_gbps(size_bytes: int | None, duration_ns: float | None) -> float | None:
    """``S / t`` in GB/s (bytes per nanosecond); None when size or duration is unknown or not positive."""
    if not size_bytes or duration_ns is None or duration_ns <= 0:
        return None
    return size_bytes / duration_ns


def busbw_gbps(op: str, size_bytes: int | None, duration_ns: float | None, nranks: int | None) -> float | None:
    """Bus bandwidth in GB/s; None when it cannot be known."""
    algbw, factor = algbw_gbps(size_bytes, duration_ns), busbw_factor(op, nranks)
    return None if algbw is None or factor is None else algbw * factor


def busbw_factor_expr(op: pl.Expr, nranks: pl.Expr) -> pl.Expr:
    """:func:`busbw_factor` over columns."""
    import polars as pl

    n = nranks.cast(pl.Float64)
    share = pl.when(n >= 2).then((n - 1) / n)
    name = op.cast(pl.String)
    return (
        pl.when(name.is_in(list(_PLAIN)) & ((n >= 2) | n.is_null()))
        .then(1.0)
        .when(name.is_in(list(_TWICE)))
        .then(2 * share)
        .when(name.is_in(list(SHARED)))
        .then(share)
        .otherwise(None)
    )


def algbw_expr(size_bytes: pl.Expr, duration_ns: pl.Expr) -> pl.Expr:
    """:func:`algbw_gbps` over columns."""
    import polars as pl

    size, time = size_bytes.cast(pl.Float64), duration_ns.cast(pl.Float64)
    return pl.when((size > 0) & (time > 0)).then(size / time)


def busbw_expr(op: pl.Expr, size_bytes: pl.Expr, duration_ns: pl.Expr, nranks: pl.Expr) -> pl.Expr:
    """:func:`busbw_gbps` over columns."""
    return algbw_expr(size_bytes, duration_ns) * busbw_factor_expr(op, nranks)
