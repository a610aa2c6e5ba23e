"""A network plugin was found and cannot be used."""

import re
from typing import Final

import polars as pl

from nccl_insight.facts.mentions import mentions, no_device
from nccl_insight.facts.reach import spans_hosts
from nccl_insight.facts.settings import hosts_of, refs
from nccl_insight.facts.topics import told
from nccl_insight.rules._errors import trouble
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run

# Spectrum-X, NCCL's RDMA-SHARP plugin, UCX.
_VERBS = r"(?i)^(?:SPCX|IBext|NCCL RDMA Plugin|UCX)"

_LIBRARIES: Final = "ldd $(ldconfig -p | awk '/libnccl-net/{print $NF; exit}'); echo $NCCL_NET_PLUGIN $LD_LIBRARY_PATH"
# What the dynamic linker of glibc says.
_NEEDS: Final = re.compile(r"([^\s=]{1,200}): version [`'](([A-Z]{2,12})_[0-9.]{1,12})' not found")
_SYSTEM: Final = ("GLIBC", "GLIBCXX", "CXXABI")
_MISSING: Final = re.compile(r"(lib[A-Za-z0-9_+.-]{1,80}\.so[A-Za-z0-9_.]{0,20}): cannot open shared object")
_UNDEFINED: Final = re.compile(r"undefined symbol: (\w{1,80})")


def check(ctx: Context) -> Hits:
    """Plugins that were opened and not used."""
    run = ctx.run
    rows = mentions(run, "plugin-unusable")
    if rows.is_empty():
        failed = run.table("plugins").filter(
            (pl.col("kind").cast(pl.String) == "net")
            & (pl.col("outcome").cast(pl.String) == "failed")
            & ~pl.col("name").fill_null("").str.extract(r"^(\S+)").is_in(["IB", "Socket", "Sockets"])
            & pl.col("name").is_not_null()
        )
        failed = failed.filter(told(failed, "plugin-absent").is_null())
        rows = pl.concat([_needed(run), failed.with_columns(text=pl.coalesce("detail", "name"))])
    if rows.is_empty() or trouble(run, *ctx.names("unless")) is not None:
        return
    old = mentions(run, "plugin-unusable", "too-old")
    old_only = not old.is_empty() and mentions(run, "plugin-unusable", "broken").is_empty()
    networks = run.table("processes")["network"].drop_nulls()
    harmless = old_only and (not len(networks) or not networks.str.contains("(?i)socket").any())
    text = (
        "only interface versions that this NCCL no longer supports"
        if old_only
        else "the library was opened and not used"
    )
    harmless = harmless or spans_hosts(run) is False or _without_hardware(run, rows)
    hosts = hosts_of(rows)
    title, step = _why(str(rows["text"][0] or ""))
    yield ctx.says(
        "found", refs(rows), whom=hosts, next_step=step, observed=text, title_said=title, rows=rows, harmless=harmless
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


def _why(text: str) -> tuple[str, str]:
    """What the dynamic linker says in short, and the steps that fit."""
    needs = _NEEDS.search(text)
    if needs and needs[3] not in _SYSTEM:
        return (
            f"The network plugin needs {needs[2]}, which {needs[1]} lacks: that library is too old",
            f"{_LIBRARIES}; fi_info --version   # inside the container; then update that library (libfabric: EFA's "
            "installer), or install a release of the plugin that was built for it",
        )
    if needs:
        return (
            f"The network plugin needs {needs[2]}, which this image lacks",
            "ldd --version | head -1; echo $NCCL_NET_PLUGIN $LD_LIBRARY_PATH   # inside the container; then use an "
            "image of a newer system (Ubuntu 22.04 has glibc 2.35), or a plugin that was built for this one",
        )
    if symbol := _UNDEFINED.search(text):
        return (
            f"The network plugin does not fit the libraries here: {symbol[1]} is undefined",
            f"{_LIBRARIES}   # inside the container; then install the plugin release for this NCCL and libfabric",
        )
    if needed := _MISSING.search(text):
        return (
            f"The network plugin needs {needed[1]}, which is not there",
            f"{_LIBRARIES}   # inside the container; then install the library (CUDA's runtime: cuda-cudart of that "
            "version), or a plugin that was built for the CUDA of this image",
        )
    return (
        "A network plugin was found but cannot be used",
        f"{_LIBRARIES}   # then install the plugin release for this NCCL",
    )


def _without_hardware(run: Run, rows: pl.DataFrame) -> bool:
    """Whether all are plugins over verbs, as HPC-X and NVIDIA's images bring them, and NCCL finds no device for it."""
    if no_device(run).is_empty():
        return False
    return bool(rows["name"].str.contains(_VERBS).fill_null(False).all())
