"""Lines of launchers, schedulers, shells and kernels that say that a process or the job was ended.

They are no diagnosis: they say how the output ends, so that a log that was cut short does not read as a healthy one.
Two kinds mean something on the last lines of an input only (``AT_THE_END``): a message of a severe level, and the head
of a line of NCCL that was not written to its end.
"""

import re
from collections.abc import Sequence
from typing import Final

import polars as pl

from nccl_insight.base import late, texts, toml
from nccl_insight.readers.embedded.forms import GOOD, PROGRESS, RAISED, SIGNAL_OF, through

_PATTERNS: Final = texts.patterns(__file__)
_BARE: Final = late.compiled(_PATTERNS["bare"])
# One alternative per writer: Slurm, timeout and wrappers, shells and launchers on signals, torchrun, MPI, Python,
# the kernel's out-of-memory killer.
_KINDS: Final = tuple(
    (kind, _PATTERNS[kind.replace(" ", "_")])
    for kind in ("time limit", "cancelled", "out of memory", "killed by a signal", "stacks", "ended with an error")
)
LEVEL: Final = "severe level"
TORN: Final = "torn head"
# The last lines of an input, whatever they say.
LAST: Final = "last words"
LAST_LINES: Final = 16
# The course of the program in its own words: its first stamped line, its last step, and that it came to its end.
BEGUN: Final = "first stamp"
STEP: Final = "last step"
DONE: Final = "good end"
COURSE: Final = (BEGUN, STEP, DONE)
# The last line that each rank of a shared output begins with its number.
OF_RANK: Final = "last of a rank"
AT_THE_END: Final = (LEVEL, TORN, LAST, OF_RANK, *COURSE)
_STAMP: Final = _PATTERNS["stamp"]
# Bounds are for Python's engine, which may go back; another compiles each repeat.
_GOOD: Final = re.sub(r"\{0,[0-9]+\}", "*", GOOD)
_NOT_OWN: Final = r" kernel: | systemd\[|slurm|kubelet"
# Words that a sentence quotes and goes on about: nobody said them now.
_QUOTED: Final = r'([\w:,] )"[^"]{8,400}"([ ,;.]+[a-z])'
_HEAD: Final = 4096
_TAIL: Final = 4096
_MOST: Final = 1000
_SEVERE: Final = r"(?:^|[\[\s|#])(?:ERROR|FATAL|CRITICAL)(?:[\]:|\s]|$)"
_TORN_HEAD: Final = _PATTERNS["torn_head"]
SIGNS: Final[Sequence[str]] = toml.beside(__file__)["signs"]


def shell_signal(text: str) -> tuple[str, int] | None:
    """What a shell prints of a command that a signal ended, alone or behind a progress bar, and the signal's number."""
    word = _BARE.match(text)
    return None if word is None else (word[1], SIGNAL_OF["shell"][word[1]])


def ending_lines(text: pl.Expr) -> pl.Expr:
    """Whether a line may say that something ended (a cheap test with few false hits)."""
    return text.str.contains_any(list(SIGNS)) | text.str.contains(_TORN_HEAD)


def scan_lines(lines: pl.DataFrame) -> pl.DataFrame:
    """Rows of ``endings`` (``line, kind, text``) from ``line, text``.

    The first twenty and the last three of each kind, the last five of those that count at the end only, the last
    lines as they are, and those that mark the course of the program (``COURSE``).
    """
    rows = [_ended(lines), _course(lines)]
    return pl.concat(rows).sort("line", maintain_order=True)


def alike(text: pl.Expr) -> pl.Expr:
    """The text without numbers and addresses: equal where lines differ in these alone."""
    return text.str.replace_all(r"(?:0x)?[0-9a-fA-F]*[0-9][0-9a-fA-F]*", "#")


# A rank in front of what it says: [rank3]: , Rank 3 | , 2026-11-27 04:04:08 INFO rank=3: , 3: of srun, [3] of Hydra.
_RANKS: Final = tuple(_PATTERNS[name] for name in ("ranked", "rank_hydra", "rank_srun", "rank_mpi"))
_LABEL: Final = r"^\s*(?:[0-9]{1,7}: |\[[0-9]{1,7}\][: ]|.{0,80}\b(?i:rank).?[0-9]|\[[\w.@-]*,?[0-9]+\]<std)"
_STACK: Final = r'Traceback \(most recent|File ".*", line [0-9]|\[[EWIF][0-9]{3,4} [0-9]{2}:|: {3,}|\]: *$'
_FRAME: Final = r"^(?:\[[^\[\]]{1,40}\]:? ?)?\s*(?:frame )?#[0-9]{1,3}[: ]"


def tells(text: pl.Expr) -> pl.Expr:
    """Whether a last line may be a reason: it is not blank, no frame of a stack, and counts no steps."""
    return text.str.contains(r"\S") & ~text.str.contains(PROGRESS) & ~text.str.contains(_FRAME)


def rank_of(text: pl.Expr) -> pl.Expr:
    """The rank by which a line begins; null where it begins with none."""
    return pl.coalesce(text.str.extract(pattern) for pattern in _RANKS).cast(pl.Int64)


def last_of_ranks(texts: pl.Series) -> pl.Series:
    """Where the last words of each rank stand among the last lines; no stacks, and no steps counted."""
    text = pl.col("text")
    tail = texts.alias("text").to_frame().with_row_index("at").tail(_TAIL).filter(text.str.contains(_LABEL))
    said = tail.filter(tells(text) & ~text.str.contains(rf"{_STACK}|{RAISED}")) if tail.height else tail
    said = said.with_columns(rank=rank_of(text)).drop_nulls("rank")
    last: pl.Series = said.group_by("rank").agg(pl.col("at").max())["at"].sort()
    return last


def _course(lines: pl.DataFrame) -> pl.DataFrame:
    """The first line with a stamp, the last that counts steps, and the last that says that the program is through; and
    the last words of each rank."""
    text = pl.col("text")
    begun = lines.head(_HEAD).filter(text.str.contains(_STAMP) & ~text.str.contains(_NOT_OWN)).head(1)
    tail = lines.tail(_TAIL)
    # What benchmarks say of themselves in front of a table counts no steps.
    steps = tail.filter(text.str.contains(PROGRESS) & ~text.str.contains(rf"^\s*#|{RAISED}")).tail(1)
    done = tail.filter(text.str.contains(_GOOD))
    done = done.filter([through(t) for t in done["text"]]).tail(1) if done.height else done
    found = [
        rows.select("line", pl.lit(kind).alias("kind"), _plain(text).str.slice(0, 300))
        for kind, rows in ((BEGUN, begun), (STEP, steps), (DONE, done), (OF_RANK, lines[last_of_ranks(lines["text"])]))
    ]
    return pl.concat(found)


def _ended(lines: pl.DataFrame) -> pl.DataFrame:
    last = lines.select("line", "text").filter(pl.col("line") + LAST_LINES > pl.col("line").max())
    # What stands last where a progress bar was drawn over and over.
    drawn = _plain(pl.col("text")).str.replace(r"^.*\r([^\r]*\S[^\r]*)\r*$", "$1")
    last = last.select("line", pl.lit(LAST).alias("kind"), drawn.str.slice(0, _MOST))
    text = _plain(pl.col("text")).str.strip_chars()
    likely = lines.filter(ending_lines(pl.col("text"))).with_columns(text=text)
    # Asked first because the patterns take milliseconds to compile, and each of thousands of inputs is asked.
    if likely.is_empty():
        return last
    # The traceback of what Python says it ignores while it clears up.
    ignored = pl.col("text").shift(1).str.contains("^Exception ignored in").fill_null(False)
    found = likely.with_columns(kind=_kind(pl.col("text"))).filter(pl.col("kind").is_not_null() & ~ignored)
    quotes = found.filter(pl.col("text").str.contains('"', literal=True))
    if quotes.height:
        mentioned = quotes.filter(_kind(pl.col("text").str.replace_all(_QUOTED, "$1$2")).is_null())
        found = found.join(mentioned, on="line", how="anti", maintain_order="left")
    found = found.with_columns(text=pl.col("text").str.slice(0, 300))
    ends_only = pl.col("kind").is_in(list(AT_THE_END))
    number = pl.int_range(pl.len()).over("kind")
    left = pl.len().over("kind").cast(pl.Int64) - number
    rows = found.filter((~ends_only & ((number < 20) | (left <= 3))) | (ends_only & (left <= 5)))
    return pl.concat([rows.select("line", "kind", "text"), last]).sort("line", maintain_order=True)


def _kind(text: pl.Expr) -> pl.Expr:
    """The kind of end that a line tells of; null where it tells of none."""
    kind = pl.lit(None, pl.String)
    for name, pattern in ((TORN, _TORN_HEAD), (LEVEL, _SEVERE), *reversed(_KINDS)):
        kind = pl.when(text.str.contains(pattern)).then(pl.lit(name)).otherwise(kind)
    return kind


def _plain(text: pl.Expr) -> pl.Expr:
    """Without the colors of a terminal."""
    return text.str.replace_all(r"\x1b\[[0-9;]*m", "")
