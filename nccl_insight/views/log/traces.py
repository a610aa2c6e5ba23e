"""What the collectives of traces take."""

from nccl_insight.base.data import dataclass
from nccl_insight.tables.run import Run


@dataclass(frozen=True)
class Statistics:
    """A row of the table ``collective_statistics``."""

    op: str | None
    size_bytes: int | None
    group_size: int | None
    process_group: str | None
    count: int
    median_ns: float
    median_busbw_gbps: float | None


def statistics(run: Run) -> tuple[Statistics, ...]:
    """The collectives by operation and size, those that take most first."""
    columns = ("op", "size_bytes", "group_size", "process_group", "count", "median_ns", "median_busbw_gbps")
    return tuple(Statistics(*row) for row in run.table("collective_statistics").select(columns).iter_rows())
