"""Communicators that started and did not get on, and what makes that doubtful."""

from itertools import pairwise

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.natures import names
from nccl_insight.base.units import plural
from nccl_insight.facts.progress.calls import log_is_cut
from nccl_insight.facts.progress.journey import goes_on
from nccl_insight.facts.said.errors import BENIGN, causes
from nccl_insight.facts.said.unread import unread
from nccl_insight.facts.who.parts.processes import processes_of
from nccl_insight.tables.run import Run, fact

# Lines of a communicator that exists, so the bootstrap was over.
_FURTHER = ("ranks", "calls", "connections", "rings", "trees", "ring_neighbours", "channel_counts", "graphs")
_LATER = ("connections", "rings", "trees", "channel_counts", "graphs")


@dataclass(frozen=True)
class Waiting:
    """A communicator of which no rank finished init. ``doubt`` says why that may be the log's fault."""

    comm_id: str
    nranks: int
    ranks: pl.DataFrame
    missing: tuple[int, ...]
    reached: str
    doubt: str


@fact
def waiting(run: Run) -> tuple[Waiting, ...]:
    """Communicators with started ranks and none finished, largest first; not complete ones that failed loudly."""
    ranks = run.table("ranks").filter(pl.col("comm_id").is_not_null() & pl.col("init_started"))
    stuck = ranks.filter(~pl.col("init_complete").fill_null(False).any().over("comm_id"))
    stuck = stuck.filter((pl.col("destroyed").cast(pl.String).fill_null("no") == "no").all().over("comm_id"))
    if stuck.is_empty():
        return ()
    loud = causes(run).filter(pl.col("loud") & ~pl.col("cause").is_in([BENIGN, *names("remark")]))
    failed = loud.select("host", "pid").drop_nulls().unique()
    coming, parts = _coming(run, failed), stuck.partition_by("comm_id", as_dict=True)
    found = (_one(run, str(comm_id), part, failed, coming) for (comm_id,), part in parts.items())
    return tuple(sorted(filter(None, found), key=lambda w: (-w.nranks, w.comm_id))[:5])


def waiting_early(run: Run) -> pl.DataFrame:
    """Processes that chose a network and then printed nothing, where no process of the log got further.

    ``host, pid, network, input_id, line``. Up to 2.21 Init START is printed only after all ranks have checked in.
    Empty, but where the user saw a hang, unless at least two processes wait, none failed, and the log goes on after
    their last line (or each has an input of its own), so that it was not merely cut there.
    """
    none = pl.DataFrame()
    if any(run.has(table) for table in _FURTHER) or log_is_cut(run):
        return none
    if causes(run).filter(pl.col("cause") != "benign").filter(pl.col("loud")).height or not run.has("networks"):
        return none
    chosen = run.table("networks").drop_nulls("pid").unique(["host", "pid"], keep="last", maintain_order=True)
    everyone = run.table("processes").drop_nulls("pid").select("host", "pid").unique()
    hangs = run.asked.symptom == "hang"
    if chosen.height < (1 if hangs else 2) or everyone.height != chosen.height:
        return none
    last = chosen.group_by("input_id").agg(pl.col("line").max().alias("last"))
    ends = run.table("inputs").select("input_id", "lines", "foreign_lines").join(last, on="input_id", how="inner")
    own = ends.height == chosen.height
    goes_on = bool((ends["lines"] > ends["last"]).all())
    return chosen if own or goes_on or hangs else none


def _coming(run: Run, failed: pl.DataFrame) -> int:
    """Processes that have begun, have not printed their rank, and have not failed; 0 where more lines should follow."""
    if goes_on(run) or _one_after_another(run):
        return 0
    placed = run.table("ranks").select("host", "pid").drop_nulls()
    begun = run.table("processes").select("host", "pid").drop_nulls().unique()
    still = begun.join(placed, on=["host", "pid"], how="anti")
    return still.join(failed, on=["host", "pid"], how="anti").height


def _one_after_another(run: Run) -> bool:
    """Whether all lines of a process stand before those of the next: then their order is not that of time."""
    for own in processes_of(run).values():
        apart = all(before.last < after.first for before, after in pairwise(own))
        if apart and sum(process.first < process.last for process in own) > 1:
            return True
    return False


def _one(run: Run, comm_id: str, started: pl.DataFrame, failed: pl.DataFrame, coming: int) -> Waiting | None:
    top = started["nranks"].max()
    if not isinstance(top, int) or top < 2:
        return None
    seen = set(started["rank"].drop_nulls())
    missing = tuple(r for r in range(top) if r not in seen)
    if not missing and started.join(failed, on=["host", "pid"], how="semi").height:
        return None
    later = [t for t in _LATER if run.table(t).filter(pl.col("comm_id") == comm_id).height]
    reached = (
        "They got as far as " + ", ".join(t.replace("_", " ") for t in later) + "."
        if later
        else "They did not get past the bootstrap."
    )
    return Waiting(comm_id, top, started, missing, reached, _doubt(run, started, missing, bool(later), coming))


def _waited(run: Run, started: pl.DataFrame) -> bool:
    """Whether torch's watchdog says of every rank that started that it waited until its time was up."""
    gave_up = set(run.table("watchdog").filter(pl.col("timed_out_seq").is_not_null())["rank"].drop_nulls())
    return bool(gave_up) and set(started["rank"].drop_nulls()) <= gave_up


def _doubt(run: Run, started: pl.DataFrame, missing: tuple[int, ...], later: bool, coming: int) -> str:
    if log_is_cut(run):
        return "the log says that lines are missing, so an Init COMPLETE may be among them"
    if started.height < 2:
        return "only one rank of the communicator is in the log, which may simply end there"
    if run.asked.symptom == "hang" and not missing:
        return ""  # what the user saw
    versions = run.table("processes")["nccl_version"]
    if not versions.is_not_null().any() and not _waited(run, started):
        return "the beginning of the log is missing, so its end may be too"
    if missing and later:
        return "the log holds only some ranks of the communicator, and those got past the bootstrap"
    if any(what.about == "init" for what in unread(run)):
        return "lines about init are worded in a way that is not known here, so an Init COMPLETE may be among them"
    if coming and missing:
        return f"the log ends while {plural(coming, 'process has', 'processes have')} not said yet which rank they are"
    last = started["line"].max()
    tail = run.table("inputs").filter(pl.col("input_id") == started["input_id"][0])["lines"]
    ends = bool(len(tail)) and isinstance(last, int) and int(tail[0] or 0) <= last
    if ends and not missing and not causes(run).height:
        return "the log ends right after Init START, as a log does that was cut there"
    return ""
