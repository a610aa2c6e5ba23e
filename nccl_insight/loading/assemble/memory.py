"""The table ``nccl_memory``: what NCCL allocated, by rank, communicator and purpose.

From the lines of the subsystem ALLOC. NCCL prints no line when it frees, so ``peak_bytes`` is the sum of all
allocations: an upper bound for processes that destroy communicators. A shared buffer is printed twice by some
releases (where it is allocated and where it is shared); the same pointer counts once.
"""

from typing import Final

import polars as pl

from nccl_insight.base import toml
from nccl_insight.loading.assemble.base import column

_MADE: Final = ("allocated", "shm_allocated", "shareable_allocated", "symmetric_allocated")
# Source file of an allocation -> purpose. The first that fits counts.
_PURPOSES: Final = toml.beside(__file__)["purposes"]
_HOST: Final = r"(?i)host|mem alloc|calloc|ib alloc|memory stack|persistent"


def allocations(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of ``nccl_memory`` from the messages of the table ``memory`` with their owners."""
    event, kind = column(rows, "event", pl.String), column(rows, "alloc_kind", pl.String)
    place, path = column(rows, "file", pl.String), column(rows, "shm_path", pl.String)
    pointer = column(rows, "pointer", pl.String)
    shared_by_file = (event == "shm_allocated") | path.is_not_null()
    chosen = (
        (shared_by_file, "SHM"),
        (event == "shareable_allocated", "P2P"),
        (event == "symmetric_allocated", "symmetric"),
        *((place.str.contains(pattern), name) for pattern, name in _PURPOSES),
    )
    purpose = pl.coalesce(*(pl.when(fits).then(pl.lit(name)) for fits, name in chosen), pl.lit("other"))
    on_host = shared_by_file | kind.str.contains(_HOST).fill_null(False)
    made = rows.with_columns(
        purpose=purpose,
        place=pl.when(on_host).then(pl.lit("host")).otherwise(pl.lit("device")),
        _pointer=pl.when(pointer.is_null()).then(pl.int_range(pl.len()).cast(pl.String)).otherwise(pointer),
        _size=column(rows, "size_bytes", pl.Int64),
        _shared=event == "shareable_allocated",
    ).filter(event.is_in(_MADE) & (pl.col("_size") > 0))
    # Pointers are used again after a free; only the line about sharing repeats what was just allocated.
    repeated = pl.col("_shared") & (
        (pl.col("_pointer").shift(1) == pl.col("_pointer")) & (pl.col("_size").shift(1) == pl.col("_size"))
    ).over("_host", "_pid").fill_null(False)
    return (
        made.filter(~repeated)
        .group_by("_host", "_pid", "rank", "comm_id", "purpose", "place", maintain_order=True)
        .agg(
            pl.col("input_id").first(),
            pl.col("_line").first(),
            pl.col("_pos").first(),
            pl.col("_size").sum().alias("bytes"),
            pl.len().cast(pl.UInt32).alias("count"),
            pl.col("_size").max().alias("largest_bytes"),
            pl.col("_size").sum().alias("peak_bytes"),
        )
    )
