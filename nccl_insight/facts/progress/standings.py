"""How far each rank got, by each source that tells: watchdog, Flight Recorder, call log, RAS, Inspector."""

from typing import Final

import polars as pl

from nccl_insight.facts.progress import flight_recorder, watchdog
from nccl_insight.facts.progress.calls import progress
from nccl_insight.facts.progress.claims import CALLS, DUMPS, INSPECTOR, RAS, WATCHDOG
from nccl_insight.facts.progress.tallies import ras_counts, recorded
from nccl_insight.loading.assemble.places import places
from nccl_insight.tables.declared import frame
from nccl_insight.tables.run import Run, fact
from nccl_insight.tables.schema import shaped

STANDINGS: Final = frame("source str, group str, op str, rank i64, host str, enqueued i64, started i64, completed i64")


def _of_source(source: str, rows: pl.DataFrame, **columns: str | pl.Expr) -> pl.DataFrame:
    """Rows of one source by the names of the standings; what is not given is null."""
    given = {name: pl.col(value) if isinstance(value, str) else value for name, value in columns.items()}
    values = ({"source": pl.lit(source)} | given).items()
    return shaped(rows.select(value.alias(name) for name, value in values), STANDINGS)


@fact
def standings(run: Run) -> pl.DataFrame:
    """How far each rank is by each source: ``source, group, op, rank, host, enqueued, started, completed``.

    ``group`` is the process group or communicator, ``rank`` that of the job where it is known, else that in the group.
    Numbers of different sources count differently and are not to be compared: torch numbers operations of a process
    group, RAS and Inspector those of one ``op``, a call log all collectives of a communicator. ``enqueued`` is the
    last operation issued, ``started`` the last one that its GPU began, ``completed`` the last one that ended.
    """
    known = places(run)
    frames = [pl.DataFrame(schema=STANDINGS)]
    states = watchdog.states(run)
    if states.height:
        rank = watchdog.WHO
        seen = {state: f"last_{state}" for state in ("enqueued", "started", "completed")}
        frames.append(_of_source(WATCHDOG, states, group="group", rank=rank, host="host", **seen))
    for group in flight_recorder.instances(run):
        rows, name = group.rows.filter(pl.col("last_enqueued") >= 0).sort("rank"), pl.lit(group.name)
        told = {"enqueued": "last_enqueued", "completed": "last_completed"}
        frames.append(_of_source(DUMPS, rows, group=name, rank="rank", **told))
    if run.has("calls"):
        frames.append(_of_source(CALLS, progress(run), group="comm_id", rank="rank", host="host", enqueued="calls"))
    counted = _of_source(
        RAS, ras_counts(run).drop_nulls("rank"), group="comm", op="op", rank="rank", host="host", enqueued="count"
    )
    frames.append(counted.unique(["group", "op", "rank"], keep="last", maintain_order=True))
    frames.append(_of_source(INSPECTOR, recorded(run), group="process_group", op="op", rank="rank", completed="seq"))
    every = pl.concat(frames)
    return known.with_hosts(every, where=pl.col("source").is_in([WATCHDOG, DUMPS]))
