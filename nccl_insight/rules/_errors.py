"""Failure lines of one cause: how many, of whom, when, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Ref
from nccl_insight.base.units import rank_words
from nccl_insight.facts.said.ends import ends
from nccl_insight.facts.said.errors import causes, present
from nccl_insight.facts.said.topics import telling
from nccl_insight.facts.setup.settings import hosts_of, named, ranks_of
from nccl_insight.tables.run import Run, fact

TITLE_MOST: Final = 110
_EVIDENCE = 4
_EXCERPT = 200


@dataclass(frozen=True)
class Trouble:
    """Failure lines of one kind, in reading order."""

    rows: pl.DataFrame

    @property
    def count(self) -> int:
        """Number of lines; floods that ingest folded count in full."""
        return int(self.rows["repeats"].fill_null(1).sum())

    @property
    def loud(self) -> bool:
        """Whether at least one is a WARN, ABORT or of unknown level."""
        return bool(self.rows["loud"].any())

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Ranks that printed them."""
        return ranks_of(self.rows)

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that printed them."""
        return hosts_of(self.rows)

    @property
    def first_s(self) -> float | None:
        """Clock of the first line that has one, seconds since 1970."""
        return _clock(self.rows["time_s"].min())

    @property
    def last_s(self) -> float | None:
        """Clock of the last line that has one."""
        return _clock(self.rows["time_s"].max())

    @property
    def first(self) -> dict[str, Any]:
        """The values of the first loud line, else of the first."""
        row = self.rows.row(self.rows["loud"].arg_max() or 0, named=True)
        return {name: value for name, value in row.items() if value is not None}

    @cached_property
    def text(self) -> str:
        """The first loud line's text on one line, else the first."""
        texts = self.rows[["text", "loud"]].sort(pl.col("loud").not_(), maintain_order=True)["text"].drop_nulls()
        head, behind, said = str(texts[0] if len(texts) else "").partition("] ")
        words = said if behind and head[-1:].isdigit() and " " not in head else f"{head}{behind}{said}"  # glog's place
        return " ".join(words.split())[:_EXCERPT]

    @cached_property
    def evidence(self) -> tuple[Ref, ...]:
        """The first lines, one per process before a second of any, loud ones first, then reading order."""
        ordered = (
            self.rows.select("input_id", "line", "host", "pid", "loud")
            .drop_nulls(["input_id", "line"])
            .with_columns(nth=pl.int_range(pl.len()).over("input_id", "host", "pid"), quiet=pl.col("loud").not_())
            .sort("quiet", "nth", "input_id", "line", maintain_order=True)
            .head(_EVIDENCE)[["quiet", "input_id", "line"]]
        )
        return tuple(Ref(int(i), int(n)) for _, i, n in sorted(ordered.iter_rows()))

    @property
    def where(self) -> str:
        """``ranks 0-3 on gpu01``, ``gpu01``, or empty when the lines name neither."""
        hosts = named(self.hosts)
        if self.ranks:
            who = rank_words(self.ranks)
            return f"{who} on {hosts}" if hosts else who
        return hosts

    def titled(self, headline: str) -> str:
        """The headline with who printed the lines, ``... (ranks 0-2 on gpu01)``, where one line holds both."""
        return with_who(headline, self.ranks, self.hosts)

    def telling(self, topic: str, *wanted: str) -> Trouble | None:
        """The lines that say something on a topic of the grammar (one of ``wanted``), if any."""
        return _of(telling(self.rows, topic, *wanted))

    def value(self, *columns: str) -> str | None:
        """The first value that a line captured in the first of these columns that has one."""
        values = (self.rows[column].drop_nulls() for column in columns)
        return next((str(found[0]) for found in values if len(found)), None)


def _clock(time_s: object) -> float | None:
    return time_s if isinstance(time_s, float) else None


def with_who(headline: str, ranks: tuple[int, ...], hosts: tuple[str, ...]) -> str:
    """The headline with the ranks and hosts that it does not name, where one line holds both."""
    told = headline.lower()
    parts = [p for p in (rank_words(ranks) if ranks else "", named(hosts)) if p and p.lower() not in told]
    who = f" ({' on '.join(parts)})" if parts else ""
    return headline + (who if len(headline) + len(who) <= TITLE_MOST else "")


def cut(text: str, most: int) -> str:
    """A text of at most so many characters, cut between words."""
    return text if len(text) <= most else f"{text[:most].rsplit(' ', 1)[0]} ..."


def _of(rows: pl.DataFrame) -> Trouble | None:
    return Trouble(rows) if rows.height else None


def trouble(run: Run, *names: str, but: Sequence[str] = ()) -> Trouble | None:
    """The lines of these causes, or None; without those of the messages in ``but``."""
    if present(run).isdisjoint(names):
        return None
    rows = causes(run).filter(pl.col("cause").is_in(list(names)))
    return _of(rows.filter(~pl.col("message").fill_null("").is_in(list(but))) if but else rows)


_IN_CUDA: Final = ("cuda-unhandled", "cuda-hardware-error")


@fact
def failed_in_cuda(run: Run) -> dict[int, tuple[str, ...]]:
    """Ranks in which CUDA failed, as NCCL or an exception says, and their hosts as far as they are known."""
    rows = causes(run).filter(pl.col("cause").is_in(list(_IN_CUDA)) & pl.col("rank").is_not_null())
    found = {int(r): () if h is None else (str(h),) for r, h in rows.select("rank", "host").iter_rows()}
    return found | {r: e.hosts for e in ends(run) if e.message == "cuda" for r in e.ranks}


def the_failed(run: Run, hosts: Sequence[str]) -> tuple[int, ...]:
    """The rank of a GPU's failure whose lines name at most its host: the only one in which CUDA failed."""
    failed = failed_in_cuda(run)
    fits = all(not hosts or not at or {*at} & {*hosts} for at in failed.values())
    return tuple(failed) if len(failed) == 1 and fits else ()


def of_the_failed(run: Run, found: Trouble) -> Trouble:
    """Lines of a GPU's failure that name no rank, as lines of the only rank in which CUDA failed."""
    ranks = () if found.ranks else the_failed(run, found.hosts)
    if not ranks:
        return found
    host = next(iter(failed_in_cuda(run)[ranks[0]]), None)
    return Trouble(found.rows.with_columns(pl.lit(ranks[0], pl.Int32).alias("rank"), pl.coalesce("host", pl.lit(host))))
