"""Release of NCCL from the wording of its messages, where a host prints no version."""

from collections.abc import Iterator
from typing import Final

import polars as pl

from nccl_insight.base import late
from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Ref
from nccl_insight.language.load import default_grammar
from nccl_insight.tables.run import Run

_SPAN: Final = late.compiled(r"([0-9]+)\.([0-9]+)(?:\.[0-9]+)?(?:-([0-9]+)\.([0-9]+)(?:\.[0-9]+)?)?")
_VERSION: Final = late.compiled(r"([0-9]+)\.([0-9]+)")
_TABLES: Final = ("plugins", "interfaces", "comms", "channel_counts", "init_timings", "net_devices", "nvls", "threads")
Release = tuple[int, int]


@dataclass(frozen=True)
class Clash:
    """Two hosts whose messages belong to different releases."""

    host: str
    observed: str
    other_host: str
    expected: str
    evidence: tuple[Ref, ...]


@dataclass(frozen=True)
class _Span:
    """Releases that a host can run, and the lines that say so."""

    low: Release
    high: Release
    evidence: tuple[Ref, ...]

    def text(self) -> str:
        low, high = ".".join(map(str, self.low)), ".".join(map(str, self.high))
        return low if low == high else f"{low} to {high}"


def wording_clashes(run: Run) -> tuple[Clash, ...]:
    """Pairs of hosts whose releases exclude each other, each odd host once.

    Releases come from version lines and from the releases that the grammar gives for each message. A host whose
    own messages contradict each other proves nothing and is left out.
    """
    processes = run.table("processes")
    if processes["host"].n_unique() < 2 or (processes["library"].cast(pl.String) == "rccl").any():
        return ()
    spans = dict(_hosts(run))
    if len(spans) < 2:
        return ()
    stated = {h for h in run.table("processes").filter(pl.col("nccl_version").is_not_null())["host"] if h}
    usual = max(spans, key=lambda h: (h in stated, -_width(spans[h])))
    base = spans[usual]
    found: list[Clash] = []
    for host, span in spans.items():
        if span.low > base.high or span.high < base.low:
            found.append(Clash(host, span.text(), usual, base.text(), (*span.evidence[:1], *base.evidence[:1])))
    return tuple(found)


def source_clashes(run: Run) -> tuple[Clash, ...]:
    """Hosts that print a failure from another source file of NCCL than the first host that prints it.

    Only failures that one place of NCCL prints (``source`` in the grammar) tell: it moved between their releases.
    """
    rules = default_grammar().messages
    printed = (
        run.table("errors")
        .drop_nulls(["host", "source", "message", "input_id", "line"])
        .with_columns(place=pl.col("source").str.extract(r"([^/]+):[0-9]+$"))
        .unique(["message", "host", "place"], keep="first", maintain_order=True)
        .filter(pl.len().over("message", "host") == 1, pl.col("place").n_unique().over("message") > 1)
    )
    found: dict[str, Clash] = {}
    for (message,), rows in printed.group_by("message", maintain_order=True):
        places = rules[str(message)].directives.get("source", ",")
        first, *others = rows.select("host", "source", "place", "input_id", "line").rows()
        for host, source, place, file, line in others if "," not in places else ():
            if place != first[2]:
                seen = (Ref(int(file), int(line)), Ref(int(first[3]), int(first[4])))
                found.setdefault(host, Clash(host, source, first[0], first[1], seen))
    return tuple(found.values())


def _width(span: _Span) -> int:
    return (span.high[0] - span.low[0]) * 100 + span.high[1] - span.low[1]


def _hosts(run: Run) -> Iterator[tuple[str, _Span]]:
    table = _messages(run)
    versions = (
        run.table("processes")
        .filter(pl.col("nccl_version").is_not_null() & pl.col("host").is_not_null())
        .unique("host", keep="first", maintain_order=True)
    )
    stated = {
        host: (int(match[1]), int(match[2]))
        for host, version in versions.select("host", "nccl_version").iter_rows()
        if (match := _VERSION.match(version))
    }
    # The message that narrows the releases most comes first as evidence.
    narrow = (
        table.drop_nulls(["input_id", "line"])
        .sort("high", "low", descending=[False, True], maintain_order=True)
        .unique("host", keep="first", maintain_order=True)
        .select("host", "input_id", "line")
    )
    evidence = {host: Ref(int(i), int(n)) for host, i, n in narrow.iter_rows()}
    released = table.group_by("host", maintain_order=True).agg(pl.col("low").max(), pl.col("high").min())
    for host, low, high in released.iter_rows():
        low_, high_ = (low // 1000, low % 1000), (high // 1000, high % 1000)
        if host in stated:
            low_ = high_ = stated[host]
        if low_ <= high_:
            yield host, _Span(low_, high_, (evidence[host],) if host in evidence else ())


def _messages(run: Run) -> pl.DataFrame:
    """Messages of each host with the releases that print them: ``host, message, low, high, input_id, line``."""
    rules = default_grammar().messages
    frames = (run.table(name).drop_nulls(["host", "message"]) for name in _TABLES if run.has(name))
    parts = [
        frame.group_by("host", "message", maintain_order=True).agg(pl.col("input_id", "line").first())
        for frame in frames
    ]
    schema = {"host": pl.String, "message": pl.String, "input_id": pl.UInt16, "line": pl.UInt64}
    table = pl.concat(parts, how="vertical_relaxed") if parts else pl.DataFrame(schema=schema)
    wanted = set(table.get_column("message").to_list())
    spans: list[tuple[str, int, int]] = []
    newest = 0
    for message, rule in rules.items():
        found = [m for part in rule.directives.get("versions", "").split(",") if (m := _SPAN.fullmatch(part.strip()))]
        if not found:
            continue
        low = min(int(m[1]) * 1000 + int(m[2]) for m in found)
        high = max(int(m[3] or m[1]) * 1000 + int(m[4] or m[2]) for m in found)
        newest = max(newest, high)
        if message in wanted:
            spans.append((message, low, high))
    # The newest release that the grammar knows stands for all later ones.
    spans = [(m, low, high if high < newest else 999_999) for m, low, high in spans]
    known = pl.DataFrame(spans, schema={"message": pl.String, "low": pl.Int64, "high": pl.Int64}, orient="row")
    return table.join(known, on="message", how="inner", maintain_order="left")
