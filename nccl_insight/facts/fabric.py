"""What the health mask of a GPU's NVLink fabric says (nvml.h, NVML_GPU_FABRIC_HEALTH_MASK)."""

from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Ref
from nccl_insight.facts.settings import refs
from nccl_insight.tables.run import Run

# Two bits each from bit 0 on: 0 not supported, 1 true, 2 false; and what they say when true, and when false.
_STATES: Final = (
    ("degraded bandwidth", "bandwidth not degraded"),
    ("a route that is being recovered", "no route in recovery"),
    ("an unhealthy route", "routes healthy"),
    ("recovery from an access time-out", "no access time-out"),
)
_TRUE: Final = 1
_FALSE: Final = 2
# Four bits from bit 8 on: 0 not supported, 1 none.
_CONFIGURATION: Final = {
    2: "a wrong system GUID", 3: "a wrong chassis serial number", 4: "no partition", 5: "too few NVLinks",
    6: "an incompatible firmware", 7: "an invalid location",
}  # fmt: skip


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
    mask = int(text, 16)
    bits = [(mask >> 2 * n) & 3 for n in range(len(_STATES))]
    wrong = _CONFIGURATION.get((mask >> 8) & 15)
    bad = [words[0] for bit, words in zip(bits, _STATES, strict=True) if bit == _TRUE] + ([wrong] if wrong else [])
    good = [words[1] for bit, words in zip(bits, _STATES, strict=True) if bit == _FALSE]
    hosts = tuple(sorted(rows["host"].drop_nulls().unique().to_list()))
    return Health(text, hosts, rows.select("host", "bus_id").n_unique(), tuple(bad), tuple(good), refs(rows, 2))
