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

from nccl_insight.tables.declared import frame

# Levels that are told by their name alone. ERROR is not one of them: exceptions say "NCCL ERROR" in their text.
LEVELS: Final = ("INFO", "WARN", "TRACE", "CALL", "ABORT", "VERSION", "DIAG", "ATTN")
# Any other level counts only behind a full head.
OPEN_LEVEL: Final = r"[A-Z]{3,10}"

HOST: Final = r"\[[^\]\s]+\]|<[^>\s]+>|[^\s:|()\[\]<>\"'`*,;]+"
_ID: Final = r"[0-9]+|[X*]+"
# The end of a head that only NCCL prints: pid, tid, and then device and source unless they are missing.
FULL_END: Final = rf":(?:{_ID}):(?:{_ID})(?: \[-?[0-9]+\](?: \S.*)?)?$"
_FULL: Final = (
    rf"^(?P<launcher>.*?)(?P<host>{HOST}):(?P<pid>{_ID})"
    rf"(?::(?P<tid>{_ID})(?: \[(?P<dev>-?[0-9]+)\](?: (?P<source>\S.*))?)?| \[(?P<dev_alone>-?[0-9]+)\])?$"
)
_DEVICE: Final = r"^(?P<launcher>.*?)\[(?P<dev>-?[0-9]+)\](?: (?P<source>\S.*))?$"
# A launcher's name of the host in front of a head that lost it: `gpu01: [0] ..`, or alone at the beginning.
_LABEL: Final = r"(?:^|.*[\s\]>)|])(?P<label>[A-Za-z0-9_.-]+): ?$|^(?P<alone>[A-Za-z0-9_.-]+) $"
_LABEL_END: Final = r"[A-Za-z0-9_.-]+:? ?$"
_NAMES_HOST: Final = r"[A-Za-z]|^[0-9]{1,3}(?:\.[0-9]{1,3}){3}$"
_NAMES_NO_HOST: Final = (
    r"(?i)^(?:[0-9.,t-]+z|(?:local_?|global_?|world_?)?rank[-_]?[0-9]*|proc(?:ess)?[-_]?[0-9]+|std(?:out|err)|info|warn"
    r"|warning|error|debug|trace|critical|fatal|notice|output|log)$"
)
# A zone that a log collector glued to the host name: 2025-05-16T16:39:51.208-07:00ip-10-1-2-3
_GLUED_ZONE: Final = r"([0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2}))([^\s|])"
_TIMESTAMP: Final = (
    r"(\[?[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[ T_][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?\]?"
    r"|\[?[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?\]?) ?$"
)
_TIME_OF_DAY: Final = r"(?:^|[ T])[0-2]?[0-9]:[0-5][0-9]:[0-6][0-9]$"
_FILE: Final = r"\.(?:cc|cu|cpp|cxx|c|h|hpp)$"
_RAISED: Final = r"(?:^|\.)[A-Z]\w*(?:Error|Exception)$"
_FUNCTION: Final = r"^[a-z][a-z0-9]*(?:_[a-z0-9]+)+$"
_RANK: Final = (
    r"^\[(?:[0-9]+,)?([0-9]+)\]<std",
    r"^\s*([0-9]+): ",
    r"\[rank([0-9]+)\]",
    r"\[[A-Za-z_]+([0-9]+)(?:\|[0-9]+)?\]:?\s*$",
)

# A time of day with fractions of a second, of which no two lines may have the same; and how most heads end.
_MOMENT: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}([.,])[0-9]+(Z|[+-][0-9]{2}:?[0-9]{2}|[ \])|\"])"
_USUAL_END: Final = r":[0-9]+:[0-9]+ \[-?[0-9]+\]$"

_KNOWN_MOST: Final = 10_000

COLUMNS: Final = frame("""launcher str, timestamp str, host str, pid i64, tid i64, dev i32, source str,
    launcher_rank i32""")


def parse_heads(heads: pl.Series) -> pl.DataFrame:
    """Fields of every distinct head: column ``head`` and those of ``COLUMNS``; what is not there is null."""
    frame = pl.DataFrame({"head": heads}).with_columns(
        clean=pl.col("head").str.replace(_GLUED_ZONE, "$1 $2").str.strip_chars_end(" ")
    )
    full = frame.with_columns(pl.col("clean").str.extract_groups(_FULL).alias("g")).unnest("g")
    rest = full.filter(pl.col("host").is_null())
    if rest.height:
        device = (
            rest.select("head", "clean")
            .with_columns(pl.col("clean").str.extract_groups(_DEVICE).alias("g"))
            .unnest("g")
            .with_columns(pl.lit(None, pl.String).alias(c) for c in ("host", "pid", "tid", "dev_alone"))
            .with_columns(launcher=pl.when(pl.col("dev").is_null()).then("clean").otherwise("launcher"))
        )
        full = pl.concat([full.filter(pl.col("host").is_not_null()), device.select(full.columns)])
    # `host:pid` alone is the head of a DIAG line; without a letter it is the end of a timestamp: `16:39`, `-07:00`.
    clock = pl.col("tid").is_null() & pl.col("dev_alone").is_null() & pl.col("dev").is_null()
    clock &= ~pl.col("host").str.contains("[A-Za-z]").fill_null(True)
    # And `Mar 04 11:59:01` is none of its heads either.
    clock |= pl.col("dev").is_null() & pl.col("dev_alone").is_null() & pl.col("clean").str.contains(_TIME_OF_DAY)
    full = full.with_columns(
        launcher=pl.when(clock).then("clean").otherwise("launcher"),
        host=pl.when(clock).then(None).otherwise("host"),
        pid=pl.when(clock).then(None).otherwise("pid"),
        tid=pl.when(clock).then(None).otherwise("tid"),
    )
    # A host without a name: `:5202:5683 [0]`, or nothing in front of the pid.
    nameless = pl.col("host").str.contains("^[0-9]+$").fill_null(False) & pl.col("dev_alone").is_not_null()
    full = full.with_columns(
        tid=pl.when(nameless).then("pid").otherwise("tid"),
        pid=pl.when(nameless).then("host").otherwise("pid"),
        host=pl.when(nameless).then(None).otherwise("host"),
    )
    # A head that lost its host and pid begins with the source file: `[0] misc/socket.cc:71`.
    # The same of plugins, which print the function: `process_completions:1648`; no host name has such a form.
    bare = pl.col("host").str.contains(_FILE).fill_null(False) & pl.col("tid").is_null()
    bare |= pl.col("host").str.contains(_FUNCTION).fill_null(False) & pl.col("tid").is_null()
    full = full.with_columns(
        source=pl.when(bare).then(pl.format("{}:{}", "host", "pid")).otherwise("source"),
        dev_alone=pl.when(bare).then(pl.col("launcher").str.extract(r"\[(-?[0-9]+)\] ?$")).otherwise("dev_alone"),
        launcher=pl.when(bare).then(pl.col("launcher").str.replace(r"\[-?[0-9]+\] ?$", "")).otherwise("launcher"),
        host=pl.when(bare).then(None).otherwise("host"),
        pid=pl.when(bare).then(None).otherwise("pid"),
    )
    # `[80748] [rank0]:[E321 02:07:08 ...]`: a viewer numbers the lines, and what follows is a launcher's tag.
    tagged = pl.col("host").is_null() & pl.col("source").str.contains(_TAGGED).fill_null(False)
    full = full.with_columns(
        launcher=pl.when(tagged).then("source").otherwise("launcher"),
        source=pl.when(tagged).then(None).otherwise("source"),
        dev_alone=pl.when(tagged).then(None).otherwise("dev_alone"),
    )
    full = _labeled(full)
    stamped = full.with_columns(timestamp=pl.col("launcher").str.extract(_TIMESTAMP))
    return stamped.select(
        "head",
        launcher=pl.when(pl.col("timestamp").is_null())
        .then("launcher")
        .otherwise(pl.col("launcher").str.replace(_TIMESTAMP, ""))
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


_TAGGED: Final = r"^\[(?:rank[0-9]|[IWEF][0-9]{3,4} )"


def _labeled(heads: pl.DataFrame) -> pl.DataFrame:
    """Heads that lost their host, with the one that a launcher's label names."""
    groups = pl.col("launcher").str.extract_groups(_LABEL)
    label = pl.coalesce(groups.struct.field("label"), groups.struct.field("alone"))
    lost = pl.col("host").is_null() & (pl.col("dev").is_not_null() | pl.col("dev_alone").is_not_null())
    heads = heads.with_columns(_label=pl.when(lost).then(label))
    # An exception that quotes a rank in brackets: `torch.distributed.DistBackendError: [3] is setting up`.
    raised = pl.col("_label").str.contains(_RAISED).fill_null(False)
    named = pl.col("_label").str.contains(_NAMES_HOST) & ~pl.col("_label").str.contains(_NAMES_NO_HOST)
    named = named.fill_null(False) & ~raised
    return heads.with_columns(
        launcher=pl.when(raised)
        .then("clean")
        .when(named)
        .then(pl.col("launcher").str.replace(_LABEL_END, ""))
        .otherwise("launcher"),
        host=pl.when(named).then("_label").when(pl.col("host").str.contains(r"\w")).then("host"),
        dev=pl.when(raised).then(None).otherwise("dev"),
    ).drop("_label")


class Heads:
    """Remembers what heads said: each chunk of a log has those of all ranks again."""

    def __init__(self) -> None:
        self._known = pl.DataFrame(schema={"head": pl.String, **COLUMNS})

    def parsed(self, heads: pl.Series) -> pl.DataFrame:
        """As :func:`parse_heads` for these distinct heads, and maybe for others."""
        known = self._known
        new = heads.filter(~heads.is_in(known["head"].implode()))
        if new.is_empty():
            return known
        if new.len() > _KNOWN_MOST:
            return parse_heads(heads)
        # A text of its own: the heads of a chunk keep all of its bytes in memory.
        more = parse_heads(pl.Series(new.to_list(), dtype=pl.String))
        both = known.vstack(more)
        if both.height <= _KNOWN_MOST:
            self._known = both
        return both


def undated(heads: pl.Series) -> pl.Series:
    """The heads with one time of day for all in place of the first that each names.

    From them all is parsed that is parsed from the heads themselves, but for the timestamp and the launcher's text.
    """
    same: pl.Series = heads.str.replace(_MOMENT, "00:00:00${1}0${2}")
    told: pl.Series = same.zip_with(heads.str.contains(_USUAL_END), heads)
    return told
