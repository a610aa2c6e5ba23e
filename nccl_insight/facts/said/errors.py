"""The ``errors`` table with one more column: ``cause``, the diagnosis that a line is evidence of for the rules.

It is the line's ``diagnosis`` (the grammar's, docs/grammar.md), but for lines that say nothing by themselves:
``BENIGN`` for what is expected on healthy systems, ``ALLOC_FAILED`` and ``SHM_FAILED`` for lines that say only that an
allocation failed, and rely on the line before them for the reason. ``CONSEQUENCE`` and ``OTHER`` are diagnoses that
explain nothing.
"""

from typing import Final

import polars as pl

from nccl_insight.base.natures import called, names
from nccl_insight.facts.said.clock import timed_errors, with_time
from nccl_insight.facts.said.course import course, signs_of_life
from nccl_insight.facts.said.topics import plays, told
from nccl_insight.readers.embedded.endings import DONE, STEP
from nccl_insight.tables.normalise.ends import EFFECT, UNEXPLAINED
from nccl_insight.tables.normalise.ends import OTHER as NOTE
from nccl_insight.tables.run import Run, fact
from nccl_insight.tables.schema import is_loud

BENIGN: Final = "benign"
CONSEQUENCE: Final = EFFECT
OTHER: Final = UNEXPLAINED
ALLOC_FAILED: Final = "alloc-failed"
SHM_FAILED: Final = "shm-failed"
VAGUE: Final = frozenset({BENIGN, CONSEQUENCE, OTHER, ALLOC_FAILED, SHM_FAILED, NOTE})


@fact
def causes(run: Run) -> pl.DataFrame:
    """``errors`` in reading order plus ``cause`` (str), ``time_s``, ``loud`` (bool: WARN or worse, or no level)."""
    errors = _with_raised(run, timed_errors(run))
    if errors.is_empty():
        return errors.with_columns(cause=pl.lit(None, pl.String), loud=pl.lit(None, pl.Boolean))
    diagnosis, message = pl.col("diagnosis").fill_null(OTHER), pl.col("message").fill_null("")
    quiet = (pl.col("role") == "benign") & ~diagnosis.is_in(names("noteworthy")) | (diagnosis == NOTE)
    stated = pl.col("errno").is_not_null() | pl.col("error_text").is_not_null()
    silent = pl.lit(plays(errors, "segment")) & ~stated
    # How a process ended, where its exit code or signal tells more than the wording.
    ended = pl.col("end_kind")
    cause = (
        pl.when(ended.is_not_null())
        .then(ended)
        .when(quiet)
        .then(pl.lit(BENIGN))
        .when(message == "err_cuda_alloc")
        .then(pl.lit(ALLOC_FAILED))
        .when(silent)
        .then(pl.lit(SHM_FAILED))
        .otherwise(diagnosis)
    )
    loud = is_loud(pl.col("level")) | pl.col("level").is_null()
    rows = errors.with_columns(cause=cause, loud=loud)
    rows = _late_use(_host_memory(_peer_address(run, rows)))
    return _stall_ended(_got_over(run, _started(run, rows)))


def _with_raised(run: Run, errors: pl.DataFrame) -> pl.DataFrame:
    """The errors, and exceptions of programs that say what is wrong with the machine's CUDA."""
    raised = run.table("tracebacks")
    said = told(raised, "exception-cuda")
    raised = raised.with_columns(diagnosis=said, message=pl.lit("program_exception"), role=pl.lit("root"))
    raised = with_time(run, raised.filter(pl.col("diagnosis").is_not_null()), "timestamp")
    if raised.is_empty():
        return errors
    types = errors.schema
    columns = [c for c, dtype in raised.schema.items() if types.get(c) == dtype]
    return pl.concat([errors, raised.select(columns)], how="diagonal").sort("input_id", "line", maintain_order=True)


def _late_use(rows: pl.DataFrame) -> pl.DataFrame:
    """NCCL refuses a communicator that failed before: the caller is to blame only where nothing failed before.

    An agent of torch elastic that reaches no store has lost it where its ranks failed before.
    """
    used = (pl.col("message") == "err_internal") & pl.col("text").str.starts_with("Attempt to use communicator")
    late = (used | (pl.col("message") == "elastic_no_store")).fill_null(False)
    if rows.filter(late).is_empty():
        return rows
    failed = pl.col("loud") & ~late & ~pl.col("cause").is_in([BENIGN, CONSEQUENCE, NOTE])
    before = failed.cast(pl.Int32).cum_sum().over("input_id") > 0
    return rows.with_columns(pl.when(late & before).then(pl.lit(CONSEQUENCE)).otherwise("cause").alias("cause"))


def _stall_ended(rows: pl.DataFrame) -> pl.DataFrame:
    """Horovod tells every rank that one of them ended; where it ended the job for ranks that stalled, none did."""
    if rows.filter(plays(rows, "stall-end")).is_empty():
        return rows
    told_so = pl.when(plays(rows, "shut-down")).then(pl.lit(CONSEQUENCE))
    return rows.with_columns(told_so.otherwise("cause").alias("cause"))


def _started(run: Run, rows: pl.DataFrame) -> pl.DataFrame:
    """What a launcher could not start is none of the trouble where the program went on to its end behind it."""
    at = rows["cause"].is_in(list(names("starting"))).arg_true()
    if at.is_empty() or not (job := course(run)).completed:
        return rows
    over = [job.counted_on(i, line, None) for i, line in rows[at].select("input_id", "line").iter_rows()]
    return rows.with_columns(rows["cause"].scatter(at.filter(pl.Series(over)), BENIGN))


def _got_over(run: Run, rows: pl.DataFrame) -> pl.DataFrame:
    """What only waits is none of the trouble where the job went on behind it: what it waited for came, or the program
    counts steps, or ranks of NCCL do."""
    waits = plays(rows, "wait")
    if rows.filter(waits).is_empty():
        return rows
    steps = run.table("endings").filter(pl.col("kind").is_in([STEP, DONE]))
    inputs = pl.Schema({"input_id": rows.schema["input_id"], "line": pl.Int64()})
    life = pl.DataFrame(list(signs_of_life(run).items()), schema=inputs, orient="row")
    signs = [
        frame.select("input_id", "line").cast(inputs) for frame in (steps, rows.filter(plays(rows, "wait-over")), life)
    ]
    last = pl.concat(signs).group_by("input_id").agg(pl.col("line").max().alias("_went_on"))
    rows = rows.join(last, on="input_id", how="left", maintain_order="left")
    # A pod gets its node once, whatever order events stand in.
    pod = pl.struct("input_id", "component")
    nodes = plays(rows, "unscheduled") & pod.is_in(
        rows.filter(plays(rows, "scheduled")).select(pod).to_series().implode()
    )
    over = nodes | waits & (pl.col("line").cast(pl.Int64) < pl.col("_went_on")).fill_null(False)
    return rows.with_columns(cause=pl.when(over).then(pl.lit(BENIGN)).otherwise("cause")).drop("_went_on")


def _peer_address(run: Run, rows: pl.DataFrame) -> pl.DataFrame:
    """An address without a family is the own interface's where none was found, else one that a peer sent: a handle that
    the peer never filled, which is no matter of the setting."""
    family = pl.col("address_family").is_not_null()
    if rows.filter(family).is_empty() or not run.has("interfaces"):
        return rows
    chosen = run.table("interfaces").select("host", "pid", pl.lit(True).alias("_chosen")).drop_nulls().unique()
    rows = rows.join(chosen, on=["host", "pid"], how="left", maintain_order="left")
    peers = pl.when(family & pl.col("_chosen").fill_null(False)).then(pl.lit(called("internal")))
    return rows.with_columns(peers.otherwise("cause").alias("cause")).drop("_chosen")


def _host_memory(rows: pl.DataFrame) -> pl.DataFrame:
    """A failed allocation that leads through shm.cc is one of shared host memory (cuMem, 2.24 and later)."""
    rows = rows.with_columns(
        _refused=told(rows, "allocation-refused").is_not_null(), _trail=told(rows, "trail").eq_missing("shm")
    )
    failed = pl.col("cause").is_in([*names("cuda-call"), ALLOC_FAILED]) & pl.col("_refused")
    place = pl.col("source").fill_null("").str.split(":").list.first().str.split("/").list.last()
    in_alloc = failed & place.is_in(["alloc.h", "shm.cc"])
    if rows.filter(in_alloc).is_empty():
        return rows.drop("_refused", "_trail")
    process = ["input_id", "host", "pid", "tid"]
    near = pl.any_horizontal(pl.col("_trail").shift(-n).over(process).fill_null(False) for n in (1, 2, 3))
    own = place == "shm.cc"
    return rows.with_columns(
        cause=pl.when(in_alloc & (near | own)).then(pl.lit(called("host-memory"))).otherwise("cause")
    ).drop("_refused", "_trail")


@fact
def present(run: Run) -> frozenset[str]:
    """All causes that occur."""
    return frozenset(causes(run)["cause"].unique())
