"""Lines that programs print again and again while they work: a counter, how long a step took or how much it moved.

Any program's: Megatron and NeMo (``iteration 10/ 500 | elapsed time per iteration (ms): 1921.4``), progress bars of
tqdm, Hugging Face's dictionaries, Lightning, torchtitan, MaxText, Keras, plain ``step 12 loss 2.1 4.1 s``.
Nothing is known of a program here; a counter with a time, a rate or a stamp is enough.
"""

from typing import Final

import polars as pl

from nccl_insight.base import texts
from nccl_insight.base.words import words
from nccl_insight.readers.embedded.forms import RAISED
from nccl_insight.readers.embedded.tags import read_tag
from nccl_insight.tables.schema import of_input

# What every such line holds somewhere, so that most lines are dropped by a plain search.
_MARKS: Final = words("""tep STEP iter Iter ITER poch EPOCH it/s s/it batch Batch update 'loss' valuat alidat heckpoint
    aving arming armup""")
_PATTERNS: Final = texts.patterns(__file__)
_NUMBER: Final = _PATTERNS["number"]
_COUNTER: Final = _PATTERNS["counter"]
_EPOCH: Final = r"(?i)\bepoch['\"]?\s*[:=#\[(]?\s*([0-9]{1,6}(?:\.[0-9]+)?)(?:\s*(?:/|of)\s*([0-9]{1,6}))?"
_BAR: Final = r"\b([0-9]{1,12})/([0-9]{1,12}) \[((?:[0-9]+:)?[0-9]{1,2}:[0-9]{2})<[^,\]]*"
# How long one step took, with its unit before or behind the number.
_MS: Final = ("ms_per_iteration", "ms_a_step", "time_in_ms")
_UNITS: Final = words("ms_per_iteration ms_a_step s_a_step time_in_ms time_in_s bare_s")
_TOOK: Final = tuple((_PATTERNS[name], 1e-3 if name in _MS else 1.0) for name in _UNITS)
_RATE: Final = tuple(_PATTERNS[name] for name in ("rate_behind", "rate_before", "throughput"))
_STAMP: Final = _PATTERNS["stamp"]
# Work between steps, which takes its time.
_PAUSES: Final = (
    ("checkpoint", r"(?i)checkpoint|\bsav(?:ing|ed)\b"),
    ("evaluation", r"(?i)\bevaluat|\bvalidat|\beval\b"),
    ("warm-up", r"(?i)\bwarm(?:ing)?[ -]?up\b"),
)
_MOST: Final = 1000
# Lines of one piece of a log that are kept; of more, every second, third ... one.
_PER_PIECE: Final = 4096
_LAST: Final = 64
_SCHEMA: Final = of_input("progress")


def progress_lines(text: pl.Expr) -> pl.Expr:
    """Whether a line may count steps or tell of a pause between them (a cheap test)."""
    return text.str.contains("|".join(_MARKS))


def thinned(frame: pl.DataFrame) -> pl.DataFrame:
    """Evenly chosen lines and the last ones: a job that prints one per step and rank must not fill the memory."""
    if frame.height <= _PER_PIECE:
        return frame
    last = frame.tail(_LAST)
    return pl.concat([frame.head(-_LAST).gather_every(-(-frame.height // _PER_PIECE)), last])


def near(text: pl.Expr) -> pl.Expr:
    """Whether a line that may count steps does, or tells of a pause."""
    found = text.str.contains(_COUNTER) | text.str.contains(_BAR) | text.str.contains(_EPOCH)
    for _, pattern in _PAUSES:
        found = found | text.str.contains(pattern)
    return found


def _numeric(text: pl.Expr) -> pl.Expr:
    return text.str.replace_all(",", "").cast(pl.Float64, strict=False)


def _took(text: pl.Expr) -> pl.Expr:
    said = []
    for pattern, unit in _TOOK:
        groups = text.str.extract_groups(pattern).struct
        found = pl.coalesce(groups.field(str(n + 1)) for n in range(pattern.count(_NUMBER)))
        said.append(_numeric(found) * unit)
    return pl.coalesce(said)


def _clock_s(text: pl.Expr) -> pl.Expr:
    """Seconds of ``1:02:03`` or ``02:03``."""
    parts = text.str.split(":").list.eval(pl.element().cast(pl.Float64)).list.reverse()
    return parts.list.get(0) + 60 * parts.list.get(1) + 3600 * parts.list.get(2, null_on_oob=True).fill_null(0.0)


def scan_lines(lines: pl.DataFrame) -> pl.DataFrame:
    """Rows of ``progress`` from ``line, text``: what counts, and pauses between counters that name themselves."""
    text = pl.col("text")
    rows = lines.select("line", "text").filter(progress_lines(text))
    if rows.is_empty():
        return pl.DataFrame(schema=_SCHEMA)
    # A bar that was drawn over and over is one line.
    rows = rows.with_columns(text=text.str.replace_all(r"\x1b\[[0-9;]*[A-Za-z]", "").str.split("\r")).explode("text")
    rows = rows.with_columns(text.str.slice(0, _MOST)).filter(near(text) & ~text.str.contains(RAISED))
    counts = {"_bar": _BAR, "_step": _COUNTER, "_epoch": _EPOCH}
    rows = rows.with_columns(**{name: text.str.extract_groups(p) for name, p in counts.items()})
    bar, step, epoch = (pl.col(name).struct for name in counts)
    counter = pl.coalesce(bar.field("1"), step.field("1"), epoch.field("1"))
    total = pl.coalesce(bar.field("2"), step.field("2"), epoch.field("2"))
    unit = pl.coalesce(
        pl.when(bar.field("1").is_not_null()).then(pl.lit("it")),
        pl.when(step.field("1").is_not_null()).then(pl.lit("step")),
        pl.when(epoch.field("1").is_not_null()).then(pl.lit("epoch")),
    )
    rate = pl.coalesce(_numeric(text.str.extract(p)) for p in _RATE)
    pause = pl.coalesce(pl.when(text.str.contains(p)).then(pl.lit(name)) for name, p in _PAUSES)
    counted = {"counter": counter.cast(pl.Float64, strict=False), "total": total.cast(pl.Int64, strict=False)}
    timed = {"timestamp": text.str.extract(_STAMP), "elapsed_s": _clock_s(bar.field("3")), "duration_s": _took(text)}
    lost = text.str.contains(_PATTERNS["not_a_number"])
    found = rows.with_columns(unit=unit, **counted, **timed, rate=rate, pause=pause, not_a_number=lost)
    found = found.filter(pl.col("unit").is_not_null() | pl.col("pause").is_not_null())
    return _named(found).select(pl.col(name).cast(kind) for name, kind in _SCHEMA.items())


def _named(rows: pl.DataFrame) -> pl.DataFrame:
    """With the rank that the tag in front states, and which lines are of one series: alike but for their numbers."""
    head = pl.col("text").str.slice(0, 120).str.replace(_STAMP, "").str.replace_all("[IWEF][0-9]{4} ", "")
    rows = rows.with_columns(
        _tag=head.str.extract(r"^([^A-Za-z]*(?:\[[^\]]{1,40}\]:?|\([^)]{1,60}\)|[0-9]{1,7}:)[^A-Za-z]*)")
    )
    ranks = {tag: read_tag(tag).rank for tag in rows["_tag"].drop_nulls().unique()}
    words = pl.col("text").str.replace(_STAMP, "").str.extract_all(r"[A-Za-z_]{2,}").list.head(3).list.join(" ")
    return rows.with_columns(
        rank=pl.col("_tag").replace_strict(ranks, default=None, return_dtype=pl.Int32), series=words
    )
