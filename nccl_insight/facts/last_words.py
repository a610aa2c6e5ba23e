"""What the last foreign lines of an input say by their form: an exception, an exit code, a signal, a fatal level, or
that the program came to its end. No wording of a single program is known here; what is, is in the grammar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import polars as pl

from nccl_insight.facts.errors import BENIGN, causes
from nccl_insight.readers.embedded.endings import LAST
from nccl_insight.readers.embedded.tracebacks import exception_in
from nccl_insight.tables.run import Run

EXCEPTION: Final = "exception"
EXIT: Final = "exit"
SIGNAL: Final = "signal"
FATAL: Final = "fatal"
COMPLAINT: Final = "complaint"
FAILURES: Final = frozenset({EXCEPTION, EXIT, SIGNAL, FATAL})

_CODE: Final = re.compile(
    r"\b(?:exit|exits|exited|exiting|return|returned|returns|terminated|ended|finished|died|failed|aborted|stopped)\b"
    r"[^\n]{0,80}?\b(?:code|status|rc)\b\"?(?: of| is| was)? ?[:=]? ?[(\[]?(-?[0-9]{1,10})\b"
    r"|\b(?:exit|return|error)[ _-]?(?:code|status|value)s?\b\"?(?: of| is| was)?\s*[:=]?\s*[(\[]?\"?(-?[0-9]{1,10})\b"
    r"|\b(?:rc|retcode|returncode|errorlevel)\b\"?\s*[:=]\s*(-?[0-9]{1,10})\b"
    r"|\bnon-?zero (?:exit )?(?:code|status):? ?\(?([0-9]{1,3})\b"
    r"|\*\*\* \[[^\]]*\] Error ([0-9]{1,3})\b"
    r"|\bexit(?:ed|s|ing)? ?\(?([1-9][0-9]{0,2})\)?[.!]?$",
    re.I,
)
_NONZERO: Final = re.compile(r"\bnon-?zero (?:exit |return )?(?:code|status)\b", re.I)
_NAMES: Final = {
    "HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": 9, "SEGV": 11,
    "PIPE": 13, "TERM": 15, "XCPU": 24,
}  # fmt: skip
_SIGNAL: Final = re.compile(
    r"\b(?:signal|sig)\b[ :=#(]*(?:number |no\.? )?([0-9]{1,2})\b"
    r"|\bSIG(HUP|INT|QUIT|ILL|TRAP|ABRT|BUS|FPE|KILL|SEGV|PIPE|TERM|XCPU)\b",
    re.I,
)
_DIED: Final = re.compile(
    r"\b(?:killed|terminated|died|exit(?:ed|s|ing)?|crash(?:ed)?|caught|fatal|ended|abort(?:ed|ing)?|received|got|"
    r"core dumped|unhandled|stopped)\b",
    re.I,
)
_CORE: Final = re.compile(
    r"\b(?:segmentation fault|core dumped|segfault|SIGSEGV|bus error|stack smashing)\b", re.I
)
_FATAL: Final = re.compile(
    r"(?:^|[\[\s|#:(<])(?:FATAL|CRITICAL|PANIC|EMERG|ALERT|fatal|panic|critical)\b(?:[\]:|)>\s]|$)"
    r"|(?:^|[\s:\]])F[01][0-9]{3} [0-9:.]{8,}"
    r"|^(?:fatal error|panic|fatal|PANIC|Fatal error):|\bpanicked at\b|\[signal [A-Z]+: "
    r"|\b[Aa]ssertion\b.{0,200}\bfailed\b|\bCheck failed: |\bcheck failure stack trace\b"
)
_ERROR: Final = re.compile(
    r"(?:^|[\[\s|#:(<=\"])(?:ERROR|ERR|SEVERE|error|Error|err)(?:[\]:|)>\"]|\s|$)"
    r"|(?:^|[\[\s:\]])E[01][0-9]{3} [0-9:.]{8,}"
)
_NEGATIVE: Final = re.compile(
    r"\b(?:fail(?:ed|s|ing|ure)?|abort(?:ed|ing|s)?|died|dead|killed|killing|crash(?:ed|es)?|lost|timed ?out|timeout|"
    r"unexpected(?:ly)?|unable|cannot|can't|could not|couldn't|refused|denied|evicted|preempt(?:ed|ion)|unreachable|"
    r"uncorrectable|not found|no such|not ready|mismatch|corrupt(?:ed|ion)?|unhealthy|giving up|gave up|exceeded|"
    r"exhausted|wrong|invalid|disconnect(?:ed)?|closed|down|hang|hung|stuck|stall(?:ed|s)?|interrupted|cancel(?:l)?ed|"
    r"revoked|error(?:s|ed)?|exception)\b",
    re.I,
)
# A count of none: "0 errors", "no failures", "Out of bounds values : 0 OK".
_NONE: Final = re.compile(
    r"\b(?:0|no|none|zero|without(?: any)?) (?:[a-z]+ )?(?:errors?|fail(?:ed|ures?)|exceptions?)\b"
    r"|\b(?:errors?|fail(?:ed|ures?))\s*[:=]\s*(?:0|none|no)\b",
    re.I,
)
_GOOD: Final = re.compile(
    r"\b(?:train(?:ing)?|pre-?training|fine-?tun(?:e|ing)|run|job|program|script|benchmark|test(?:s|ing)?|evaluation|"
    r"inference|experiment|workflow|pipeline|task|process|execution|"
    r"all (?:done|ranks|steps|epochs|tests|processes|workers))\b[^\n]{0,60}?"
    r"\b(?:complete[d]?|finish(?:ed)?|done|succe(?:eded|ss|ssful|ssfully)|ended (?:normally|successfully)|passed)\b"
    r"|\b(?:successfully|normally) (?:complete[d]?|finish(?:ed)?|end(?:ed)?|exit(?:ed)?)\b"
    r"|\b(?:complete[d]?|finish(?:ed)?|end(?:ed)?|exit(?:ed|s)?|terminated) (?:successfully|normally|cleanly)\b"
    r"|\bReason:\s+Completed\b|\bcondition met\b|\bshutdown (?:complete|barrier\b.*\bpassed)|'train_runtime':"
    r"|^(?:all )?(?:done|finished|completed|success|succeeded|bye|goodbye)[.!]*$|\bafter training is done\b"
    r"|\bmax_(?:steps|epochs)=[0-9]+` reached|\bsaved (?:the )?final\b",
    re.I,
)
# A counter that came to the total that was announced with it.
_TOTAL: Final = re.compile(
    r"\b(?:step|steps|iter|iteration|epoch|it|batch|round)s?\b[\s:=\[#]*([0-9]{1,12})\s*(?:/|of)\s*([0-9]{1,12})",
    re.I,
)
_IGNORED: Final = re.compile(r"^Exception ignored in")
_FRAME: Final = re.compile(r"^\s|^Traceback \(most recent")
_WARNING: Final = re.compile(
    r"(?:^|[\[\s|#:(<.])(?:WARNING|WARN|Warning|warning|[A-Za-z]+Warning)(?:[\]:|)>\s]|$)"
    r"|(?:^|[\[\s:\]])[WI][01][0-9]{3} [0-9:.]{8,}|^wandb:|\bINFO\b|\bDEBUG\b|\bNOTICE\b"
)
# What NCCL and RCCL say of the machine as a warning, and what healthy jobs print, too.
REMARKS: Final = (
    BENIGN, "plain-note", "kernel-cmdline-iommu-missing", "host-tuning", "env-recommended-unset",
    "confidential-computing", "ras-port-in-use", "ib-no-device", "ib-libibverbs-missing",
)  # fmt: skip
_MOST: Final = 1000
_REACH: Final = 40
_STEPS: Final = ("launched", "bootstrapped", "init_started", "init_completed", "connected", "first_call", "last_call",
                 "destroyed")  # fmt: skip


@dataclass(frozen=True)
class Word:
    """One of the last lines. ``form``: one of the module's names; ``code``, ``signal``: where it states one."""

    input_id: int
    line: int
    text: str
    form: str
    code: int | None = None
    signal: int | None = None
    exception: str | None = None

    @property
    def ended(self) -> int | None:
        """The signal that ended a process, from its number or the exit code that a shell or Python makes of it."""
        if self.signal is not None or self.code is None:
            return self.signal
        number = -self.code if self.code < 0 else self.code - 128
        return number if number in _NAMES.values() else None


@dataclass(frozen=True)
class Tail:
    """The end of an input: what its last foreign lines complain of, and whether a good end is stated behind that.

    ``good``: the line that states it; empty where none does. ``last``: the last line that is not blank.
    """

    input_id: int
    words: tuple[Word, ...]
    good: str
    last: str
    last_line: int

    @property
    def failures(self) -> tuple[Word, ...]:
        """What proves by its form that something ended with an error: neither a complaint nor the user's own end."""
        if any(w.ended == 2 or (w.exception or "").endswith("KeyboardInterrupt") for w in self.words):
            return ()
        return tuple(w for w in self.words if w.form in FAILURES)


def form_of(text: str) -> tuple[str, int | None, int | None, str | None] | None:
    """What a line says by its form: ``(form, exit code, signal, exception)``; None where it complains of nothing."""
    text = text[:_MOST].strip()
    found = _CODE.search(text)
    if found is not None:
        code = int(next(g for g in found.groups() if g is not None))
        return (EXIT, code, None, None) if code else None
    raised = exception_in(text)
    if raised is not None:
        return EXCEPTION, None, None, raised
    signal = _SIGNAL.search(text)
    if signal is not None and _DIED.search(text):
        return SIGNAL, None, int(signal[1]) if signal[1] else _NAMES[signal[2].upper()], None
    if _CORE.search(text):
        return SIGNAL, None, 11, None
    if _NONZERO.search(text):
        return EXIT, 1, None, None
    if _WARNING.search(text):
        return None
    if _FATAL.search(text):
        return FATAL, None, None, None
    if _ERROR.search(text) or (_NEGATIVE.search(text) and not _NONE.search(text)):
        return COMPLAINT, None, None, None
    return None


def _ended_well(text: str) -> bool:
    """Whether a line says that the program, or what it counts, came to its end."""
    code = _CODE.search(text)
    if code is not None:
        return int(next(g for g in code.groups() if g is not None)) == 0
    total = _TOTAL.search(text)
    if total is not None and int(total[1]) >= int(total[2]) > 1:
        return True
    if _GOOD.search(text) is None:
        return False
    return _NEGATIVE.search(_NONE.sub("", text)) is None


def tails(run: Run) -> tuple[Tail, ...]:
    """The end of each input that has foreign lines behind its own, in order."""
    return run.memo("facts.last_words", _build)


def _build(run: Run) -> tuple[Tail, ...]:
    rows = run.table("endings").filter(pl.col("kind") == LAST).drop_nulls("text")
    sizes = dict(run.table("inputs").select("input_id", "lines").drop_nulls().iter_rows())
    went_on = _signs_of_life(run)
    found: list[Tail] = []
    for (number,), own in rows.sort("line").partition_by("input_id", as_dict=True).items():
        input_id = int(str(number))
        since = max(went_on.get(input_id, 0), int(sizes.get(input_id, 0)) - _REACH)
        found.append(_tail(input_id, own.filter(pl.col("line").cast(pl.Int64) > since)))
    return tuple(tail for tail in found if tail.last)


def unwell(run: Run) -> pl.DataFrame:
    """Rows of :func:`nccl_insight.facts.errors.causes` that are loud and not known to be harmless."""
    return causes(run).filter(
        pl.col("loud") & ~pl.col("cause").is_in(list(REMARKS)) & pl.col("line").is_not_null()
    )


def _signs_of_life(run: Run) -> dict[int, int]:
    """The last line of each input on which a rank took a step: what was complained of before it did not end the job."""
    marks = run.table("milestones")
    if marks.is_empty():
        return {}
    steps = pl.max_horizontal(pl.col(s).cast(pl.Int64) for s in _STEPS)
    last = marks.group_by("input_id").agg(steps.max().alias("_last")).drop_nulls()
    return {int(input_id): int(line) for input_id, line in last.iter_rows()}


def _tail(input_id: int, rows: pl.DataFrame) -> Tail:
    words: list[Word] = []
    good = last = ""
    at = 0
    ignored = False
    for line, text in rows.select("line", "text").iter_rows():
        text = str(text)
        if not text.strip():
            continue
        last, at = text.strip(), int(line)
        if _IGNORED.search(text):
            ignored = True  # raised while Python clears up: it says so and goes on
            continue
        if ignored and _FRAME.search(text):
            continue
        said = form_of(text)
        if ignored:
            ignored = False
            if said is not None and said[0] == EXCEPTION:
                continue
        if said is not None:
            form, code, signal, exception = said
            words.append(Word(input_id, int(line), last, form, code, signal, exception))
        elif _ended_well(last):
            good, words = last, []  # what came before it was got over
    return Tail(input_id, tuple(words), good, last, at)
