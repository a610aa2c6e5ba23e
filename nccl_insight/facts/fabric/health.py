"""The health masks of the GPUs' NVLink fabric, as NCCL prints them."""

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.fabric_health import fabric_states
from nccl_insight.base.model import Ref
from nccl_insight.facts.setup.settings import refs
from nccl_insight.tables.run import Run


@dataclass(frozen=True)
class Health:
    """One mask, as printed, and the GPUs that show it. ``bad``: what is wrong, ``good``: what is known to be well."""

    mask: str
    hosts: tuple[str, ...]
    gpus: int
    bad: tuple[str, ...]
    good: tuple[str, ...]
    evidence: tuple[Ref, ...]


def fabric_health(run: Run) -> tuple[Health, ...]:
    """The masks of the run, each once, in reading order."""
    if not run.has("mnnvl"):
        return ()
    rows = run.table("mnnvl").filter(pl.col("health_mask").cast(pl.String).str.contains("^0x[0-9a-fA-F]{1,8}$"))
    return tuple(_health(part) for part in rows.partition_by("health_mask", maintain_order=True))


def _health(rows: pl.DataFrame) -> Health:
    text = str(rows["health_mask"][0])
    bad, good = fabric_states(int(text, 16))
    hosts = tuple(sorted(rows["host"].drop_nulls().unique().to_list()))
    return Health(text, hosts, rows.select("host", "bus_id").n_unique(), bad, good, refs(rows, 2))
