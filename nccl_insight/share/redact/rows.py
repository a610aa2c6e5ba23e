"""Rows of tables that schedulers and systems print: which column names a user, a group, a job or a host.

No word of such a row says what it is, the columns do: ``squeue``, ``sacct``, ``sinfo``, ``bjobs``, ``qstat``,
``kubectl get``, ``ls -l``, ``ps``, ``top``, ``lsof`` and ``docker ps``, in the forms that they print by default; and
any table whose head names a user, a job or a host.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from nccl_insight.base import late, texts, toml
from nccl_insight.share.redact.patterns import PUBLIC_OWNERS, kinds_of, listed
from nccl_insight.share.redact.shapes import as_series

_PATTERNS: Final = texts.patterns(__file__)
# A row begins like this; for Rust's engine, which looks at all lines of a log.
_BEGINS: Final = _PATTERNS["begins"]
_KINDS: Final[Mapping[str, Sequence[str]]] = toml.beside(__file__)["kinds"]
_ROWS: Final = tuple((late.compiled(_PATTERNS[name]), kinds) for name, kinds in _KINDS.items())
_EVERYWHERE: Final = listed("accounts")

_TITLES: Final = kinds_of("titles")
_STRONG: Final = listed("strong_titles")
_HEAD_BEGINS: Final = r"^[ \t#|]{0,20}[A-Z%][\w@:%()/.-]*(?:[ \t|]+[A-Z%#][\w@:%()/.-]*){2,40}[ \t|\r\n]*$"
_CELL: Final = late.compiled(r"[^\s|]{1,300}")
_HOSTS_IN: Final = late.compiled(r"(?<![\w.(<-])[A-Za-z][\w.-]{1,252}(?![\w.>)])")
_PIPED: Final = late.compiled(r"[^|\n]{1,300}")
_WORDY: Final = late.compiled(r"(?=\S{0,63}[A-Za-z])[A-Za-z0-9_][\w.+-]{1,63}")
_MOST_ROWS: Final = 5000
_STATES: Final = listed("states")

_JOB_STATES: Final = listed("job_states")


def names(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Kind (``user``, ``job`` or ``host``) and name of what stands in rows of tables, in order."""
    series = as_series(lines)
    for line in series.filter(series.str.contains(_BEGINS).fill_null(value=False)):
        row = line.rstrip("\r\n")
        if row[:1].isdigit() and "|" in row:
            yield from _parsable(row)
            continue
        for pattern, kinds in _ROWS:
            match = pattern.match(row)
            if match:
                for kind, name in zip(kinds, match.groups(), strict=True):
                    if name and _says(name):
                        yield kind, name
                break
    heads = series.str.contains(_HEAD_BEGINS).fill_null(value=False).arg_true().to_list()
    for at, behind in zip(heads, (*heads[1:], len(lines)), strict=False):
        yield from _below(lines[at], lines[at + 1 : min(behind, at + _MOST_ROWS)])


def _says(name: str) -> bool:
    return name.lower() not in _EVERYWHERE | PUBLIC_OWNERS | _STATES and not name.isdigit()


def _parsable(row: str) -> Iterator[tuple[str, str]]:
    """Names of a row of ``sacct -P`` without its head: its state says what it is, any word may be a name."""
    cells = row.split("|")
    if len(cells) > 60 or not any(cell.split(" ")[0] in _JOB_STATES for cell in cells):
        return
    for cell in cells:
        if cell not in _JOB_STATES and _WORDY.fullmatch(cell) and cell.islower() and _says(cell):
            yield "job", cell


def _below(head: str, rows: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Names in the columns of a table whose head says what they are; it ends with an empty line."""
    cell = _PIPED if "|" in head else _CELL
    titles = [(m.start(), m.end(), m[0].strip(" \t#*:").lower()) for m in cell.finditer(head.rstrip("\r\n"))]
    if not any(title in _STRONG for _, _, title in titles):
        return
    for row in rows:
        if not row.strip() or " NCCL " in row:
            return
        row = row.rstrip("\r\n")
        named: Iterable[tuple[str, str]]
        if cell is _PIPED:
            named = zip((title for _, _, title in titles), row.split("|"), strict=False)
        else:
            named = ((_over(titles, m.start(), m.end()), m[0]) for m in _CELL.finditer(row))
        for title, value in named:
            kind = _TITLES.get(title, "")
            if kind == "host":
                yield from (("host", name) for name in _HOSTS_IN.findall(value) if _says(name))
            elif kind and _WORDY.fullmatch(value.strip()) and _says(value.strip()):
                yield kind, value.strip()


def _over(titles: Sequence[tuple[int, int, str]], start: int, end: int) -> str:
    """The title above a word: the one that it touches, else the last that begins before it."""
    before = next((title for begins, _, title in reversed(titles) if begins <= start), "")
    return next((title for begins, ends, title in titles if begins < end and start < ends), before)
