"""Rows of tables that schedulers and systems print: which column names a user, a group, a job or a host.

No word of such a row says what it is, the columns do: ``squeue``, ``sacct``, ``sinfo``, ``bjobs``, ``qstat``,
``kubectl get``, ``ls -l``, ``ps``, ``top``, ``lsof`` and ``docker ps``, in the forms that they print by default; and
any table whose head names a user, a job or a host.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from nccl_insight.share.redact.patterns import PUBLIC_OWNERS
from nccl_insight.share.redact.shapes import as_series
from nccl_insight.share.redact.vocabulary import kinds_of, listed

# A row begins like this; for Rust's engine, which looks at all lines of a log.
_BEGINS: Final = (
    r"^(?:[ \t]{0,20}[0-9]{2,12}[_.\[ \t]|[-dlbcps][r-][w-][xsS-]"
    r"|[a-z_][a-z0-9_.-]{0,31}\$?[ \t]+[0-9]+[ \t]+(?:[0-9]+\.[0-9]|[a-z_])"
    r"|[\w./-]{1,32}[ \t]+[0-9]+[ \t]+[a-z_][\w.-]*[ \t]|[0-9a-f]{12}[ \t]"
    r"|[a-z0-9][a-z0-9.-]*[ \t]+(?:[0-9]+/[0-9]+[ \t]+[A-Z]|(?:Not)?Ready|[0-9]+[ \t]+\S+[ \t]+[a-z])|[0-9]+[^"
    r"|\s]*\|[^|\n]*\|"
    r"|[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}[ \t]+[A-Za-z][\w.-]*(?:[ \t]+[A-Za-z][\w.-]*){0,7}[ \t\r\n]*$)"
)
_NAME: Final = r"[A-Za-z_][\w.-]{0,63}"
_HOST: Final = r"[A-Za-z0-9][\w.-]{0,252}"
# Each with the kinds of its groups.
_ROWS: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = (
    (  # squeue: job, partition, name, user, state, time, nodes, list
        re.compile(
            rf"[ \t]{{0,20}}[0-9]{{2,12}}(?:_[0-9]{{1,9}}"
            rf"|_\[[0-9,%-]{{1,40}}\])?"
            rf"[ \t]+\S{{1,64}}[ \t]+(\S{{1,64}})[ \t]+({_NAME})[ \t]+"
            r"(?:PD|R|CG|CD|CF|CA|F|TO|NF|OOM|PR|S|ST|RD|RQ|RS|SE|SO)[ \t]+[0-9:-]{1,20}[ \t]+[0-9]{1,6}[ \t]"
        ),
        ("job", "user"),
    ),
    (  # sacct: job, name, partition, account, processors, state, exit code
        re.compile(
            rf"[0-9]{{2,12}}(?:[._]\S{{1,20}})?"
            rf"[ \t]+(\S{{1,64}})[ \t]+\S{{1,64}}[ \t]+({_NAME})[ \t]+[0-9]{{1,7}}[ \t]+[A-Z_]{{4,20}}\+?"
            r"[ \t]+[0-9]{1,3}:[0-9]{1,3}[ \t]*$"
        ),
        ("job", "job"),
    ),
    (  # qstat: number.server, name, user, time, state, queue
        re.compile(
            rf"[ \t]{{0,20}}[0-9]{{2,12}}(?:\[[0-9]{{0,9}}\])?\.([A-Za-z][\w.-]{{0,253}})"
            rf"[ \t]+(\S{{1,64}})[ \t]+({_NAME})[ \t]+[0-9:]{{1,20}}[ \t]+"
            r"[A-Z][ \t]+\S"
        ),
        ("host", "job", "user"),
    ),
    (  # ls -l: mode, links, user, group, size
        re.compile(rf"[-dlbcps][rwxsStT-]{{9}}[.+@]?[ \t]+[0-9]{{1,9}}[ \t]+({_NAME})[ \t]+({_NAME})[ \t]+[0-9]"),
        ("user", "job"),
    ),
    (  # ps aux: user, pid, shares of processor and memory
        re.compile(rf"({_NAME})\+?[ \t]+[0-9]{{1,10}}[ \t]+[0-9]{{1,6}}\.[0-9][ \t]+[0-9]{{1,3}}\.[0-9][ \t]"),
        ("user",),
    ),
    (  # top: pid, user, priority, niceness, three sizes, state
        re.compile(
            rf"[ \t]{{0,20}}[0-9]{{1,10}}[ \t]+({_NAME})\+?[ \t]+(?:rt"
            rf"|-?[0-9]{{1,3}})[ \t]+-?[0-9]{{1,3}}[ \t]+(?:[0-9.]{{1,12}}[kmgtp]?[ \t]+){{2,3}}"
            r"[DRSTZI][ \t]"
        ),
        ("user",),
    ),
    (  # lsof: command, pid, user, descriptor, type
        re.compile(
            rf"\S{{1,32}}[ \t]+[0-9]{{1,10}}[ \t]+({_NAME})[ \t]+(?:cwd|rtd|txt|mem|DEL"
            rf"|[0-9]{{1,6}}[rwu]?)[ \t]+(?:REG|DIR|CHR|FIFO|unix|IPv[46]|sock|a_inode)"
        ),
        ("user",),
    ),
    (  # bjobs: job, user, state, queue, host it came from, hosts it runs on, name, month
        re.compile(
            rf"[ \t]{{0,20}}[0-9]{{2,12}}[ \t]+({_NAME})[ \t]+(?:RUN|PEND|EXIT|DONE|PSUSP|USUSP|SSUSP|ZOMBI|UNKWN|WAIT)"
            rf"[ \t]+\S{{1,64}}[ \t]+({_HOST})[ \t]+(?:[0-9]{{1,6}}\*)?({_HOST})[ \t]+(\S{{1,64}})[ \t]+"
            rf"[A-Z][a-z]{{2}}[ \t]"
        ),
        ("user", "host", "host", "job"),
    ),
    (  # qstat of Grid Engine: job, priority, name, user, state, day
        re.compile(
            rf"[ \t]{{0,20}}[0-9]{{2,12}}[ \t]+[0-9]\.[0-9]{{1,9}}[ \t]+(\S{{1,64}})[ \t]+({_NAME})[ \t]+"
            rf"[A-Za-z]{{1,4}}"
            r"[ \t]+[0-9]{2}/[0-9]{2}/[0-9]{4}"
        ),
        ("job", "user"),
    ),
    (  # kubectl get pods: name, ready, status, restarts, age; wide: address, node
        re.compile(
            rf"({_HOST})[ \t]+[0-9]{{1,4}}/[0-9]{{1,4}}[ \t]+[A-Z][\w:/-]{{2,40}}[ \t]+[0-9]{{1,6}}(?:[ \t]+"
            rf"\([^)\n]{{1,40}}\))?"
            rf"[ \t]+[0-9dhms]{{1,12}}(?:[ \t]+[0-9a-f.:]{{3,40}}[ \t]+({_HOST}))?"
        ),
        ("host", "host"),
    ),
    (  # kubectl get nodes: name, status, roles, age, version
        re.compile(
            rf"({_HOST})[ \t]+(?:Not)?Ready(?:,\S{{1,40}})?[ \t]+\S{{1,100}}[ \t]+[0-9dhms]{{1,12}}[ \t]+"
            rf"v[0-9]"
        ),
        ("host",),
    ),
    (  # sinfo -N: host, nodes, partition, state
        re.compile(
            rf"({_HOST})[ \t]+[0-9]{{1,6}}[ \t]+\S{{1,64}}[ \t]+(?:idle|alloc|mix|mixed|down|drain|drng|drained"
            rf"|draining|comp"
            r"|completing|maint|resv|reserved|fail|unk|allocated)[*~#!%$@^-]{0,2}(?=\s|$)"
        ),
        ("host",),
    ),
    (  # /etc/hosts: address, names
        re.compile(
            rf"[0-9]{{1,3}}(?:\.[0-9]{{1,3}}){{3}}[ \t]+(?=\S{{0,255}}[0-9.-])({_HOST})(?:[ \t]+"
            rf"(?=\S{{0,255}}[0-9.-])({_HOST}))?"
            rf"(?:[ \t]+(?=\S{{0,255}}[0-9.-])({_HOST}))?[ \t]*$"
        ),
        ("host", "host", "host"),
    ),
    (  # docker ps: container, image, "command", ... name
        re.compile(
            r"[0-9a-f]{12}[ \t]+(?:([a-z0-9][\w.-]{0,63})/)?\S{1,255}[ \t]+\"[^\"\n]{0,80}\"[ \t]+"
            r"[^\n]{1,200}[ \t](\S{1,128})[ \t]*$"
        ),
        ("job", "job"),
    ),
)
_EVERYWHERE: Final = listed("accounts")


_TITLES: Final = kinds_of("titles")
_STRONG: Final = listed("strong_titles")
_HEAD_BEGINS: Final = r"^[ \t#|]{0,20}[A-Z%][\w@:%()/.-]*(?:[ \t|]+[A-Z%#][\w@:%()/.-]*){2,40}[ \t|\r\n]*$"
_CELL: Final = re.compile(r"[^\s|]{1,300}")
_HOSTS_IN: Final = re.compile(r"(?<![\w.(<-])[A-Za-z][\w.-]{1,252}(?![\w.>)])")
_PIPED: Final = re.compile(r"[^|\n]{1,300}")
_WORDY: Final = re.compile(r"(?=\S{0,63}[A-Za-z])[A-Za-z0-9_][\w.+-]{1,63}")
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
    above = [title for begins, ends, title in titles if begins < end and start < ends]
    if above:
        return above[0]
    return next((title for begins, _, title in reversed(titles) if begins <= start), "")
