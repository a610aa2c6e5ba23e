"""What the user set in the environment, one entry for each name and value, with the release that read it."""

import polars as pl

from nccl_insight.advise.settings.catalog import catalog
from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Ref
from nccl_insight.facts.setup.settings import settings
from nccl_insight.facts.who.members import processes
from nccl_insight.tables.run import Run, fact


@dataclass(frozen=True)
class UserSetting:
    """A variable of the environment that NCCL reported, and where."""

    name: str
    value: str
    version: str | None
    hosts: tuple[str, ...]
    evidence: tuple[Ref, ...]
    processes: int


@fact
def user_settings(run: Run) -> tuple[UserSetting, ...]:
    """Settings from the environment or a configuration file, in order of appearance.

    ``version`` is the NCCL release of the processes that printed it, None when they differ or it is not known.
    """
    rows = settings(run).filter(
        pl.col("origin").is_in(["environment", "file"]) & pl.col("value").is_not_null() & (pl.col("value") != "")
    )
    if rows.is_empty():
        return ()
    versions = processes(run).select("host", "pid", "nccl_version")
    rows = rows.join(versions, on=["host", "pid"], how="left", nulls_equal=True, maintain_order="left")
    everywhere = versions.get_column("nccl_version").drop_nulls().unique().to_list()
    data = catalog()
    names = [n for n in rows["name"].unique().to_list() if data.relevant(n)]
    # One aggregation for all: an own query for each of some thousand values takes minutes.
    grouped = (
        rows.filter(pl.col("name").is_in(names))
        .group_by("name", "value", maintain_order=True)
        .agg(
            versions=pl.col("nccl_version").drop_nulls().unique(maintain_order=True),
            hosts=pl.col("host").drop_nulls().unique().sort(),
            evidence=pl.struct("input_id", "line")
            .filter(pl.col("input_id").is_not_null() & pl.col("line").is_not_null())
            .unique(maintain_order=True)
            .head(3),
            processes=pl.struct("host", "pid").n_unique(),
        )
    )
    return tuple(
        UserSetting(
            row["name"],
            row["value"],
            str(seen[0]) if len(seen := row["versions"] or everywhere) == 1 else None,
            tuple(row["hosts"]),
            tuple(Ref(int(r["input_id"]), int(r["line"])) for r in row["evidence"]),
            row["processes"],
        )
        for row in grouped.iter_rows(named=True)
    )
