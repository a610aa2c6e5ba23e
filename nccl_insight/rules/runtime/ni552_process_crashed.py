"""A process of the job crashed."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from nccl_insight.base.model import Hit, Ref, Severity
from nccl_insight.base.natures import names
from nccl_insight.facts.ends import CRASHED, ENDED, KILLED, End
from nccl_insight.language.load import playing
from nccl_insight.rules import _outside as outside
from nccl_insight.rules._errors import cut
from nccl_insight.rules.context import Context, Hits, says
from nccl_insight.tables.normalise.ends import EFFECT, TIMED_OUT
from nccl_insight.tables.run import Run

# What the C++ runtime says of an exception that nobody caught.
_THROWN: Final = re.compile(r"after throwing an instance of '([^']+)'(?:\s+what\(\):\s+(\S[^\n]*))?")
# Lines of one exception of Ray, at most.
_BLOCK = 12
_NAMES = {
    4: "an illegal instruction",
    6: "an abort",
    7: "a bus error",
    8: "a floating point exception",
    11: "a segmentation fault",
}
_WORDS = (
    ("egmentation", 11), ("egfault", 11), ("SIGSEGV", 11), ("Bus error", 7), ("SIGBUS", 7), ("llegal instruction", 4),
    ("loating point", 8), ("bort", 6), ("bad_alloc", 6), ("corrupt", 6), ("free()", 6), ("malloc()", 6),
    ("general protection", 11),
)  # fmt: skip


def _lost(first: End, chosen: Sequence[End], before: tuple[str, ...]) -> Hit:
    """JAX's coordination service lost a process."""
    return says(
        "process-crashed.lost",
        (),
        caused_by=(*before, *names("any", "-process-crashed"), TIMED_OUT),
        subject=outside.subject(chosen, "A process of the job"),
        again="restarted" in first.parts,
        since=outside.since(chosen),
        leader="leader-lost" in first.parts,
    )


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
    return end.signal or next((number for word, number in _WORDS if word in end.text), None)


def _explained(end: End, ended: Sequence[Ref]) -> bool:
    """Whether the next lines of the same block say what ended the process: its node, or the scheduler."""
    return any(ref.input_id == end.ref.input_id and 0 <= ref.line - end.ref.line <= _BLOCK for ref in ended)


def _open(end: End) -> bool:
    """Whether a line says that a process is gone, and not of what."""
    return _signal(end) is None and end.exit_code is None


def check(ctx: Context) -> Hits:
    """At most one finding: the first crash that is not an abort, else the first abort."""
    # Who lost a process, and knows not of what, tells the death that another witness explains.
    run = ctx.run
    told = [e for kind in (KILLED, CRASHED) for e in outside.of_kind(run, kind) if kind == KILLED or not _open(e)]
    killed = {rank for e in told if e.strong for rank in e.ranks}
    ended = [e.ref for e in outside.of_kind(run, ENDED) if e.strong]
    found = [
        e
        for e in outside.of_kind(run, CRASHED)
        if not (_open(e) and ((killed and killed.issuperset(e.ranks)) or _explained(e, ended)))
    ]
    if not found:
        return
    # A line without a signal tells of an abort, but where it says that a process is gone. The C library says why.
    hard = [e for e in found if "heap" in e.parts or (_signal(e) or (0 if e.lost else outside.ABORT)) != outside.ABORT]
    first = outside.first_of(hard or found)
    chosen = [e for e in found if e is first or _same(first, e)]
    before = outside.led_to(run, first)
    echo = outside.bare_echo(run, first) or (not hard and (bool(before) or outside.own_failures(run, first)))
    # A watchdog ends a process by an abort, or by an exception that nobody catches.
    alike = ("uncaught" in first.parts or not first.ranks) and not outside.network_only(run)
    echo |= not hard and (alike or _quoted(run, first))
    # Ray names what may have happened (the OOM killer, a crash, ray stop), and knows nothing.
    open_ = _open(first) and first.lost
    if open_ and "jax" in first.parts:
        echo = bool(before) or outside.own_failures(run, first)
        hit = _lost(first, chosen, before)
    elif open_:
        keeper = "Ray" if "ray" in first.parts else "the launcher"
        hit = says(
            "process-crashed.found",
            (),
            caused_by=(*before, *names("any", "-process-crashed"), TIMED_OUT),
            subject=outside.subject(chosen),
            since=outside.since(chosen),
            keeper=keeper,
            by_ray=keeper == "Ray",
        )
    else:
        hit = _crashed(run, first, chosen, bool(hard), before)
    yield replace(outside.placed(run, hit, first, chosen), severity=Severity.INFO if echo else None)


def _quoted(run: Run, first: End) -> bool:
    """Whether torch ended the process by an exception that quotes a failure of NCCL, and this abort may be its end."""
    if "heap" in first.parts or ("uncaught" in first.parts and "runtime_error" not in first.text):
        return False
    quotes = pl.col("message").is_in(playing("quoted-result")) | (
        pl.col("message").is_in(playing("uncaught")) & (pl.col("diagnosis") == EFFECT)
    )
    told = run.table("errors").select(pl.col("message").cast(pl.String), pl.col("diagnosis").cast(pl.String))
    return told.filter(quotes).height > 0


# Who only handles the signal, or was called by what is at fault.
_BELOW: Final = ("libc.", "libc-", "libpthread", "libucs", "libucm", "libstdc++", "libgcc", "ld-", "libasan")
_FRAMES: Final = 60


def _library(run: Run, first: End) -> str:
    """The library in which the stack behind the line stands, without what handles signals; empty if none is known."""
    stacks = run.table("stacks").filter(
        (pl.col("input_id") == first.ref.input_id)
        & pl.col("line").cast(pl.Int64).is_between(first.ref.line - 1, first.ref.line + _FRAMES)
    )
    if first.pid is not None:
        stacks = stacks.filter(pl.col("pid").is_null() | (pl.col("pid") == first.pid))
    known = stacks.sort("line")["library"].drop_nulls().str.split("/").list.last()
    return next((str(name) for name in known if not name.startswith(_BELOW)), "")


# NCCL's parts that can be switched off one by one: the one that stands in the stack is not needed for a test run.
_PARTS_OFF: Final = (
    "try another NCCL release (LD_PRELOAD of its libnccl.so.2), then without its parts, one at a time: "
    "NCCL_RAS_ENABLE=0, NCCL_NET_PLUGIN=none, NCCL_TUNER_PLUGIN=none, NCCL_PROFILER_PLUGIN=none, NCCL_DEBUG=WARN"
)


def _crashed(run: Run, first: End, chosen: Sequence[End], hard: bool, before: tuple[str, ...]) -> Hit:
    """A signal ended the process."""
    library = _library(run, first)
    number = _signal(first)
    thrown = _THROWN.search(first.text)
    how = _NAMES.get(number or 0, "it died of a signal")
    if thrown is not None:
        how = f"an uncaught exception, {cut(' '.join(': '.join(filter(None, thrown.groups())).split()), 90)}"
    elif "heap" in first.parts:
        how = f"its heap is damaged, {cut(first.text.strip(), 90)}"
    return says(
        "process-crashed.crashed",
        (),
        caused_by=before if hard else (*names("any", "-process-crashed"), TIMED_OUT),
        subject=outside.subject(chosen),
        library=library,
        how=how,
        since=outside.since(chosen),
        bus_error=number == 7,
        written=any("Fatal Python error" in end.text for end in chosen),
        parts_off=f"; {_PARTS_OFF}" if library.startswith(("libnccl.", "librccl.")) else "",
        hard=hard,
    )
