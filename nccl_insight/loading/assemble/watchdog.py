"""The ``watchdog`` table: where each rank stands in each process group, as the lines of torch's watchdog say."""

from typing import Final

import polars as pl

from nccl_insight.base.words import words
from nccl_insight.language.load import playing
from nccl_insight.loading.assemble.base import column, of_the_same
from nccl_insight.tables.declared import frame

DEFAULT: Final = "default"
UNKNOWN: Final = "?"
_IN_TAG: Final = r"\[PG (?:ID )?([0-9a-f]+)\b[^\]]*Rank [0-9]+\]\s*$"
_RANK_IN_TAG: Final = r"\[(?:PG [^\]]*)?Rank ([0-9]{1,9})\]\s*$"
# glog's stamp stands in the launcher's tag: [rank5]:[E901 05:20:03.445217639 ProcessGroupNCCL.cpp:684]
_STAMP: Final = r"([IWEF][0-9]{3,4} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?)"

_ALWAYS: Final = words("input_id line host pid launcher launcher_rank timestamp message rank")
_TOLD: Final = frame("""rank_list str, seq i64, completed_seq i64, enqueued_seq i64, pg_id i64, pg_guid str,
    work_op str, numel_in i64, numel_out i64, timeout_ms i64, duration_ms i64""")


def watchdog_rows(errors: pl.DataFrame, restarts: pl.DataFrame | None) -> pl.DataFrame | None:
    """One row per rank and process group, from the watchdog's lines of ``errors``, in reading order; None without any.

    ``group``: ``default``, the group's id, or ``?`` where no line names it. ``rank``: within the group;
    ``global_rank``: the launcher's tag. The oldest operation that timed out, and the highest numbers the rank told.
    """
    if "message" not in errors.columns:
        return None
    asked = pl.col("message").is_in([*playing("time-out"), *playing("standing"), *playing("dump-signal")])
    told_so = (column(errors, name, dtype) for name, dtype in _TOLD.items())
    rows = errors.select(*(c for c in _ALWAYS if c in errors.columns), *told_so).filter(asked)
    if rows.is_empty():
        return None
    # The report of a rank names others, by their numbers in the group that its own lines are of.
    listed = pl.col("rank_list").str.extract_all("[0-9]+").cast(pl.List(pl.Int32))
    rows = rows.with_columns(listed=listed)
    named_others = rows["listed"].count() > 0
    rows = rows.explode("listed") if named_others else rows.with_columns(listed=pl.lit(None, pl.Int32))
    # It counts from 1, the numbers of earlier torch from 0: whom it names did not come to the operation above it.
    timed_out = pl.when(pl.col("message").is_in(playing("time-out"))).then(pl.col("seq"))
    completed, told = pl.col("completed_seq"), pl.col("listed").is_not_null()
    last = pl.when(told & completed.is_not_null()).then(timed_out.forward_fill().over("input_id") - 1)
    completed = pl.min_horizontal(completed, last)
    tag = pl.col("launcher").fill_null("")
    number = pl.col("pg_id").cast(pl.String)
    named = pl.coalesce(
        pl.when(pl.col("pg_guid").str.contains("default_pg", literal=True)).then(pl.lit(DEFAULT)),
        pl.when(number == "0").then(pl.lit(DEFAULT)).otherwise(number),
        tag.str.extract(_IN_TAG).replace({"0": DEFAULT}),
    )
    # Groups of other ranks may have the same number in their processes (PG ID), and another name (PG GUID).
    guid = pl.col("pg_guid").str.extract(r"^([^(]*)")
    twins = guid.drop_nulls().n_unique().over(named) > 1
    named = pl.when(twins & (named != DEFAULT)).then(pl.format("{} ({})", named, guid)).otherwise(named)
    marked = rows.with_columns(
        named.alias("group"),
        pl.coalesce(
            "listed", tag.str.extract(_RANK_IN_TAG).cast(pl.Int32, strict=False), "rank", "launcher_rank"
        ).alias("of"),
        pl.when(~told).then("launcher_rank").alias("global_rank"),
        pl.coalesce("enqueued_seq", pl.when(told).then(pl.coalesce("seq", completed, 0))).alias("enqueued_seq"),
        completed.alias("completed_seq"),
        pl.col("numel_in").alias("numel"),
        _members().alias("group_size"),
        pl.coalesce("timestamp", pl.when(tag.str.contains(_STAMP)).then(tag)).alias("timestamp"),
    ).filter(pl.col("of").is_not_null() | pl.col("global_rank").is_not_null())
    if marked.is_empty():
        return None
    # What the process says as it dies names its rank only in the group: it is that of the time-out just told.
    if marked.select((pl.col("global_rank").is_null() & ~told).any()).item():
        theirs = of_the_same(pl.col("global_rank"), ["input_id", "of", "seq", "duration_ms"])
        marked = marked.with_columns(pl.coalesce("global_rank", pl.when(~told).then(theirs)).alias("global_rank"))
    # The watchdog of a group says its second line, which names the group, behind the first. Else a line that names no
    # group belongs to the one that another line of the rank names with the number, or at all, if that is one only.
    behind = pl.struct("of", "seq").shift(-1).over("input_id", "global_rank") == pl.struct("of", "seq")
    behind &= pl.col("global_rank").is_not_null() & pl.col("seq").is_not_null()
    theirs = pl.when(behind).then(pl.col("group").shift(-1).over("input_id", "global_rank"))
    marked = marked.with_columns(pl.coalesce("group", theirs).alias("group"))
    for key in (["of", "global_rank", "seq"], ["of", "global_rank"]):
        own = marked.filter(pl.col("group").is_not_null()).group_by(key).agg(pl.col("group").unique().alias("only"))
        own = own.filter(pl.col("only").list.len() == 1).with_columns(pl.col("only").list.first())
        if own.height and marked["group"].null_count():
            marked = marked.join(own, on=key, how="left", nulls_equal=True, maintain_order="left")
            marked = marked.with_columns(pl.coalesce("group", "only").alias("group")).drop("only")
    above = pl.when(told).then(pl.col("group").forward_fill().over("input_id"))
    marked = marked.with_columns(pl.coalesce("group", above, pl.lit(UNKNOWN)).alias("group"))
    alike = pl.col("of").eq(pl.col("global_rank")).all().over("group") & pl.col("group").is_in([DEFAULT, UNKNOWN])
    alike &= pl.col("global_rank").is_not_null().any().over("group")
    marked = marked.with_columns(pl.coalesce("global_rank", pl.when(told & alike).then("of")).alias("global_rank"))
    waits = pl.col("seq").filter(pl.col("seq").is_not_null() & ~pl.col("message").is_in(playing("dump-signal")))
    oldest = pl.col("seq") == pl.col("seq").min()
    # Without a rank of the job, lines of several inputs are of several ranks, and so may be numbers without a group.
    untold = pl.col("global_rank").is_null()
    own_input = pl.when(untold).then("input_id").alias("_input")
    # A process gives up one operation of a group: two are those of two attempts.
    timed = pl.when(~pl.col("message").is_in(playing("dump-signal"))).then("seq")
    key = ["group", "of", "global_rank", "input_id"]
    lives = (pl.col("group") != UNKNOWN) & (timed.n_unique().over(key) - timed.is_null().any().over(key) > 1)
    own_seq = pl.coalesce(
        pl.when(untold & (pl.col("group") == UNKNOWN)).then("seq"), pl.when(lives).then(timed.forward_fill().over(key))
    ).alias("_seq")
    if restarts is None:
        restarts = marked.clear()
    again = restarts.select("input_id", "line").drop_nulls().sort("input_id", "line").with_columns(_again="line")
    marked = marked.join_asof(again, on="line", by="input_id", check_sortedness=False)
    return (
        marked.group_by("group", "of", "global_rank", own_input, own_seq, "_again", maintain_order=True)
        .agg(
            pl.col("input_id", "line").first(),
            pl.col("host", "pid").drop_nulls().first(),
            # Lines about other ranks may come in front of the time-out, whose time the length of the wait counts from.
            pl.coalesce(
                pl.col("timestamp").filter(pl.col("duration_ms").is_not_null()).drop_nulls().first(),
                pl.col("timestamp").drop_nulls().first(),
            ),
            pl.col("enqueued_seq").max().alias("last_enqueued"),
            pl.col("completed_seq").max().alias("last_completed"),
            waits.min().alias("timed_out_seq"),
            pl.col("work_op").filter(oldest).drop_nulls().first().alias("op"),
            pl.col("numel").filter(oldest).drop_nulls().first(),
            pl.col("group_size").drop_nulls().first(),
            pl.col("timeout_ms").drop_nulls().first(),
            pl.col("duration_ms").drop_nulls().first().alias("ran_ms"),
        )
        .with_columns(pl.coalesce(pl.col("timestamp").str.extract(_STAMP), "timestamp"))
        .drop("_input", "_seq", "_again")
        .rename({"of": "rank"})
    )


def _members() -> pl.Expr:
    """Members of the group, where one side of the operation holds the elements of all members and the other its own."""
    own, whole = pl.min_horizontal("numel_in", "numel_out"), pl.max_horizontal("numel_in", "numel_out")
    of_all = pl.col("work_op").is_in(["ALLGATHER", "_ALLGATHER_BASE", "REDUCE_SCATTER", "_REDUCE_SCATTER_BASE"])
    return pl.when(of_all & (own > 0) & (whole > own) & (whole % own == 0)).then(whole // own).cast(pl.Int64)
