"""Rows of nccl-tests tables among lines of text (old and new layouts, also between lines of an NCCL log).

Layouts differ by release: the column ``root`` came late, ``redop`` is blank for some collectives, ``error``
(largest deviation) became ``#wrong`` (number of wrong elements), per-iteration columns and time stamps are
optional. A row is told by its shape: size, count, type, optional operation, optional root, then 4 or 8 figures
(8 or 16 with per-iteration columns).
"""

from pathlib import Path
from typing import Final

import polars as pl

from nccl_insight.base import late
from nccl_insight.base.words import pairs, words
from nccl_insight.tables.declared import frame
from nccl_insight.tables.schema import of_input

TYPES = words("""int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 char int f8e4m3 f8e5m2 fp8_e4m3
    fp8_e5m2 float16 float32 float64""")
_OPS = pairs("""all_reduce=AllReduce allreduce=AllReduce all_gather=AllGather allgather=AllGather
    reduce_scatter=ReduceScatter reducescatter=ReduceScatter alltoall=AllToAll alltoallv=AllToAllv
    all_to_all=AllToAll broadcast=Broadcast reduce=Reduce gather=Gather scatter=Scatter sendrecv=SendRecv
    hypercube=Other""")
_NUMBER = r"(?:[-+]?[0-9][0-9.eE+-]*|-?nan|-?inf|N/A)"
ROW = (
    r"(?:^|[\s>:\])|])(?P<size>[0-9]+)\s+(?P<count>[0-9]+)\s+(?P<dtype>(?:" + "|".join(TYPES) + r"))"
    r"(?:\s+(?P<redop>sum|prod|max|min|avg|mulsum|none))?"
    r"(?P<gap>\s+)(?P<figures>" + _NUMBER + r"(?:\s+" + _NUMBER + r"){3,16})(?:\s.*)?$"
)
_HINT = (
    r"nThread|Avg bus bandwidth|Out of bounds values|_perf|#wrong|busbw|Rank +[0-9]+ |[0-9]\s+(?:"
    + "|".join(TYPES)
    + r")\s"
)
_HEAD: Final = "# nThread [0-9]+ nGpus"
_HOST: Final = r"#\s+Rank\s+[0-9]+\s.*\bon\s+(\S+)\s+device"
_PERF = late.compiled(r"\b(" + "|".join(sorted(_OPS, key=len, reverse=True)) + r")_perf")
_BARE = late.compiled(r"(?:^|[^a-z])(" + "|".join(sorted(_OPS, key=len, reverse=True)) + r")(?:[^a-z]|$)")
SCHEMA = frame("""line u64, op str, size_bytes u64, count u64, dtype str, red_op str, root i32, in_place bool,
    time_us f64, algbw_gbps f64, busbw_gbps f64, wrong i64, max_error f64, nranks i32, n_hosts i32, gpu str,
    n_gpus i32, run i32""")


def op_of_name(name: str) -> str | None:
    """Collective that a program or file name stands for: ``all_reduce_perf_mpi`` -> ``AllReduce``."""
    lowered = name.lower()
    match = _PERF.search(lowered) or _BARE.search(lowered)
    return _OPS[match[1]] if match else None


def scan_lines(lines: pl.DataFrame, name: str = "") -> pl.DataFrame:
    """Benchmark rows (columns as in ``SCHEMA``) found in ``lines`` (``line`` and ``text``).

    Each table row gives two rows, out of place and in place; times are microseconds, bandwidths GB/s (1e9).
    ``run`` counts tables in the text, ``name`` (a file name) is the last resort for the kind of collective.
    """
    near = _near(lines)
    rows = near.filter(pl.col("_row").struct.field("figures").is_not_null()).select(
        "line", "run", pl.col("_row").struct.unnest()
    )
    if rows.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    return _measurements(rows).join(_runs(near, name), on="run", how="left").pipe(_finish)


def _near(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines that may be of a table, with what each says by its form; ``run`` counts the heads of tables."""
    near, text = lines.filter(pl.col("text").str.contains(_HINT)), pl.col("text")
    return near.with_columns(
        run=text.str.contains(_HEAD).cum_sum().cast(pl.Int32),
        _error_head=text.str.contains(r"busbw\s+error"),
        _perf=text.str.extract(r"\b([a-z_]+_perf)"),
        _rank=text.str.extract(r"#\s+Rank\s+([0-9]+)\s").cast(pl.Int32, strict=False),
        _listed=text.str.contains(r"#\s+Rank\s+[0-9]+\s"),
        _host=text.str.extract(_HOST),
        _gpu=text.str.extract(r"#\s+Rank\s+[0-9]+\s.*device\s+[0-9]+\s+\[[^\]]*\]\s+(\S.*?)\s*$"),
        _place=text.str.extract(r"#\s+Rank\s+[0-9]+\s.*\bon\s+(\S+\s+device\s+[0-9]+\s+\[[^\]]*\])"),
        _row=text.str.extract_groups(ROW),
        _end=text.str.contains("# Avg bus bandwidth", literal=True),
        _bad=text.str.extract(r"# Out of bounds values : ([0-9]{1,18}) FAILED").cast(pl.Int64),
    )


RUNS: Final = of_input("benchmark_runs")


def scan_runs(lines: pl.DataFrame) -> pl.DataFrame:
    """One row for each head of a table: ranks listed under it, their hosts, result rows, whether its end is there."""
    runs = _near(lines).filter(pl.col("run") > 0).group_by("run", maintain_order=True)
    return runs.agg(
        pl.col("line").first(),
        listed=pl.col("_listed").sum(),
        hosts=pl.col("_host").drop_nulls().unique(maintain_order=True),
        rows=pl.col("_row").struct.field("figures").is_not_null().sum(),
        ended=pl.col("_end").any(),
        out_of_bounds=pl.col("_bad").sum(),
    ).select(pl.col(c).cast(t) for c, t in RUNS.items())


def _runs(near: pl.DataFrame, name: str) -> pl.DataFrame:
    """One row per table: ranks, hosts, GPU model, collective, and whether the last column counts or measures.

    The line that names the program stands before the head of its table, so a name seen in the part that belongs
    to the previous head is taken where the table has none of its own.
    """
    runs = near.group_by("run", maintain_order=True).agg(
        pl.col("_rank").max().add(1).alias("nranks"),
        pl.col("_host").drop_nulls().n_unique().alias("n_hosts"),
        pl.col("_gpu").drop_nulls().first().alias("gpu"),
        # Ranks may share a GPU: then host, device and bus ID are the same.
        pl.col("_place").drop_nulls().n_unique().alias("n_gpus"),
        pl.col("_perf").drop_nulls().first().alias("_first"),
        pl.col("_perf").drop_nulls().last().alias("_last"),
        pl.col("_error_head").any().alias("_is_error"),
    )
    runs = runs.with_columns(pl.col("_last").forward_fill().shift(1).alias("_before"))
    names = zip(runs["_before"], runs["_first"], strict=True)
    guess = op_of_name(Path(name).name)
    ops = [next((o for n in pair if n and (o := op_of_name(n))), guess) for pair in names]
    return runs.with_columns(
        pl.Series("op", ops, dtype=pl.String),
        *(pl.when(pl.col(c) > 0).then(pl.col(c)).cast(pl.Int32).alias(c) for c in ("nranks", "n_hosts", "n_gpus")),
    )


def _measurements(rows: pl.DataFrame) -> pl.DataFrame:
    """Splits the figures of each row into the out-of-place and the in-place measurement."""
    rows = rows.with_columns(
        pl.col("figures").str.extract_all(_NUMBER).alias("_f"), pl.col("gap").str.len_chars().alias("_gap")
    ).with_columns(pl.col("_f").list.len().alias("_n"))
    has_root = pl.col("_n").is_in([5, 9, 17]) & pl.col("_f").list.first().str.contains(r"^-?[0-9]+$")
    rows = rows.with_columns(
        pl.when(has_root).then(pl.col("_f").list.first()).cast(pl.Int32, strict=False).alias("root"),
        pl.when(has_root).then(pl.col("_f").list.slice(1)).otherwise(pl.col("_f")).alias("_f"),
    ).with_columns(pl.col("_f").list.len().alias("_n"))
    width = pl.when(pl.col("_n") >= 16).then(8).otherwise(4)
    alone = pl.col("_n") < 8
    sides = [
        rows.with_columns((alone & (pl.col("_gap") > 24)).alias("in_place"), pl.lit(0).alias("_at")),
        rows.filter(~alone).with_columns(pl.lit(True).alias("in_place"), width.alias("_at")),
    ]
    both = pl.concat([s.with_columns(pl.col("_at").cast(pl.Int32)) for s in sides]).sort(
        "line", "in_place", maintain_order=True
    )

    def figure(offset: int) -> pl.Expr:
        value = pl.col("_f").list.get(pl.col("_at") + offset, null_on_oob=True).cast(pl.Float64, strict=False)
        return pl.when(value.is_finite()).then(value)

    figures = (figure(n).alias(c) for n, c in enumerate(("time_us", "algbw_gbps", "busbw_gbps", "_last_figure")))
    size, count = (pl.col(c).cast(pl.UInt64, strict=False) for c in ("size", "count"))
    red_op = pl.when(pl.col("redop") != "none").then(pl.col("redop")).alias("red_op")
    return both.select("line", "run", "in_place", "root", "dtype", size.alias("size_bytes"), count, red_op, *figures)


def _finish(rows: pl.DataFrame) -> pl.DataFrame:
    """The schema's columns; the collective is inferred from busbw/algbw where only one can be meant."""
    clear = (pl.col("algbw_gbps") > 1) & (pl.col("busbw_gbps") > 0) & (pl.col("nranks") > 2)
    ratio = pl.when(clear).then(pl.col("busbw_gbps") / pl.col("algbw_gbps")).median().over("run")
    ring = (pl.col("nranks") - 1) / pl.col("nranks")
    near_allreduce = (ratio - 2 * ring).abs() < 0.02
    near_scatter = ((ratio - ring).abs() < 0.02) & pl.col("red_op").is_not_null()
    rooted = pl.col("root") >= 0
    guess = (
        pl.when(rooted & pl.col("red_op").is_not_null())
        .then(pl.lit("Reduce"))
        .when(rooted & ((ratio - 1).abs() < 0.02))
        .then(pl.lit("Broadcast"))
        .when(near_allreduce)
        .then(pl.lit("AllReduce"))
        .when(near_scatter)
        .then(pl.lit("ReduceScatter"))
    )
    is_error = pl.col("_is_error")
    return rows.with_columns(
        pl.coalesce("op", guess).alias("op"),
        pl.when(~is_error).then(pl.col("_last_figure")).cast(pl.Int64, strict=False).alias("wrong"),
        pl.when(is_error).then(pl.col("_last_figure")).alias("max_error"),
    ).select(pl.col(c).cast(t, strict=False) for c, t in SCHEMA.items())
