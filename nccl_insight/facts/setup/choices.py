"""What NCCL's tuner chose, of which a log may have millions of rows: counted piece by piece, in one pass."""

from collections.abc import Mapping
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.facts.who.members import main_comm
from nccl_insight.tables.run import Run, fact

LATENCY_PROTOCOL: Final = "LL on a large message"
ONE_CHANNEL: Final = "one channel for a large message"
SIMPLE_PROTOCOL: Final = "Simple on a small message"

_LARGE, _SMALL = 16 << 20, 4 << 10
# What a rank sends in a step: of many ranks the pieces are small, and LL is right for them.
_PER_RANK: Final = 256 << 10
_KIND: Final = ("algorithm", "protocol")
_LOOKED_AT: Final = (*_KIND, "op", "size_bytes", "channels_lo", "channels_hi", "input_id", "line")
_LINE: Final = ["input_id", "line"]
_LINES: Final = 2


@dataclass(frozen=True)
class Chosen:
    """Choices of one kind: how many, and rows of the first lines that show them.

    ``rows``: ``algorithm, protocol, op, size_bytes, channels_lo, channels_hi, input_id, line, comm_id``.
    """

    count: int
    rows: pl.DataFrame


@dataclass(frozen=True)
class Choices:
    """What one look at all choices gives.

    ``counts``: ``algorithm, protocol, len``. ``unusual``: the choices that are unusual for their size, by
    :data:`LATENCY_PROTOCOL`, :data:`ONE_CHANNEL` and :data:`SIMPLE_PROTOCOL`; kinds that nothing meets are left out.
    """

    counts: pl.DataFrame
    unusual: Mapping[str, Chosen]


@fact
def choices(run: Run) -> Choices:
    """The counts of all choices, kept for the run."""
    kinds = _unusual(run)
    parts: list[pl.DataFrame] = []
    rows: dict[str, pl.DataFrame] = {}
    for frame in run.pieces("tuning_choice", *_LOOKED_AT):
        meets = frame.select(*_KIND, **kinds)
        counted = meets.group_by(_KIND).agg(pl.len(), *(pl.col(name).sum() for name in kinds))
        parts.append(counted)
        for name in kinds:
            known = [rows[name]] if name in rows else []
            if counted[name].sum() and (not known or known[0].height < _LINES):
                both = pl.concat([*known, frame[meets[name].arg_true().head(100 * _LINES)]])
                rows[name] = both.unique(_LINE, keep="first", maintain_order=True).head(_LINES)
    owners = _owners(run, rows)
    counts = pl.concat(parts).group_by(_KIND).agg(pl.exclude(_KIND).sum())
    return Choices(
        counts.drop_nulls("algorithm").select(*_KIND, "len"),
        {
            name: Chosen(int(counts[name].sum()), rows[name].join(owners, on=_LINE, how="left", maintain_order="left"))
            for name in kinds
            if name in rows
        },
    )


def _owners(run: Run, rows: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The communicators of some lines: ``input_id, line, comm_id``. Nobody asks for those of all choices."""
    found: list[pl.DataFrame] = []
    if rows:
        left = pl.concat([frame.select(_LINE) for frame in rows.values()]).unique()
        for frame in run.pieces("tuning_choice", *_LINE, "comm_id"):
            found.append(frame.join(left, on=_LINE, how="semi").unique(_LINE, keep="first"))
            left = left.join(found[-1], on=_LINE, how="anti")
            if left.is_empty():
                break
    return pl.concat(found) if found else pl.DataFrame()


def _unusual(run: Run) -> dict[str, pl.Expr]:
    """The kinds of unusual choices, as conditions on the columns of ``tuning_choice``; null where size is unknown."""
    size, classic = pl.col("size_bytes"), _called("algorithm", "Ring", "Tree")
    ranks = main_comm(run)
    large = max(_LARGE, _PER_RANK * (ranks.nranks if ranks is not None else 1))
    collective = ~pl.col("op").is_in(["Send", "Recv", "SendRecv"])
    one_channel = pl.col("channels_lo") == pl.col("channels_hi")
    return {
        LATENCY_PROTOCOL: classic & (size >= large) & _called("protocol", "LL"),
        ONE_CHANNEL: classic & collective & (size >= _LARGE) & one_channel,
        SIMPLE_PROTOCOL: classic & (size <= _SMALL) & (size > 0) & _called("protocol", "Simple"),
    }


def _called(column: str, *names: str) -> pl.Expr:
    """Whether a column has one of the names, which releases spell with other capitals."""
    spelled = dict.fromkeys(way for name in names for way in (name, name.upper(), name.lower()))
    return pl.any_horizontal(pl.col(column) == way for way in spelled)
