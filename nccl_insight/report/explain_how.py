"""Explains the choices: algorithms, settings, start-up times, calls, and what the log cannot tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from nccl_insight.facts.expected import choices
from nccl_insight.facts.members import main_comm
from nccl_insight.facts.memory import device_memory
from nccl_insight.facts.settings import settings
from nccl_insight.facts.transports import pairs
from nccl_insight.facts.user_settings import user_settings
from nccl_insight.report.prose import Section, capped, listed, safe, section
from nccl_insight.settings.catalogue import catalogue
from nccl_insight.tables.run import Run
from nccl_insight.units import format_bytes, format_ranks, plural

_PHASES = (
    "kernels_s",
    "alloc_s",
    "bootstrap_s",
    "allgathers_s",
    "topo_s",
    "graphs_s",
    "connections_s",
    "rest_s",
)


def algorithms(run: Run) -> Section:
    """Channels, searched graphs, and the algorithms chosen for calls."""
    return section("Algorithms and channels", _algorithms(run))


def _algorithms(run: Run) -> Iterator[str]:
    said = False
    counts = run.table("channel_counts")
    world = main_comm(run)
    if world is not None:
        counts = counts.filter(pl.col("comm_id").eq_missing(pl.lit(world.comm_id)))
    columns = ["coll_channels", "nvls_channels", "p2p_channels", "p2p_channels_per_peer"]
    kinds = counts.group_by(columns, maintain_order=True).agg(pl.col("rank"))
    for coll, nvls, p2p, per_peer, ranks in kinds.iter_rows():
        said = True
        extra = f", {nvls} for NVLS" if nvls else ""
        who = f" (ranks {format_ranks([r for r in ranks if r is not None])})" if kinds.height > 1 else ""
        yield f"{coll or 0} channels for collectives{extra}; {p2p or 0} for sends, {per_peer or 0} a peer{who}."
    milestones = (
        run.table("connected").get_column("milestone").drop_nulls().unique(maintain_order=True).to_list()
    )
    if milestones:
        yield f"Connected: {', '.join(sorted(safe(m).replace('_', ' ') for m in milestones))}."
    nvls_lines = run.table("nvls")
    if nvls_lines.height:
        support = nvls_lines.filter(pl.col("message") == "nvls_support").get_column("nvls_not")
        if len(support):
            absent = int(support.is_not_null().sum())
            where = (
                "on all GPUs"
                if absent == 0
                else "on no GPU"
                if absent == len(support)
                else "on some GPUs only"
            )
            yield f"NVLink SHARP (NVLS, reduction in the switch) is available {where}."
    graphs = run.table("graphs").unique(
        ["algorithm", "n_channels", "bw_intra_gbps", "bw_inter_gbps", "type_intra", "type_inter"],
        maintain_order=True,
    )
    one_node = world is not None and world.single_node
    lines = [_graph(row, one_node) for row in graphs.iter_rows(named=True) if row["n_channels"]]
    if lines:
        yield "What the topology search found, a channel:"
        yield from capped(list(dict.fromkeys(lines)), 12, "results")
    chosen = (
        run.lazy("tuning_choice")
        .group_by("op", "algorithm", "protocol", maintain_order=True)
        .agg(pl.len(), pl.col("size_bytes").min().alias("low"), pl.col("size_bytes").max().alias("high"))
        .sort("op", "low", nulls_last=True)
        .collect()
    )
    picks = []
    for op, algorithm, protocol, count, low, high in chosen.iter_rows():
        span = (
            ""
            if low is None
            else f" for {format_bytes(low)}" + (f" to {format_bytes(high)}" if high != low else "")
        )
        how = f"{safe(algorithm)}/{safe(protocol)}{span}"
        picks.append(f"- {safe(op or 'a collective')}: {how} ({plural(count, 'time')})")
    if picks:
        yield "Chosen for calls:"
        yield from capped(picks, 20, "choices")
    elif not said and not lines:
        yield "The log says nothing about channels and algorithms."
    yield from _by_model(run)
    yield from _memory(run)


def _by_model(run: Run) -> Iterator[str]:
    """What NCCL's own model takes by size, in words, and which settings limit it."""
    world = main_comm(run)
    if world is None or not world.nranks or world.comm_id is None:
        return
    lines = []
    for op in ("AllReduce", "AllGather", "ReduceScatter"):
        spans = choices(run, op, world.nranks, world.comm_id)
        parts = [f"{safe(a)}/{safe(p)} up to {format_bytes(high)}" for _, high, a, p in spans[:-1]]
        if spans:
            parts.append(
                f"{safe(spans[-1][2])}/{safe(spans[-1][3])}" + (" above" if parts else " for all sizes")
            )
            lines.append(f"- {op}: {', '.join(parts)}")
    if lines:
        yield "By NCCL's own cost model the fastest is:"
        yield from lines
        limits = [
            f"{s.name}={safe(s.value, 60)}"
            for s in user_settings(run)
            if s.name in {"NCCL_ALGO", "NCCL_PROTO"}
        ]
        if limits:
            yield f"{', '.join(dict.fromkeys(limits))} takes other choices away."


def _memory(run: Run) -> Iterator[str]:
    """GPU memory of NCCL, where the log shows allocations."""
    memory = device_memory(run)
    if memory:
        most = memory[0]
        who = "a process" if most.rank is None else f"rank {most.rank}"
        yield f"NCCL's GPU memory is highest on {who}: {safe(most.words(), 300)}."


def _graph(row: dict[str, Any], one_node: bool) -> str:
    text = f"- {safe(row['algorithm'])}: {row['n_channels']} channels"
    if row["bw_intra_gbps"] is not None:
        text += f", {row['bw_intra_gbps']:g} GB/s inside a node ({safe(row['type_intra'])})"
    if row["bw_inter_gbps"] and not one_node:
        text += f", {row['bw_inter_gbps']:g} GB/s between nodes ({safe(row['type_inter'])})"
    return text


def settings_in_force(run: Run) -> Section:
    """What the user set first, then what the application set."""
    return section("Settings in force", _settings(run))


def _settings(run: Run) -> Iterator[str]:
    chosen = user_settings(run)
    data = catalogue()
    lines = []
    everywhere = max((s.processes for s in chosen), default=0)
    for setting in sorted(chosen, key=lambda s: (s.name, s.value)):
        variable = data.get(setting.name)
        notes = []
        if variable is not None:
            if variable.default and variable.default not in {"unset", "automatic"}:
                notes.append(f"default {safe(variable.default)}")
            if variable.advice:
                notes.append(safe(variable.advice, 200))
        if setting.processes < everywhere and setting.hosts:
            notes.append(f"on {listed([safe(h) for h in setting.hosts])} only")
        text = f" ({'; '.join(notes)})" if notes else ""
        lines.append(f"- {setting.name}={safe(setting.value, 120)}{text}")
    if lines:
        yield "Set by the user (environment or nccl.conf):"
        yield from capped(lines, 40, "settings")
    else:
        yield "No setting of the user is in the log (NCCL before 2.24 prints them only with NCCL_DEBUG_SUBSYS=ENV)."
    config = settings(run).filter(pl.col("origin") == "config").unique(["name", "value"], maintain_order=True)
    own = [f"- {safe(name)} = {safe(value)}" for name, value in config.select("name", "value").iter_rows()]
    if own:
        yield "Set by the application (ncclConfig_t):"
        yield from capped(own, 12, "fields")


def start_up(run: Run) -> Section:
    """Init times by communicator size, with the phase that took longest."""
    return section("Start-up", _start_up(run))


def _start_up(run: Run) -> Iterator[str]:
    timings = run.table("init_timings").filter(pl.col("total_s").is_not_null())
    if timings.is_empty():
        yield "No init timings in the log (NCCL prints them since 2.22)."
        return
    sizes = run.table("communicators").select("comm_id", "nranks").unique("comm_id")
    table = timings.drop("nranks", strict=False).join(sizes, on="comm_id", how="left", nulls_equal=True)
    grouped = table.group_by("nranks").agg(
        pl.col("comm_id").n_unique().alias("comms"), pl.col("total_s").median().alias("mid"),
        pl.col("total_s").max().alias("most"), *(pl.col(p).median() for p in _PHASES),
    ).sort("nranks", descending=True, nulls_last=True)  # fmt: skip
    lines = []
    for row in grouped.iter_rows(named=True):
        known = {p: row[p] for p in _PHASES if row[p] is not None}
        phase = max(known, key=lambda p: known[p]) if known else None
        longest = f"; longest phase: {phase.removesuffix('_s')} ({known[phase]:.2f} s)" if phase else ""
        of = f" of {plural(row['nranks'], 'rank')}" if row["nranks"] else ""
        times = f"{row['mid']:.2f} s a rank, at most {row['most']:.2f} s"
        lines.append(f"- {plural(row['comms'], 'communicator')}{of}: {times}{longest}")
    yield from capped(lines, 10, "kinds")


def calls(run: Run) -> Section | None:
    """What was called, the most bytes first; None when the log has no calls."""
    if not run.has("calls"):
        return None
    table = (
        run.lazy("calls")
        .group_by("op")
        .agg(pl.len(), pl.col("size_bytes").sum().alias("bytes"), pl.col("size_bytes").min().alias("low"),
             pl.col("size_bytes").max().alias("high"))
        .sort("bytes", "len", descending=True)
        .collect()
    )  # fmt: skip
    lines = [
        f"- {safe(op)}: {plural(count, 'call')} of all ranks together, "
        f"{format_bytes(low or 0)} to {format_bytes(high or 0)}"
        for op, count, _, low, high in table.iter_rows()
    ]
    return section("Calls", capped(lines, 12, "operations"))


def limits(run: Run) -> Section:
    """What this log cannot tell, and which setting would change that."""
    return section("What the log cannot tell", _limits(run))


def _limits(run: Run) -> Iterator[str]:
    world = main_comm(run)
    if world is not None and world.missing:
        yield f"- what ranks {format_ranks(world.missing)} did: their lines are not in the input"
    wanted = []
    if not run.has("calls"):
        wanted.append(("which collectives ran, of what size", "COLL"))
    if not run.has("tuning_choice"):
        wanted.append(("which algorithm each call used", "TUNING"))
    if not run.has("graphs") and not run.has("topology_links"):
        wanted.append(("the topology and what was searched on it", "GRAPH"))
    if pairs(run).is_empty():
        yield "- which transports are used: NCCL prints them with the first collective (subsystems P2P, SHM, NET)"
    for what, subsystem in wanted:
        yield f"- {what}: add {subsystem} to NCCL_DEBUG_SUBSYS (with NCCL_DEBUG=INFO)"
    yield "- how long calls took and whether compute hides them: give profiler traces"
    inputs = run.table("inputs")
    unknown = int(inputs.get_column("unknown_lines").fill_null(0).sum())
    torn = int(inputs.get_column("torn_lines").fill_null(0).sum())
    if unknown:
        yield f"- {plural(unknown, 'NCCL line')} of a wording that is not known here"
    if torn:
        yield f"- {plural(torn, 'torn line')} that several processes wrote over each other"
