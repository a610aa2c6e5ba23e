"""Named normalisers: old notations of a message turned into the columns of its table.

A grammar rule names one by ``//! normalise:``. Each takes the rows of one rule and returns rows (possibly more,
one an item of a list). Columns that begin with ``_`` pass through.
"""

from collections.abc import Callable, Mapping
from typing import Final

import polars as pl

from nccl_insight.tables.normalise import codes, diagnostics, ends, model, structure

Normaliser = Callable[[pl.DataFrame], pl.DataFrame]

NORMALISERS: Final[Mapping[str, Normaliser]] = {
    **codes.NORMALISERS,
    **diagnostics.NORMALISERS,
    **ends.NORMALISERS,
    **structure.NORMALISERS,
    **model.NORMALISERS,
}
