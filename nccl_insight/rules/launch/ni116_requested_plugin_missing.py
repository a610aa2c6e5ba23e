"""A plugin that the user asked for was not found."""

import re
import shlex

import polars as pl

from nccl_insight.facts.setup.settings import hosts_of, refs
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run

_DEFAULT = re.compile(r"lib[nr]ccl-(?:net|collnet|tuner|profiler|env|gin|rma)\.so")
_PLUGIN = re.compile(r"lib[nr]ccl-[a-z]+-.+\.so(?:\.[0-9]+)*")
_AFTER = r"\.?\s+Using (?:internal|default).*$"
_NO_NAME = frozenset({"", "none", "static_plugin"})
_NAMES = ("name", "plugin", "plugin_list")


def check(ctx: Context) -> Hits:
    """One finding for each kind and name."""
    rows = _missing(ctx.run)
    if rows.is_empty():
        return
    network = set(rows.filter(pl.col("what") == "net").get_column("asked").to_list())
    for (what, asked), group in rows.group_by(["what", "asked"], maintain_order=True):
        if what != "net" and asked in network:
            continue  # the tuner and others also try the network plugin's name
        variable = f"NCCL_{str(what).upper()}_PLUGIN"
        shown = str(asked)[:80]
        look = f'find / -xdev -name {shlex.quote(f"*{shown}*")} 2>/dev/null; echo "$LD_LIBRARY_PATH"'
        yield ctx.says("found", refs(group), whom=hosts_of(group), variable=variable, shown=shown, look=look)


def _missing(run: Run) -> pl.DataFrame:
    """``what`` (net, tuner, ...), ``asked`` (bare name) and provenance of names that are not NCCL's defaults."""
    plugins = run.table("plugins")
    names = [pl.col(c).fill_null("") for c in _NAMES]
    kinds = [pl.col("kind").cast(pl.String), pl.col("plugin_kind").str.to_lowercase()]
    frame = plugins.with_columns(
        what=pl.coalesce(*kinds), texts=pl.concat_str(names, separator=" ").str.replace(_AFTER, "")
    ).with_columns(asked=pl.col("texts").str.extract_all(r"[^\s,;]+"))
    loaded = frame.filter(
        (pl.col("outcome").cast(pl.String) == "loaded") & pl.col("texts").str.contains(r"\.so|libnccl")
    ).select("host", "pid", "what")
    rows = (
        frame.filter(pl.col("outcome").cast(pl.String) == "not_found")
        .explode("asked")
        .drop_nulls(["asked", "what"])
        .with_columns(pl.col("asked").str.strip_chars(" '\"()").str.strip_chars_end("."))
        .join(loaded, on=["host", "pid", "what"], how="anti", nulls_equal=True)
    )
    wanted = rows.get_column("asked").unique().to_list()
    asking = run.table("env").filter(pl.col("name").str.ends_with("_PLUGIN"))["value"].drop_nulls().unique()
    given = {_bare(part) for value in asking for part in str(value).split(",")} - {None}
    # A name that nobody gave, or of another library: what the loader misses is not what was asked for.
    bare = {
        text: name for text in wanted if (name := _bare(text)) in given or _PLUGIN.fullmatch(text.rsplit("/", 1)[-1])
    }
    return rows.with_columns(pl.col("asked").replace_strict(bare, default=None, return_dtype=pl.String)).drop_nulls(
        "asked"
    )


def _bare(text: str) -> str | None:
    """``libnccl-net-aws-ofi.so`` -> ``aws-ofi``; None for NCCL's default names."""
    name = text.rsplit("/", 1)[-1]
    if _DEFAULT.fullmatch(name) or name.lower() in _NO_NAME:
        return None
    match = re.fullmatch(r"lib[nr]ccl-[a-z]+-(.+)\.so(?:\.[0-9]+)*", name)
    bare = match[1] if match else name
    return None if bare.lower() in _NO_NAME else bare
