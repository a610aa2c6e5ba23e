"""What the last foreign lines of an input say by their form: an exception, an exit code, a signal, a fatal level, or
that the program came to its end. No wording of a single program is known here; what is, is in the grammar.
"""

import re
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.natures import called, names
from nccl_insight.base.xids import weight
from nccl_insight.facts.said.course import signs_of_life
from nccl_insight.facts.said.errors import BENIGN, causes
from nccl_insight.facts.said.topics import told
from nccl_insight.language.load import playing
from nccl_insight.readers.embedded.endings import LAST
from nccl_insight.readers.embedded.forms import (
    COMPLAINT,
    EXCEPTION,
    FAILURES,
    FATAL,
    SIGNALS,
    bare_number,
    clears_up,
    ended_well,
    form_of,
    goes_on,
    of_traceback,
    says,
)
from nccl_insight.readers.embedded.tracebacks import ends_traceback
from nccl_insight.tables.run import Run, fact

_REACH: Final = 40


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
        return number if number in SIGNALS else None


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
    def well(self) -> bool:
        """Whether it ends well and complains of nothing."""
        return bool(self.good) and not self.words

    @property
    def failures(self) -> tuple[Word, ...]:
        """What proves by its form that something ended with an error: neither a complaint nor the user's own end."""
        if any(w.ended == 2 or (w.exception or "").endswith("KeyboardInterrupt") for w in self.words):
            return ()
        return tuple(w for w in self.words if w.form in FAILURES)


@fact
def tails(run: Run) -> tuple[Tail, ...]:
    """The end of each input that has foreign lines behind its own, in order."""
    rows = run.table("endings").filter(pl.col("kind") == LAST).drop_nulls("text")
    sizes = dict(run.table("inputs").select("input_id", "lines").drop_nulls().iter_rows())
    went_on = signs_of_life(run)
    found: list[Tail] = []
    for (number,), own in rows.sort("line").partition_by("input_id", as_dict=True).items():
        input_id = int(str(number))
        since = max(went_on.get(input_id, 0), int(sizes.get(input_id, 0)) - _REACH)
        found.append(_tail(input_id, own.filter(pl.col("line").cast(pl.Int64) > since)))
    return tuple(tail for tail in found if tail.last)


def unwell(run: Run) -> pl.DataFrame:
    """Rows of :func:`nccl_insight.facts.said.errors.causes` that are loud and not known to be harmless."""
    loud = pl.col("loud") & ~pl.col("cause").is_in([BENIGN, *names("remark")]) & pl.col("line").is_not_null()
    rows = causes(run).filter(loud)
    xids = rows["cause"] == called("xid")
    if not xids.any():
        return rows
    # What the driver corrected, or keeps for the next reset.
    words, switch = told(rows, "xid-word"), rows["message"].is_in(playing("switch"))
    given = zip(xids, rows["xid"], words, switch, strict=True)
    return rows.filter(pl.Series([not (of and weight(n, word, switch=s) == "info") for of, n, word, s in given]))


# The frame that MPI's launchers put around what they end with (show_help of Open MPI, PRRTE and PMIx).
_FRAME: Final = re.compile(r"(?:^|[^-])-{74}$")
_NOTE: Final = re.compile(r"\b(?:warning|note|deprecated)\b", re.I)


def _framed(rows: pl.DataFrame) -> dict[int, bool]:
    """The lines that stand in frames of MPI's launchers; true for the first of a text that complains.

    Where that line is missing a message of the grammar has it, and says what the text means.
    """
    found: dict[int, bool] = {}
    block: list[tuple[int, str]] = []
    opened = 0
    for line, text in rows.select("line", "text").iter_rows():
        if not _FRAME.search(str(text).rstrip()):
            block += [(int(line), str(text))] if says(str(text)) else []
            continue
        if opened and block:
            loud = not _NOTE.search(block[0][1]) and any(form_of(said) for _, said in block)
            found |= {number: loud and number == opened + 1 for number, _ in block}
        opened, block = 0 if opened and block else int(line), []
    return found


def _form(text: str, inside: bool, fatal: bool | None) -> tuple[str, int | None, int | None, str | None] | None:
    """What a line says by its form, else by its place: ``inside`` a traceback, in a block that is ``fatal`` or not."""
    said = form_of(text)
    if said is not None and said[0] != COMPLAINT:
        return said
    if inside and (raised := ends_traceback(text)):
        return EXCEPTION, None, None, raised
    if fatal is None:
        return said
    return (FATAL, None, None, None) if fatal else None


def _tail(input_id: int, rows: pl.DataFrame) -> Tail:
    words: list[Word] = []
    good = last = ""
    at = 0
    ignored = inside = False
    framed = _framed(rows)
    for line, text in rows.select("line", "text").iter_rows():
        text = str(text)
        if not says(text):
            continue
        if last.endswith(":") and bare_number(text):
            text = f"{last} {text.strip()}"
        last, at = text.strip(), int(line)
        if clears_up(text):
            ignored = True  # raised while Python clears up: it says so and goes on
            continue
        if ignored and of_traceback(text):
            continue
        if "Traceback (most recent call last)" in text:
            inside = True
            continue
        if inside and text[:1].isspace():
            continue
        said, inside = _form(text, inside, framed.get(int(line))), False
        if ignored:
            ignored = False
            if said is not None and said[0] == EXCEPTION:
                continue
        if said is not None and not (said[0] == COMPLAINT and goes_on(text)):
            form, code, signal, exception = said
            words.append(Word(input_id, int(line), last, form, code, signal, exception))
        elif ended_well(last):
            good, words = last, []  # what came before it was got over
        elif goes_on(text):
            good, words = "", []
    return Tail(input_id, tuple(words), good, last, at)
