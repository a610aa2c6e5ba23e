"""How a process or a job ended, from exit codes, signals and reasons as launchers and schedulers print them.

Sources: signal(7), wait(2) (a shell's exit code above 128 is 128 + the signal), slurm.conf(5) job states, LSF's exit
reasons, Kubernetes' container states.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import polars as pl

from nccl_insight.base.natures import called

KILLED: Final = called("killed")
CRASHED: Final = called("crashed")
ENDED: Final = called("stopped")
FAILED: Final = called("raised")
EFFECT: Final = called("passed-on")
OTHER: Final = called("note")
UNEXPLAINED: Final = called("unexplained")
TIMED_OUT: Final = called("timed-out")
GONE: Final = called("gone")

_SIGNALS: Final = {9: KILLED, **dict.fromkeys((4, 6, 7, 8, 11), CRASHED), **dict.fromkeys((2, 13, 15), EFFECT)}
_FATAL: Final = (4, 6, 7, 8, 9, 11, 15)
# (words, what): first match wins; words of srun, Slurm, LSF, PBS, Kubernetes, strsignal(3).
_WORDS: Final[Sequence[tuple[str, str]]] = (
    ("task failure", EFFECT),
    ("oomkilled", KILLED), ("out of memory", KILLED), ("out_of_memory", KILLED), ("memlimit", KILLED),
    ("sigkill", KILLED), ("killed", KILLED), ("mem ", KILLED), ("memory", KILLED),
    ("sigsegv", CRASHED), ("segmentation", CRASHED), ("sigbus", CRASHED), ("bus error", CRASHED),
    ("sigabrt", CRASHED), ("aborted", CRASHED), ("sigill", CRASHED), ("illegal instruction", CRASHED),
    ("sigfpe", CRASHED), ("floating point", CRASHED), ("trace/breakpoint", CRASHED),
    ("time limit", ENDED), ("timelimit", ENDED), ("walltime", ENDED), ("runlimit", ENDED), ("preempt", ENDED),
    ("node failure", ENDED), ("requeue", ENDED), ("owner", ENDED), ("admin", ENDED), ("limit", ENDED),
    ("sigterm", EFFECT), ("terminated", EFFECT), ("sigint", EFFECT), ("interrupt", EFFECT),
)  # fmt: skip
_EXITED: Final = r"[Ee]xited with exit code ([0-9]+)"
_TEXTS: Final = ("signal_name", "signal_text", "k8s_reason", "lsf_reason", "end_reason", "task_end")


def _text(frame: pl.DataFrame) -> pl.Expr:
    present = [pl.col(c) for c in _TEXTS if c in frame.columns]
    return pl.concat_str(present, separator=" ", ignore_nulls=True) if present else pl.lit("")


def _number(frame: pl.DataFrame, *names: str) -> pl.Expr:
    present = [pl.col(c).cast(pl.Int64) for c in names if c in frame.columns]
    return pl.coalesce(present) if present else pl.lit(None, pl.Int64)


def signal_of(code: pl.Expr) -> pl.Expr:
    """The signal of an exit code: -9 (Python), 137 (a shell) or null for an ordinary code."""
    return pl.when(code < 0).then(-code).when((code > 128) & (code < 160)).then(code - 128)


def _first_code(frame: pl.DataFrame) -> pl.Expr:
    """Of the codes of all nodes the one that is no end of a bystander: 137 only where there is no other.

    SkyPilot ends the processes of the other nodes with signal 9 when one fails.
    """
    if "exit_codes" not in frame.columns:
        return pl.lit(None, pl.Int64)
    codes = pl.col("exit_codes").str.extract_all(r"-?[0-9]+").cast(pl.List(pl.Int64), strict=False)
    failed = codes.list.eval(pl.element().filter(pl.element() != 0))
    own = failed.list.eval(pl.element().filter(pl.element() != 137))
    return pl.coalesce(own.list.first(), failed.list.first(), pl.lit(0, pl.Int64))


def end_family(frame: pl.DataFrame) -> pl.DataFrame:
    """Adds ``end_kind`` (a diagnosis), and ``signal`` and ``exit_code`` where the text has them under another name."""
    text = _text(frame)
    written = text.str.extract(_EXITED).cast(pl.Int64, strict=False)
    code = pl.coalesce(_number(frame, "exit_code", "signal_code"), written, _first_code(frame))
    # MPICH prints the status of wait(2) (a signal, with 128 more where a core was dumped; an exit code times 256), and
    # of programs that a proxy ran the exit code itself.
    status = _number(frame, "wait_status")
    by_status = pl.when((status < 256) & (status % 128).is_in(list(_FATAL))).then(status % 128)
    code = pl.coalesce(code, pl.when(status >= 256).then(status // 256).when(by_status.is_null()).then(status))
    told = frame.with_columns(exit_code=code, _by_status=by_status)
    code = pl.col("exit_code")
    told = told.with_columns(signal=pl.coalesce(_number(frame, "signal"), signal_of(code), "_by_status"))
    signal = pl.col("signal")
    # Few lines tell an end: a query with a condition for each word would take longer to make than to run.
    texts = frame.with_columns(_said=text.str.to_lowercase())["_said"].fill_null("")
    by_word = pl.Series([next((what for word, what in _WORDS if word in t), None) for t in texts], dtype=pl.String)
    by_signal = signal.replace_strict(_SIGNALS, default=EFFECT, return_dtype=pl.String)
    cancelled = pl.lit(ENDED) if "job_number" in frame.columns else pl.lit(None, pl.String)
    plain = pl.when(code == 0).then(pl.lit(OTHER)).when(code.is_not_null()).then(pl.lit(FAILED))
    dead = pl.lit(CRASHED) if "ray_exit_type" in frame.columns else pl.lit(None, pl.String)
    family = pl.coalesce(pl.when(signal.is_not_null()).then(by_signal), by_word, plain, dead, cancelled, pl.lit(OTHER))
    return frame.with_columns(told.select(end_kind=family, signal=signal, exit_code=code).get_columns())


NORMALISERS: Final[Mapping[str, Callable[[pl.DataFrame], pl.DataFrame]]] = {"end_family": end_family}
