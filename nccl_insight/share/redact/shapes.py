"""Lines of a text by shape: the few in which a pattern can match at all, and those that differ in numbers only.

Most lines of a log are a few hundred texts with other numbers in them. What becomes of a line then needs to be found
out once for each text: its numbers, pointers and times are masked, and what stood under the mask is put back.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import polars as pl

from nccl_insight.base import late
from nccl_insight.base.data import dataclass
from nccl_insight.share.redact.patterns import MASK

# A line that is longer is cut where an object of JSON ends.
_LONG: Final = 4096
_OBJECT_END: Final = "},"
# In texts of so many characters names are looked for one by one.
_LITTLE: Final = 4000
# A match begins in a line with one of its words and ends within two more with text; only a key may be longer.
_BEHIND: Final = 2
_KEY: Final = "-----begin"
_KEY_CHARACTERS: Final = 20_100

# What bytes that were no UTF-8 are read as.
_HALF: Final = late.compiled("[\ud800-\udfff]")
# What ends a word on either side. No masked number holds one of these, so what stood under a mask ends at the next.
_EDGE: Final = r"[ \t\n\r\"'(,;<>=|{}]"
# A longer one may name something; times in nanoseconds have as many digits.
_DECIMAL: Final = "[0-9]{1,16}|1[4-9][0-9]{15,17}"
_INTEGER: Final = _DECIMAL + "|0x[0-9a-fA-F]+"
_DAY: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
_ANY_NUMBER: Final = (
    rf"{_DAY}(?:T{_CLOCK}(?:Z|[+-][0-9]{{2}}:?[0-9]{{2}})?)?|{_CLOCK}|0x[0-9a-fA-F]+|[0-9]+\.{{1,2}}[0-9]+"
    rf"|-?[0-9]{{1,6}}(?:/-?[0-9]{{1,6}}){{1,5}}-?|(?:{_DECIMAL})-?|[0-9][0-9a-f]{{0,7}}|[a-f][0-9a-f]{{4,7}}"
)
# A name before the numbers of a process and a thread that could not be the beginning of an address.
_NAME: Final = "(?:[A-Za-z0-9_][A-Za-z0-9_.-]{4,}|[A-Za-z0-9_.-]*[G-Zg-z_][A-Za-z0-9_.-]*)"


def _masking(number: str, index: str) -> str:
    """An expression for Rust's engine; groups 1 and 2, 3 and 4, 5 and 6 stand around what is masked."""
    return (
        rf"((?:^|{_EDGE})[\[+-]?)(?:{number})([\])]{{0,2}}(?:{_EDGE}|$))"
        rf"|((?:^|[ \t>]):?{_NAME}:)[0-9]+:[0-9]+( )"
        rf"|((?:^|{_EDGE})\[?)[0-9]+\[{index}\]({_EDGE}|$)"
    )


# The number of a port or node of a fabric, which names it as no pointer does.
_PORT: Final = "0x[0-9a-fA-F]{6}(?:0300|[fF]{3}[eE])[0-9a-fA-F]{6}"
_MASK_ANY: Final = _masking(_ANY_NUMBER, "[0-9a-f]+")
_MASK_INTEGERS: Final = _masking(_INTEGER, "[0-9]+")
_WITH_MASK: Final = f"${{1}}${{3}}${{5}}{MASK}${{2}}${{4}}${{6}}"


def pieces(text: str) -> list[str]:
    """The lines of a text, each with its end; long ones in parts that end with an object of JSON."""
    *whole, last = text.split("\n")
    lines = [line + "\n" for line in whole]
    if last:
        lines.append(last)
    if max(map(len, lines), default=0) <= _LONG:
        return lines
    return [part for line in lines for part in (_parts(line) if len(line) > _LONG else (line,))]


def _parts(line: str) -> Iterable[str]:
    *most, last = line.split(_OBJECT_END)
    yield from (part + _OBJECT_END for part in most)
    if last:
        yield last


def as_series(lines: Sequence[str]) -> pl.Series:
    """The lines; what is no Unicode (bytes that were no UTF-8) is null."""
    try:
        return pl.Series(lines, dtype=pl.String)
    except UnicodeEncodeError:
        return pl.Series([None if _HALF.search(line) else line for line in lines], dtype=pl.String)


# What NCCL puts in front of a line: its host is known from there, and often holds a word of the patterns (ip-10-0-0-1).
_OWN_HEAD: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*:[0-9]+:[0-9]+ \[-?[0-9]+\] NCCL "


def sections(lines: Sequence[str], wanted: str, names: Collection[str] = ()) -> list[tuple[int, int]]:
    """Where patterns can match: first line and the one behind the last, in order and apart from each other.

    Args:
        lines: the pieces of a text.
        wanted: an expression for Rust's engine that is found where a match begins, behind a head of NCCL, in that line
            and the next with text.
        names: what is looked for in whole lines.
    """
    every = as_series(lines)
    full = (~every.str.contains(r"^\s*$")).fill_null(value=True)
    whole = every.filter(full)
    line = whole.str.replace(_OWN_HEAD, "")
    reach = pl.select(pl.concat_str(line, *(line.shift(-n, fill_value="") for n in range(1, _BEHIND + 1)))).to_series()
    found = reach.is_null() | (reach.str.find(wanted) < line.str.len_bytes()).fill_null(value=False)
    if names:
        found |= whole.str.contains_any(list(names), ascii_case_insensitive=True).fill_null(value=True)
    made: list[tuple[int, int]] = []
    for at in full.arg_true().filter(found):
        end = _end(lines, at)
        if made and at <= made[-1][1]:
            made[-1] = made[-1][0], max(end, made[-1][1])
        else:
            made.append((at, end))
    return made


def _end(lines: Sequence[str], at: int) -> int:
    """Behind the last line that a match which begins in this one can reach."""
    key = lines[at].lower().rfind(_KEY)
    characters = _KEY_CHARACTERS - len(lines[at]) + key if key >= 0 else 0
    texts, end = 0, at + 1
    while end < len(lines) and (texts < _BEHIND or characters > 0):
        texts += not lines[end].isspace()
        characters -= len(lines[end])
        end += 1
    return end


def shapes(lines: Sequence[str], kept: Collection[str], *, integers: bool) -> list[str | None]:
    """The lines with their numbers masked, so that lines of one shape differ in numbers only.

    ``None`` for a line that has to be looked at by itself.

    Args:
        lines: the pieces of a text.
        kept: numbers that say something.
        integers: mask integers and pointers only, because there are names that look like other numbers.
    """
    series = as_series(lines)
    mask = _MASK_INTEGERS if integers else _MASK_ANY
    # The end of a number is the beginning of the next: every second one is met by the second turn.
    masked = series.str.replace_all(mask, _WITH_MASK).str.replace_all(mask, _WITH_MASK)
    alone = series.str.contains(MASK, literal=True) | series.str.contains(_PORT)
    if kept:
        alone |= series.str.contains_any(list(kept))
    return pl.select(pl.when(~alone).then(masked)).to_series().to_list()


def replaced(texts: list[str], names: Mapping[str, str]) -> list[str]:
    """The texts with all names replaced wherever they stand, longer ones first; linear in what is given."""
    if not names:
        return texts
    if sum(map(len, texts)) < _LITTLE:
        return [_one_by_one(text, names) for text in texts]
    longest = sorted(names, key=len, reverse=True)
    series = as_series(texts).str.replace_many(longest, [names[name] for name in longest], leftmost=True)
    found = zip(texts, series, strict=True)
    return [_one_by_one(text, names) if new is None else new for text, new in found]


def _one_by_one(text: str, names: Mapping[str, str]) -> str:
    for name in sorted((name for name in names if name in text), key=len, reverse=True):
        text = text.replace(name, names[name])
    return text


def representatives(lines: Sequence[str]) -> Iterable[str]:
    """The shape of each line, and lines as they are that have none; for what numbers do not say."""
    return (
        line if shape is None else shape for line, shape in zip(lines, shapes(lines, (), integers=False), strict=True)
    )


@dataclass(frozen=True)
class Change:
    """What becomes of all lines of a shape: their text around the masks before and after."""

    before: Sequence[str]
    after: Sequence[str]

    def apply(self, line: str) -> str:
        """A line of the shape, changed."""
        before, after = self.before, self.after
        at = len(before[0])
        if before[1:] == after[1:]:
            return after[0] + line[at:]
        made = [after[0]]
        for old, new in zip(before[1:], after[1:], strict=True):
            end = line.index(old, at) if old else len(line)
            made += (line[at:end], new)
            at = end + len(old)
        return "".join(made)


def change(shape: str, new: str) -> Change | None:
    """The change from a shape to its new text, ``None`` when masks got lost on the way."""
    before, after = shape.split(MASK), new.split(MASK)
    return Change(before, after) if len(before) == len(after) else None
