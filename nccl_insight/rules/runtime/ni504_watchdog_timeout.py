"""The framework's watchdog gave up on a collective."""

import polars as pl

from nccl_insight.rules._absent import LIST_DUMPS
from nccl_insight.rules.context import Context, Hits

_TRY = (
    "NCCL_P2P_DISABLE=1 <the same job>   # if it then runs on one host, PCIe ACS or the IOMMU breaks P2P: turn ACS "
    "off, boot with iommu=pt; between hosts try NCCL_IB_DISABLE=1"
)
_NO_DATA = (
    "Several ranks wait in the first collective of their group, and none finished one: they all came, and no data "
    "moves between their GPUs. On one host it is usually P2P through PCIe ACS or an IOMMU, between hosts the network."
)


def _first(rows: pl.DataFrame) -> bool:
    """Whether ranks wait together in the first collective of a group, which none of them has finished."""
    told = rows.filter(pl.col("completed_seq").is_not_null())
    waiting = rows.filter(pl.col("seq").is_not_null())
    same = waiting["seq"].n_unique() == 1 and waiting["rank"].drop_nulls().n_unique() > 1
    return same and told.height > 0 and bool((told["completed_seq"] == -1).all())


def check(ctx: Context) -> Hits:
    """One finding for all time-outs."""
    found = ctx.lines()
    if found is None:
        return
    rows = found.rows
    works = rows.filter(pl.col("work_op").is_not_null())
    ops = works["work_op"].unique(maintain_order=True).to_list() if works.height else []
    numbers = works["seq"].drop_nulls().unique().sort().to_list() if works.height else []
    limit = found.value("timeout_ms")
    what = f"{ops[0]} " if ops else ""
    seq = (
        f"sequence {numbers[0]}" if len(numbers) == 1 else f"sequences {numbers[0]} to {numbers[-1]}" if numbers else ""
    )
    after = f" after {int(limit) / 1000:,g} s" if limit and len(limit) < 12 else ""
    first = _first(rows)
    names = rows["pg_guid"].str.extract(r"\(([^()]+)\)").drop_nulls().unique()
    group = str(names[0]) if names.len() == 1 and not str(names[0]).startswith("default") else ""
    alone = not first and rows["completed_seq"].eq(-1).any() and numbers == [1]
    if first or alone:
        what = f"the first {what or 'collective '}of {group or 'a group'}, "
    elif group:
        what = f"{what or 'a collective '}of {group}, "
    headline = " ".join(f"The watchdog timed out on {what or 'a collective '}{seq}{after}".split())
    dumps = (
        f"{LIST_DUMPS}   # on every host: the flight recorder's dumps (TORCH_FR_DUMP_TEMP_FILE may name another "
        "place); analyze them together with the logs. None there: run again with TORCH_NCCL_DUMP_ON_TIMEOUT=1 "
        "and TORCH_FR_BUFFER_SIZE=2000"
    )
    yield from ctx.report(
        headline,
        next_step=f"{_TRY}; {dumps}" if first else dumps,
        explanation=_NO_DATA
        if first
        else "A collective was issued here and did not finish. Either a rank never issued it, or issued another one, "
        "or the network lost it. The ranks that report are usually the ones that wait.",
        quiet=None,
    )
