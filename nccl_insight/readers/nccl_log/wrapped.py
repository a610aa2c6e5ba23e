"""Lines that a terminal, a viewer or a mail program broke at its width, put together again.

A terminal breaks at the width of the widest line, within words; others break before the word that does not fit. This
is taken for a wrapped log, and not for chance, only where records of several kinds that reach the width nearly all go
on in a line that begins no record: ranks print one message alike, and a table has rows of one width.
"""

from collections.abc import Sequence
from typing import Final

import polars as pl

_HEAD: Final = r"[^\s:]+:[0-9]+:[0-9]+ (?:\[-?[0-9]+\]|NCCL)"
# How lines of other programs begin; none of it begins the rest of a message of NCCL.
_OWN: Final = (
    r"^(?:Traceback |slurmstepd|srun: |[EWIF][0-9]{4} |\*\*\* |\[(?:rank|default)[0-9]|\[[EW] |  File |"
    r"[0-9]{4}-[0-9]{2}-)"
)
_FIRST: Final = r"^\s*(\S+)"
_KIND: Final = r" NCCL [A-Z]+ (\S{1,12})"
_WIDTHS: Final = (60, 400)
_KINDS_LEAST: Final = 3
_GO_ON_LEAST: Final = 0.9
# A line that ends further from the width than this had room for most words.
_ROOM: Final = 20


def unwrapped(lines: pl.Series, starts: Sequence[int], ascii_only: bool = False) -> pl.Series:
    """The lines whole; those that went on in the line before are empty. ``starts``: where inputs begin, from 1.

    ``ascii_only``: a byte is a character, which is faster to count.
    """
    lengths = lines.str.len_bytes() if ascii_only else lines.str.len_chars()
    ends = [*(start - 1 for start in starts[1:]), lines.len()]
    joined: dict[int, str] = {}
    for number in _likely(lines, lengths, starts, ends):
        first = starts[number] - 1
        size = ends[number] - first
        joined |= _of_input(lines.slice(first, size), lengths.slice(first, size), first)
    return lines.scatter(list(joined), list(joined.values())) if joined else lines


def _likely(lines: pl.Series, lengths: pl.Series, starts: Sequence[int], ends: Sequence[int]) -> list[int]:
    """The inputs (from 0) in which some records that reach the width may go on in the next line.

    All inputs are looked at together: a question costs more than the lines of a small one.
    """
    if len(starts) == 1:
        return [0]
    sizes = pl.Series([end - start + 1 for start, end in zip(starts, ends, strict=True)])
    of = pl.select(pl.int_range(len(starts), dtype=pl.UInt32).repeat_by(sizes).explode().alias("of"))
    width = pl.col("length").max().over("of")
    last = pl.col("of") != pl.col("of").shift(-1)
    far = of.with_columns(length=lengths).select(
        (pl.col("length") > width.cast(pl.Int64) - _ROOM) & width.is_between(*_WIDTHS) & ~last
    )
    at = far.to_series().fill_null(False).arg_true()
    reach = lines.gather(at)
    follows = reach.str.contains(_HEAD) & _is_rest(reach, lines.gather(at + 1))
    found = of["of"].gather(at.filter(follows)).value_counts()
    return sorted(found.filter(pl.col("count") >= _KINDS_LEAST)["of"].to_list())


def _of_input(lines: pl.Series, lengths: pl.Series, first: int) -> dict[int, str]:
    """New texts by their place, for the lines of one input."""
    width = lengths.max()
    if not isinstance(width, int) or not _WIDTHS[0] <= width <= _WIDTHS[1]:
        return {}
    # Few lines reach the width of a log that is not wrapped: only these are looked into at first.
    far = (lengths > width - _ROOM).arg_true()
    far = far.filter(far < lines.len() - 1)
    reach, behind = lines.gather(far), lines.gather(far + 1)
    begins = reach.str.contains(_HEAD)
    if int(begins.sum()) < _KINDS_LEAST:
        return {}
    rest = _is_rest(reach, behind)
    follows = begins & rest
    full = lengths.gather(far) == width
    # Only lines that end before the width tell that words were kept whole.
    if _is_wrapped(reach, follows & ~full, _no_room(reach, behind, width)):
        at = (lengths > width // 2).arg_true()
        at = at.filter(at < lines.len() - 1)
        head, tail = lines.gather(at), lines.gather(at + 1)
        on = _no_room(head, tail, width) & _is_rest(head, tail)
        return _joined(lines, at.filter(on), " ", first)
    if _is_wrapped(reach, begins & full, follows):
        at = far.filter(full & rest)
        return _joined(lines, at, "", first)
    return {}


def _is_rest(lines: pl.Series, behind: pl.Series) -> pl.Series:
    """Whether the lines behind some may be the rest of them: no own line, also by a label that both have."""
    rest = behind.str.contains(_HEAD).not_() & behind.str.contains(_OWN).not_() & (behind.str.len_bytes() > 0)
    at = rest.arg_true()
    alike = _label(lines.gather(at)).eq_missing(_label(behind.gather(at)))
    return rest.scatter(at.filter(alike), False)


def _label(lines: pl.Series) -> pl.Series:
    """The first words, with their numbers masked, as a launcher or collector labels lines."""
    return lines.str.extract(_FIRST).str.replace_all("[0-9]+", "#")


def _no_room(lines: pl.Series, behind: pl.Series, width: int) -> pl.Series:
    """Whether the first word of the line behind would not have fit."""
    word = behind.str.extract(r"^(\S+)").str.len_chars().fill_null(0).cast(pl.Int64)
    # Numbers of rings stand three blanks apart.
    gap = behind.str.contains(r"^[0-9 ]+$").cast(pl.Int64) * 2 + 1
    over: pl.Series = (lines.str.len_chars().cast(pl.Int64) + word + gap > width) & (word > 0)
    return over


def _is_wrapped(lines: pl.Series, reach: pl.Series, goes_on: pl.Series) -> bool:
    on = reach & goes_on
    if int(on.sum()) < _GO_ON_LEAST * int(reach.sum()):
        return False
    kinds = lines.filter(on).str.extract(_KIND).drop_nulls().n_unique()
    return int(kinds) >= _KINDS_LEAST


def _joined(lines: pl.Series, goes_on: pl.Series, glue: str, first: int) -> dict[int, str]:
    done: dict[int, str] = {}
    pieces: dict[int, list[str]] = {}
    into = last = -2
    for at in goes_on.to_list():
        if at != last + 1:
            into, pieces[first + at] = at, [lines[at]]
        last = at
        pieces[first + into].append(lines[at + 1])
        done[first + at + 1] = ""
    return done | {at: glue.join(texts) for at, texts in pieces.items()}
