"""The head of an NCCL line: launcher prefix, timestamp, host, pid, tid, device, source.

Shapes (NCCL 2.3 - 2.33, RCCL, NCCLX)::

    host:pid:tid [dev] NCCL INFO text              INFO
    [timestamp] host:pid:tid [dev] file:line (func) NCCL WARN text
    host:pid:tid NCCL CALL text                    CALL has no device
    host:pid NCCL DIAG [OK] text                   DIAG (2.31+)
    [timestamp] host:pid:tid [dev] file:line (func) NCCL ATTN text      ATTN (2.32+), ERROR (NCCLX)
    host:pid:tid [dev] [FATAL ERROR]: text         ERROR (RCCL 2.27+)

A word of capitals behind ``NCCL`` and a full head is a level too, whatever its name: a later release may add one.

Anything may stand in front of the host: mpirun tags, srun labels, Ray actors, ISO timestamps, quotes.
"""

from typing import Final

import polars as pl

from nccl_insight.base import texts
from nccl_insight.tables.declared import frame

# Levels that are told by their name alone. ERROR is not one of them: exceptions say "NCCL ERROR" in their text.
LEVELS: Final = ("INFO", "WARN", "TRACE", "CALL", "ABORT", "VERSION", "DIAG", "ATTN")
# Any other level counts only behind a full head.
OPEN_LEVEL: Final = r"[A-Z]{3,10}"

_RE: Final = texts.patterns(__file__)
HOST: Final = _RE["host"]
FULL_END: Final = _RE["full_end"]
_RANK: Final = [pattern for name, pattern in _RE.items() if name.startswith("rank_")]
_KNOWN_MOST: Final = 10_000

COLUMNS: Final = frame("""launcher str, timestamp str, host str, pid i64, tid i64, dev i32, source str,
    launcher_rank i32""")


def _where(rows: pl.DataFrame, mask: pl.Expr, **values: str | pl.Expr | None) -> pl.DataFrame:
    """The rows with other values, those of columns or expressions, where something holds."""
    return rows.with_columns(**{name: pl.when(mask).then(value).otherwise(name) for name, value in values.items()})


def parse_heads(heads: pl.Series) -> pl.DataFrame:
    """Fields of every distinct head: column ``head`` and those of ``COLUMNS``; what is not there is null."""
    frame = pl.DataFrame({"head": heads}).with_columns(
        clean=pl.col("head").str.replace(_RE["glued_zone"], "$1 $2").str.strip_chars_end(" ")
    )
    full = frame.with_columns(pl.col("clean").str.extract_groups(_RE["full"]).alias("g")).unnest("g")
    rest = full.filter(pl.col("host").is_null())
    if rest.height:
        device = (
            rest.select("head", "clean")
            .with_columns(pl.col("clean").str.extract_groups(_RE["device"]).alias("g"))
            .unnest("g")
            .with_columns(pl.lit(None, pl.String).alias(c) for c in ("host", "pid", "tid", "dev_alone"))
            .with_columns(launcher=pl.when(pl.col("dev").is_null()).then("clean").otherwise("launcher"))
        )
        full = pl.concat([full.filter(pl.col("host").is_not_null()), device.select(full.columns)])
    # `host:pid` alone is the head of a DIAG line; without a letter it is the end of a timestamp: `16:39`, `-07:00`.
    clock = pl.col("tid").is_null() & pl.col("dev_alone").is_null() & pl.col("dev").is_null()
    clock &= ~pl.col("host").str.contains("[A-Za-z]").fill_null(True)
    # And `Mar 04 11:59:01` is none of its heads either.
    clock |= pl.col("dev").is_null() & pl.col("dev_alone").is_null() & pl.col("clean").str.contains(_RE["time_of_day"])
    full = _where(full, clock, launcher="clean", host=None, pid=None, tid=None)
    # A host without a name: `:5202:5683 [0]`, or nothing in front of the pid.
    nameless = pl.col("host").str.contains("^[0-9]+$").fill_null(False) & pl.col("dev_alone").is_not_null()
    full = _where(full, nameless, tid="pid", pid="host", host=None)
    # A head that lost its host and pid begins with the source file: `[0] misc/socket.cc:71`.
    # The same of plugins, which print the function: `process_completions:1648`; no host name has such a form.
    bare = pl.col("host").str.contains(_RE["file"]).fill_null(False) & pl.col("tid").is_null()
    bare |= pl.col("host").str.contains(_RE["function"]).fill_null(False) & pl.col("tid").is_null()
    alone, before = pl.col("launcher").str.extract(_RE["dev_end"]), pl.col("launcher").str.replace(_RE["dev_end"], "")
    place = pl.format("{}:{}", "host", "pid")
    full = _where(full, bare, source=place, dev_alone=alone, launcher=before, host=None, pid=None)
    # `[80748] [rank0]:[E321 02:07:08 ...]`: a viewer numbers the lines, and what follows is a launcher's tag.
    tagged = pl.col("host").is_null() & pl.col("source").str.contains(_RE["tagged"]).fill_null(False)
    full = _where(full, tagged, launcher="source", source=None, dev_alone=None)
    full = _labeled(full)
    stamped = full.with_columns(timestamp=pl.col("launcher").str.extract(_RE["timestamp"]))
    return stamped.select(
        "head",
        launcher=pl.when(pl.col("timestamp").is_null())
        .then("launcher")
        .otherwise(pl.col("launcher").str.replace(_RE["timestamp"], ""))
        .str.strip_chars()
        .replace({"": None}),
        timestamp=pl.col("timestamp").str.strip_chars("[] "),
        host=pl.col("host").replace({"": None}),
        pid=pl.col("pid").cast(pl.Int64, strict=False),
        tid=pl.col("tid").cast(pl.Int64, strict=False),
        dev=pl.coalesce("dev", "dev_alone").cast(pl.Int64, strict=False).cast(pl.Int32, strict=False),
        source=pl.col("source"),
        launcher_rank=pl.coalesce([pl.col("launcher").str.extract(p) for p in _RANK]).cast(pl.Int32, strict=False),
    )


def _labeled(heads: pl.DataFrame) -> pl.DataFrame:
    """Heads that lost their host, with the one that a launcher's label names."""
    groups = pl.col("launcher").str.extract_groups(_RE["label"])
    label = pl.coalesce(groups.struct.field("label"), groups.struct.field("alone"))
    lost = pl.col("host").is_null() & (pl.col("dev").is_not_null() | pl.col("dev_alone").is_not_null())
    heads = heads.with_columns(_label=pl.when(lost).then(label))
    # An exception that quotes a rank in brackets: `torch.distributed.DistBackendError: [3] is setting up`.
    raised = pl.col("_label").str.contains(_RE["raised"]).fill_null(False)
    named = pl.col("_label").str.contains(_RE["names_host"]) & ~pl.col("_label").str.contains(_RE["names_no_host"])
    named = named.fill_null(False) & ~raised
    return heads.with_columns(
        launcher=pl.when(raised)
        .then("clean")
        .when(named)
        .then(pl.col("launcher").str.replace(_RE["label_end"], ""))
        .otherwise("launcher"),
        host=pl.when(named).then("_label").when(pl.col("host").str.contains(r"\w")).then("host"),
        dev=pl.when(raised).then(None).otherwise("dev"),
    ).drop("_label")


class Heads:
    """Remembers what heads said: each chunk of a log has those of all ranks again."""

    def __init__(self) -> None:
        self._known = pl.DataFrame(schema={"head": pl.String, **COLUMNS})

    def parsed(self, heads: pl.Series) -> pl.DataFrame:
        """As :func:`parse_heads`, a row for each of these heads, which may repeat."""
        both = self._known
        new = heads.filter(~heads.is_in(both["head"].implode()))
        if new.len() > _KNOWN_MOST:
            return self._parsed_by_form(heads)
        if new.len():
            # A text of its own: the heads of a chunk keep all of its bytes in memory.
            both = both.vstack(parse_heads(pl.Series(new.unique().to_list(), dtype=pl.String)))
            self._known = both if both.height <= _KNOWN_MOST else self._known
        return _looked_up(heads, both)

    def _parsed_by_form(self, heads: pl.Series) -> pl.DataFrame:
        """The same of many: those that are nothing but a launcher's text differ in their times alone."""
        same = heads.str.replace(_RE["clock"], "00:00:00.0")
        forms = same.unique()
        if forms.len() <= heads.len() // 2:
            told = self.parsed(forms)
            if told["timestamp"].null_count() == told["launcher"].eq(forms.str.strip_chars()).sum() == forms.len():
                return _looked_up(same, told).with_columns(head=heads, launcher=heads.str.strip_chars())
        return _looked_up(heads, parse_heads(heads.unique()))


def _looked_up(heads: pl.Series, parsed: pl.DataFrame) -> pl.DataFrame:
    return heads.to_frame("head").join(parsed, on="head", how="left", maintain_order="left")


def undated(heads: pl.Series) -> pl.Series:
    """The heads with one time of day for all in place of the first that each names.

    From them all is parsed that is parsed from the heads themselves, but for the timestamp and the launcher's text.
    """
    same: pl.Series = heads.str.replace(_RE["moment"], "00:00:00${1}0${2}")
    told: pl.Series = same.zip_with(heads.str.contains(_RE["usual_end"]), heads)
    return told
