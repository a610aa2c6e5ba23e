"""Numbers that stand for names: datatypes, reductions, algorithms, patterns, kinds of plugin."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import polars as pl

from nccl_insight.base.words import pairs, words

# ncclDataType_t and ncclRedOp_t of nccl.h; 2.10 added bfloat16 and avg, 2.24 the two float8.
DTYPES: Final = words("int8 uint8 int32 uint32 int64 uint64 float16 float32 float64 bfloat16 float8e4m3 float8e5m2")
DTYPE_BYTES: Final = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
RED_OPS: Final = ("sum", "prod", "max", "min", "avg")
# Order of NCCL_ALGO_* and NCCL_PROTO_* (nccl_tuner.h), used as numbers by 2.20-2.23.
ALGORITHMS: Final = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
PROTOCOLS: Final = ("LL", "LL128", "SIMPLE")
# Patterns of graph/topo.h: 1-3 trees, 4 ring, 5 NVLS, 6 CollNet direct.
RING: Final = 4
PATTERNS: Final = {1: "TREE", 2: "TREE", 3: "TREE", RING: "RING", 5: "NVLS", 6: "COLLNET_DIRECT"}
_PLUGINS: Final = pairs("""NET=net COLLNET=collnet TUNER=tuner PROFILER=profiler GIN=gin ENV=env RMA=rma COLL=collnet
    NETWORK=net""")
_OUTCOMES: Final = ("loaded", "not_found", "failed", "disabled")
# What dlopen says of a library that is there and cannot be used, and of one that it needs and does not find.
_BROKEN: Final = r"undefined symbol|version .[A-Z]+_|wrong ELF class|invalid ELF|file too short"
_LIBRARY_MISSING: Final = r"^lib[^:/ ]*\.so[0-9.]*: cannot open shared object"


def name_of(code: pl.Expr, names: Sequence[str]) -> pl.Expr:
    """Names by number; numbers beyond the list stay as they are, as text."""
    known = dict(enumerate(names))
    return code.replace_strict(known, default=None, return_dtype=pl.String).fill_null(code.cast(pl.String))


def _by_code(frame: pl.DataFrame, column: str, values: pl.Series) -> pl.Expr | None:
    """The value at each code's place; None where a code has none. Millions of calls have codes that all have one."""
    code = frame[column]
    least, most = code.min(), code.max()
    if isinstance(least, int) and isinstance(most, int) and least >= 0 and most < values.len():
        return pl.lit(values.gather(code.cast(pl.UInt32)))
    return None


def _named(frame: pl.DataFrame, column: str, names: Sequence[str]) -> pl.Expr:
    known = _by_code(frame, column, pl.Series(names, dtype=pl.String))
    return name_of(pl.col(column), names) if known is None else known


def coll_codes(frame: pl.DataFrame) -> pl.DataFrame:
    """COLL and CALL lines: names for numbers, the operation count from hex, the size in bytes (count x type)."""
    width = _by_code(frame, "dtype_code", pl.Series(DTYPE_BYTES, dtype=pl.Int64))
    if width is None:
        width = pl.col("dtype_code").replace_strict(dict(enumerate(DTYPE_BYTES)), default=None, return_dtype=pl.Int64)
    columns = [
        _named(frame, "dtype_code", DTYPES).alias("dtype"),
        _named(frame, "red_op_code", RED_OPS).alias("red_op"),
        pl.when(pl.col("count") >= 0).then(pl.col("count") * width).alias("size_bytes"),
        *(
            (pl.lit("0x") + pl.col(bare).str.strip_prefix("0x")).alias(name)
            for bare, name in (("sendbuff_bare", "sendbuff"), ("recvbuff_bare", "recvbuff"))
            if bare in frame.columns
        ),
    ]
    if "root" in frame.columns and "peer" not in frame.columns:
        point = pl.col("op").is_in(["Send", "Recv"]).fill_null(False)
        columns += [pl.when(point).then("root").alias("peer"), pl.when(~point).then("root").alias("root")]
    if "op_count_hex" in frame.columns:
        columns.append(pl.col("op_count_hex").str.to_integer(base=16, strict=False).alias("op_count"))
    return frame.with_columns(columns)


def tuning_codes(frame: pl.DataFrame) -> pl.DataFrame:
    """2.20-2.23: numbers for algorithm and protocol."""
    return frame.with_columns(
        algorithm=_named(frame, "algorithm_code", ALGORITHMS), protocol=_named(frame, "protocol_code", PROTOCOLS)
    )


def graph_pattern(frame: pl.DataFrame) -> pl.DataFrame:
    """The algorithm that a graph's pattern is for."""
    known = pl.col("pattern").replace_strict(PATTERNS, default=None, return_dtype=pl.String)
    return frame.with_columns(algorithm=known)


def plugin_kind(frame: pl.DataFrame) -> pl.DataFrame:
    """``NET``, ``TUNER`` ... as the ``plugins`` table spells them; other outcomes than the table's become null."""
    kinds = [pl.col(c) for c in ("loaded_kind", "external_kind", "plugin_kind") if c in frame.columns]
    upper = pl.coalesce(kinds).str.to_uppercase()
    kind = upper.replace_strict(_PLUGINS, default="other", return_dtype=pl.String)
    return plugin_name(frame.with_columns(kind=kind))


def plugin_name(frame: pl.DataFrame) -> pl.DataFrame:
    """The name of a plugin whose kind is known, and how it ended; ``event`` keeps the finer word of the rule."""
    names = [pl.col(c) for c in ("plugin", "plugin_list", "library", "vendor_network") if c in frame.columns]
    said = [pl.col(c).str.strip_chars(" :") for c in ("detail", "dl_error", "vendor_text") if c in frame.columns]
    rows = frame.with_columns(name=pl.coalesce(names)) if names else frame
    rows = rows.with_columns(detail=pl.coalesce(said)) if said else rows
    if "name" not in rows.columns:
        rows = rows.with_columns(name=pl.lit(None, pl.String))
    if "outcome" not in rows.columns:
        return rows
    rows = rows.with_columns(event=pl.col("outcome"))
    outcome: pl.Expr = pl.when(pl.col("outcome").is_in(_OUTCOMES)).then(pl.col("outcome"))
    if "dl_error" in rows.columns:
        error = pl.col("dl_error")
        needed = error.str.contains(_LIBRARY_MISSING) & ~error.str.contains("^lib[nr]ccl")
        broken = error.str.contains(_BROKEN) | needed
        outcome = pl.when(broken).then(pl.lit("failed")).otherwise(outcome)
    if "dl_handle" in rows.columns:
        outcome = pl.when(pl.col("dl_handle") == "(nil)").then(pl.lit("not_found")).otherwise(outcome)
    return rows.with_columns(outcome=outcome)


def plugin_not_found(frame: pl.DataFrame) -> pl.DataFrame:
    """The libraries that were looked for, without the sentence on what is used instead."""
    text = pl.col("plugin_list")
    fallback = text.str.extract(r"(Using internal [a-z]+ plugin\.)$")
    names = text.str.replace(r"Using internal [a-z]+ plugin\.$", "").str.strip_chars(" .")
    return plugin_kind(frame.with_columns(plugin_list=names, fallback=fallback))


def ofi_build(frame: pl.DataFrame) -> pl.DataFrame:
    """The OFI plugin's own version line."""
    return frame.with_columns(name=pl.lit("aws-ofi-nccl"), detail=pl.col("plugin_build"))


def topology_line(frame: pl.DataFrame) -> pl.DataFrame:
    """Lines of a tree that is read as a whole stay as they are."""
    return frame


_OF_PLUGINS: Final = (plugin_kind, plugin_name, plugin_not_found, ofi_build)
NORMALISERS: Final[Mapping[str, Callable[[pl.DataFrame], pl.DataFrame]]] = {
    f.__name__: f for f in (coll_codes, tuning_codes, graph_pattern, topology_line, *_OF_PLUGINS)
}
