"""A network plugin was found and cannot be used."""

from typing import Final

import polars as pl

from nccl_insight.base import late
from nccl_insight.facts.fabric.reach import spans_hosts
from nccl_insight.facts.said.mentions import mentions, no_device
from nccl_insight.facts.said.topics import told
from nccl_insight.facts.setup.settings import hosts_of, refs
from nccl_insight.rules._errors import trouble
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run

# Spectrum-X, NCCL's RDMA-SHARP plugin, UCX.
_VERBS = r"(?i)^(?:SPCX|IBext|NCCL RDMA Plugin|UCX)"

_LIBRARIES: Final = "ldd $(ldconfig -p | awk '/libnccl-net/{print $NF; exit}'); echo $NCCL_NET_PLUGIN $LD_LIBRARY_PATH"
# What the dynamic linker of glibc says.
_NEEDS: Final = late.compiled(r"([^\s=]{1,200}): version [`'](([A-Z]{2,12})_[0-9.]{1,12})' not found")
_SYSTEM: Final = ("GLIBC", "GLIBCXX", "CXXABI")
_MISSING: Final = late.compiled(r"(lib[A-Za-z0-9_+.-]{1,80}\.so[A-Za-z0-9_.]{0,20}): cannot open shared object")
_UNDEFINED: Final = late.compiled(r"undefined symbol: (\w{1,80})")


def check(ctx: Context) -> Hits:
    """Plugins that were opened and not used."""
    run = ctx.run
    rows = mentions(run, "plugin-unusable")
    names = rows["text"]
    if rows.is_empty():
        failed = run.table("plugins").filter(
            (pl.col("kind").cast(pl.String) == "net")
            & (pl.col("outcome").cast(pl.String) == "failed")
            & ~pl.col("name").fill_null("").str.extract(r"^(\S+)").is_in(["IB", "Socket", "Sockets"])
            & pl.col("name").is_not_null()
        )
        failed = failed.filter(told(failed, "plugin-absent").is_null())
        rows = pl.concat([_needed(run), failed.with_columns(text=pl.coalesce("detail", "name"))])
        names = rows["name"]
    if rows.is_empty() or trouble(run, *ctx.names("unless")) is not None:
        return
    old = mentions(run, "plugin-unusable", "too-old")
    old_only = not old.is_empty() and mentions(run, "plugin-unusable", "broken").is_empty()
    networks = run.table("processes")["network"].drop_nulls()
    harmless = old_only and (not len(networks) or not networks.str.contains("(?i)socket").any())
    harmless = harmless or spans_hosts(run) is False or _without_hardware(run, names)
    hosts = hosts_of(rows)
    text = str(rows["text"][0] or "")
    needs = _NEEDS.search(text)
    yield ctx.says(
        "found",
        refs(rows),
        whom=hosts,
        of_system=needs and needs[3] in _SYSTEM,
        needs=needs,
        symbol=_UNDEFINED.search(text),
        missing=_MISSING.search(text),
        libraries=_LIBRARIES,
        old_only=old_only,
        rows=rows,
        harmless=harmless,
    )


def _needed(run: Run) -> pl.DataFrame:
    """Plugins that are there and whose own libraries the dynamic linker does not find; a plugin's name says net."""
    told_ = pl.concat_str("name", "detail", separator=": ", ignore_nulls=True)
    asked = run.table("env").filter(pl.col("name") == "NCCL_NET_PLUGIN")["value"].drop_nulls().to_list()
    library = pl.col("text").str.extract(_MISSING.pattern)
    return (
        run.table("plugins")
        .filter(pl.col("kind").cast(pl.String) == "net")
        .with_columns(text=told_)
        .filter(library.is_not_null() & ~library.str.contains(r"(?i)net|nccl") & ~library.is_in(asked))
    )


def _without_hardware(run: Run, names: pl.Series) -> bool:
    """Whether all are plugins over verbs, as HPC-X and NVIDIA's images bring them, and NCCL finds no device for it."""
    return not no_device(run).is_empty() and bool(names.str.contains(_VERBS).fill_null(False).all())
