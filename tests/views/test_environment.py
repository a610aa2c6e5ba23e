"""Versions and settings of the processes, and what the readers note."""

from __future__ import annotations

import polars as pl

from nccl_insight.tables.run import build_run
from nccl_insight.tables.schema import conform
from nccl_insight.views.environment import environment


def test_a_version_that_is_not_printed_is_not_another() -> None:
    """NCCL prints its version on rank 0 only."""
    for versions, odd in (([None, None, "2.10.3"], []), (["2.21.5", "2.21.5", "2.10.3"], ["2.10.3"])):
        processes = pl.DataFrame({"host": ["a", "b", "c"], "pid": [1, 2, 3], "nccl_version": versions})
        shown = environment(build_run({"processes": conform("processes", processes)}))
        assert shown is not None
        assert [v.nccl for v in shown.versions if v.odd] == odd
