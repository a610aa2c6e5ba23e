"""A process of the job crashed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from nccl_insight.base import late
from nccl_insight.base.model import Hit, Severity
from nccl_insight.base.natures import names
from nccl_insight.facts.said.ends import CRASHED, ENDED, KILLED, End
from nccl_insight.language.load import playing
from nccl_insight.readers.embedded.forms import told_signal
from nccl_insight.readers.host_tools.stacks import NAMELESS
from nccl_insight.rules import _outside as outside
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.normalise.ends import EFFECT, TIMED_OUT
from nccl_insight.tables.run import Run

# What the C++ runtime says of an exception that nobody caught.
_THROWN: Final = late.compiled(r"after throwing an instance of '([^']+)'(?:\s+what\(\):\s+(\S[^\n]*))?")
# Lines of one exception of Ray, at most.
_BLOCK = 12


def _same(first: End, end: End) -> bool:
    """Whether two lines can be about one crash: an abort elsewhere is how the peers of a crashed process end."""
    if "by-task" in first.parts & end.parts and _signal(first) == _signal(end) != outside.ABORT:
        return outside.earlier(first, end) is None or first.time_s is None or end.time_s is None
    if first.ranks and end.ranks:
        return bool(set(end.ranks) & set(first.ranks))
    if first.hosts and end.hosts and not set(first.hosts) & set(end.hosts):
        return False
    return not end.ranks or _signal(end) == _signal(first)


def _signal(end: End) -> int | None:
    # Who lost a process offers several reasons.
    return end.signal or (None if end.lost else told_signal(end.text))


def _open(end: End) -> bool:
    """Whether a line says that a process is gone, and not of what."""
    return _signal(end) is None and end.exit_code is None


def _crashes(run: Run) -> list[End]:
    """The crashes, without the lines of who lost a process and knows not of what, where another witness tells."""
    told = [*outside.of_kind(run, KILLED), *(e for e in outside.of_kind(run, CRASHED) if not _open(e))]
    killed = {rank for e in told if e.strong for rank in e.ranks}
    ended = [e.ref for e in outside.of_kind(run, ENDED) if e.strong]

    def explained(end: End) -> bool:
        # The next lines of the same block say of what: of its node, or of the scheduler.
        near = any(ref.input_id == end.ref.input_id and 0 <= ref.line - end.ref.line <= _BLOCK for ref in ended)
        return _open(end) and (near or (bool(killed) and killed.issuperset(end.ranks)))

    return [e for e in outside.of_kind(run, CRASHED) if not explained(e)]


def _hard(end: End) -> bool:
    """Whether the end is no abort, as a line without a signal tells of, but where it says that a process is gone, or
    where the C library says why."""
    return "heap" in end.parts or (_signal(end) or (0 if end.lost else outside.ABORT)) != outside.ABORT


def check(ctx: Context) -> Hits:
    """At most one finding: the first crash that is not an abort, else the first abort."""
    run = ctx.run
    found = _crashes(run)
    if not found:
        return
    hard = [e for e in found if _hard(e)]
    first = outside.first_of(hard or found)
    chosen = [e for e in found if e is first or _same(first, e)]
    # Ray names what may have happened (the OOM killer, a crash, ray stop), and knows nothing.
    open_ = _open(first) and first.lost
    hit = _gone(ctx, first, chosen) if open_ else _crashed(ctx, first, chosen, bool(hard))
    echo = _echo(run, first, not hard, open_)
    yield replace(outside.placed(run, hit, first, chosen), severity=Severity.INFO if echo else None)


def _echo(run: Run, first: End, abort: bool, open_: bool) -> bool:
    """Whether the process ended of what failed before: by an abort, a shell's word, or JAX's service which lost it."""
    failed = bool(outside.led_to(run, first)) or outside.own_failures(run, first)
    if open_:
        return "jax" in first.parts and failed
    # A watchdog ends a process by an abort, or by an exception that nobody catches.
    alike = ("uncaught" in first.parts or not first.ranks) and not outside.network_only(run)
    return (abort and (failed or alike or _quoted(run, first))) or outside.bare_echo(run, first)


def _quoted(run: Run, first: End) -> bool:
    """Whether torch ended the process by an exception that quotes a failure of NCCL, and this abort may be its end."""
    if "heap" in first.parts or ("uncaught" in first.parts and "runtime_error" not in first.text):
        return False
    quotes = pl.col("message").is_in(playing("quoted-result")) | (
        pl.col("message").is_in(playing("uncaught")) & (pl.col("diagnosis") == EFFECT)
    )
    told = run.table("errors").select(pl.col("message").cast(pl.String), pl.col("diagnosis").cast(pl.String))
    return told.filter(quotes).height > 0


# Libraries and functions that only handle the signal, or were called by what is at fault.
_BELOW: Final = ("libc.", "libc-", "libpthread", "libucs", "libucm", "libstdc++", "libgcc", "ld-", "libasan")
_HANDLERS: Final = (
    *("killpg", "__sigaction", "__restore_rt", "raise", "gsignal", "abort", "pthread_kill", "__pthread_kill", "ucs_"),
    *("c10::FatalSignalHandler", "absl::", "google::LogMessage"),
)
_FRAMES: Final = 60
_BUS: Final = 7


def _place(run: Run, first: End) -> tuple[str, str]:
    """Where the stack behind the line ends, without what handles signals: the library, and the name of the place; both
    empty where no stack tells."""
    stacks = run.table("stacks").filter(
        (pl.col("input_id") == first.ref.input_id)
        & pl.col("line").cast(pl.Int64).is_between(first.ref.line - 1, first.ref.line + _FRAMES)
    )
    if first.pid is not None:
        stacks = stacks.filter(pl.col("pid").is_null() | (pl.col("pid") == first.pid))
    current = stacks.filter(pl.col("thread").str.contains("(current)", literal=True))
    frames = (stacks if current.is_empty() else current).sort("line")
    for function, path, file, number in frames.select("function", "library", "file", "line_number").iter_rows():
        library = (path or "").rsplit("/", 1)[-1]
        if library.startswith(_BELOW) or function.startswith(_HANDLERS) or (function == NAMELESS and not library):
            continue
        return library, library or (f"{function} ({file.rsplit('/', 1)[-1]}:{number})" if file else function)
    return "", ""


def _gone(ctx: Context, first: End, chosen: Sequence[End]) -> Hit:
    """JAX's coordination service, Ray or a launcher lost a process."""
    led = (*outside.led_to(ctx.run, first), *names("any", "-process-crashed"), TIMED_OUT)
    who, since, leader = outside.subject(chosen), outside.since(chosen), "leader-lost" in first.parts
    if "jax" not in first.parts:
        by_ray = "ray" in first.parts
        return ctx.says("found", (), caused_by=led, subject=who, since=since, by_ray=by_ray)
    again = "restarted" in first.parts
    return ctx.says("lost", (), caused_by=led, subject=who, since=since, leader=leader, again=again)


def _crashed(ctx: Context, first: End, chosen: Sequence[End], hard: bool) -> Hit:
    """A signal ended the process."""
    (library, place), number, thrown = _place(ctx.run, first), _signal(first), _THROWN.search(first.text)
    raised = " ".join(": ".join(filter(None, thrown.groups())).split()) if thrown is not None else ""
    return ctx.says(
        "crashed",
        (),
        caused_by=outside.led_to(ctx.run, first) if hard else (*names("any", "-process-crashed"), TIMED_OUT),
        subject=outside.subject(chosen),
        library=library,
        place=place,
        cublas="cublas" in place,
        thrown=raised,
        heap=first.text.strip() if "heap" in first.parts else "",
        signal=str(number),
        since=outside.since(chosen),
        written=any("Fatal Python error" in end.text for end in chosen),
        # A bus error is of the memory that a library was given.
        parts_off=number != _BUS and place.startswith(("libnccl.", "librccl.", "nccl")),
        hard=hard,
    )
