"""Learns names from the tables of a run and from raw text."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain

import polars as pl

from nccl_insight.base.words import first_group
from nccl_insight.share.redact import keyed, patterns, rows, said, shapes
from nccl_insight.share.redact.addresses import V4, parse_v4, parse_v6
from nccl_insight.share.redact.loose import loosened
from nccl_insight.share.redact.names import certain
from nccl_insight.share.redact.redactor import Redactor
from nccl_insight.tables.run import Run

HOST_COLUMNS = ("host", "hosts", "src_host", "dst_host", "peer_host", "hostname")
_WANTED = loosened(
    (patterns.RE["place"], patterns.RE["places"], patterns.RE["user"], patterns.RE["job"], patterns.RE["job_number"])
)
_LONGEST_ROW = 1000
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DASHED = re.compile(r"[0-9]+(?:-[0-9]+){3,}")
_LETTER = re.compile(r"[A-Za-z]")
_GLUED = re.compile(r"(?:0x[0-9a-f]+|[0-9]+)(?=[A-Za-z])")


def collect(run: Run, texts: Iterable[str] = (), *more: Run, strict: bool = False) -> Redactor:
    """A redactor that knows the hosts of the tables, and hosts, users, jobs and addresses of the texts.

    Names are numbered in the order of the tables, then of the texts, so that the same input always gives
    the same pseudonyms. Hosts of ``more`` runs get names too: one redactor serves a comparison.
    """
    redactor = Redactor(strict=strict)
    names = redactor.names
    seen = dict.fromkeys(h for r in (run, *more) for h in _table_hosts(r))
    found = _Found(seen)
    for text in texts:
        lines = shapes.pieces(text)
        # The numbers of a line name nobody; a line that is masked stands for all of its shape.
        alike = "".join(dict.fromkeys(shapes.representatives(lines)))
        found.by_patterns(alike, ["".join(lines[a:b]) for a, b in shapes.sections(lines, _WANTED)])
        found.by_rows([line for line in lines if len(line) < _LONGEST_ROW])
        names.book.originals.update(V4.findall(alike))
    for name in list(found.hosts):
        # Two lines written into one another glue digits before a name: 00ip-10-0-0-1, 0x55a1e27node4.
        glued = _GLUED.match(name)
        if glued and name[glued.end() :] in found.hosts:
            del found.hosts[name]
    names.reserved = {*found.hosts, *found.users, *found.jobs}
    for name in found.hosts:
        names.host(name)
    for name, numbers in found.series.items():
        names.series(name, numbers)
    for name in found.users:
        names.user(name)
    for name in found.jobs:
        names.job(name)
    return redactor


class _Found:
    """Names in the order in which they are met, and what numbers follow the names of series."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self.hosts: dict[str, None] = dict.fromkeys(hosts)
        self.users: dict[str, None] = {}
        self.jobs: dict[str, None] = {}
        self.series: dict[str, str] = {}

    def by_patterns(self, alike: str, sections: list[str]) -> None:
        """Heads of lines in ``alike``, and names behind the words that announce them in ``sections``."""
        for match in chain(patterns.RE["head"].finditer(alike), _matches(patterns.RE["place"], sections)):
            name = first_group(match)
            behind = (
                "series" in match.re.groupindex
                and match["series"]
                and patterns.RE["series"].match(match.string, match.end())
            )
            if behind:
                self.series[match["series"]] = behind[1]
            if _host_like(name) and not (behind and not certain(name)):
                self.hosts.setdefault(name)
        for match in _matches(patterns.RE["places"], sections):
            for named in patterns.RE["place_of_list"].finditer(match[match.lastindex or 0]):
                if _host_like(named[0]) and certain(named[0]):
                    self.hosts.setdefault(named[0])
        for match in _matches(patterns.RE["user"], sections):
            user = first_group(match).rstrip(".-")
            if not said.numbered_part(user):
                self.users.setdefault(user)
        for match in chain(_matches(patterns.RE["job"], sections), _matches(patterns.RE["job_number"], sections)):
            self.jobs.setdefault(match[match.lastindex or 0])

    def by_rows(self, lines: list[str]) -> None:
        """Names in rows of tables, in sentences and behind keys."""
        kinds = {"user": self.users, "job": self.jobs}
        for kind, name in rows.names(lines):
            if kind != "host" or _host_like(name):
                kinds.get(kind, self.hosts).setdefault(name)
        others = said.others(lines)
        for kind, name, numbers in chain(said.names(others), keyed.names(others)):
            if not certain(name) or (kind in ("host", "series") and not _host_like(name)):
                continue
            if kind == "series":
                self.series[name] = numbers
            kinds.get(kind, self.hosts).setdefault(name)


def _matches(pattern: re.Pattern[str], texts: Iterable[str]) -> Iterator[re.Match[str]]:
    return chain.from_iterable(map(pattern.finditer, texts))


def _host_like(name: str) -> bool:
    if _DASHED.fullmatch(name):
        return True
    if not 2 <= len(name) <= 255 or not _LETTER.search(name) or name.startswith(("/", "0x", "127.")):
        return False
    return not (parse_v4(name) or parse_v6(name) or _DATE.match(name))


def _table_hosts(run: Run) -> Iterable[str]:
    for frame in run.tables.values():
        for column in HOST_COLUMNS:
            if column not in frame.columns or frame.height == 0:
                continue
            series = frame.get_column(column)
            if isinstance(series.dtype, pl.List):
                series = series.explode()
            if series.dtype == pl.String:
                yield from (h for h in series.drop_nulls().unique(maintain_order=True) if _host_like(h))
