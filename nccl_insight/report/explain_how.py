"""Explains the choices: algorithms, settings, start-up times, calls, and what the log cannot tell."""

from collections.abc import Iterator, Sequence

from nccl_insight.advise.settings.catalog import catalog
from nccl_insight.base.units import format_bytes, format_ranks, listed, plural
from nccl_insight.report.prose import capped, safe
from nccl_insight.views.log.choices import Algorithms, Calls, Graph, Limits, Settings, StartUp


def algorithms(view: Algorithms) -> Iterator[str]:
    """Channels, searched graphs, and the algorithms chosen for calls."""
    for kind in view.channels:
        extra = f", {kind.nvls} for NVLS" if kind.nvls else ""
        who = f" (ranks {format_ranks(kind.ranks)})" if len(view.channels) > 1 else ""
        sends = f"{kind.p2p} for sends, {kind.per_peer} per peer"
        yield f"{kind.collectives} channels for collectives{extra}; {sends}{who}."
    if view.milestones:
        yield f"Connected: {', '.join(sorted(safe(m).replace('_', ' ') for m in view.milestones))}."
    if view.nvls:
        able, asked = view.nvls
        where = "on all GPUs" if able == asked else "on some GPUs only" if able else "on no GPU"
        yield f"NVLink SHARP (NVLS, reduction in the switch) is available {where}."
    lines = [_graph(graph, view.one_node) for graph in view.graphs]
    if lines:
        yield "What the topology search found, per channel:"
        yield from capped(list(dict.fromkeys(lines)), 12, "results")
    picks = []
    for pick in view.chosen:
        span = ""
        if pick.low_bytes is not None and pick.high_bytes is not None:
            span = f" for {format_bytes(pick.low_bytes)}"
            span += f" to {format_bytes(pick.high_bytes)}" if pick.high_bytes != pick.low_bytes else ""
        how = f"{safe(pick.algorithm)}/{safe(pick.protocol)}{span}"
        picks.append(f"- {safe(pick.op or 'a collective')}: {how} ({plural(pick.count, 'time')})")
    if picks:
        yield "Chosen for calls:"
        yield from capped(picks, 20, "choices")
    elif not view.channels and not lines:
        yield "The log says nothing about channels and algorithms."
    yield from _by_model(view)
    if view.memory:
        who = "a process" if view.memory.rank is None else f"rank {view.memory.rank}"
        yield f"NCCL's GPU memory is highest on {who}: {safe(view.memory.words(), 300)}."


def _by_model(view: Algorithms) -> Iterator[str]:
    """What NCCL's own model takes by size, in words, and which settings limit it."""
    if not view.modeled:
        return
    yield "By NCCL's own cost model the fastest is:"
    for op, spans in view.modeled:
        parts = [f"{safe(a)}/{safe(p)} up to {format_bytes(high)}" for high, a, p in spans[:-1]]
        _, algorithm, protocol = spans[-1]
        parts.append(f"{safe(algorithm)}/{safe(protocol)}" + (" above" if parts else " for all sizes"))
        yield f"- {op}: {', '.join(parts)}"
    if view.limits:
        limits = dict.fromkeys(f"{name}={safe(value, 60)}" for name, value in view.limits)
        yield f"{', '.join(limits)} takes other choices away."


def _graph(graph: Graph, one_node: bool) -> str:
    text = f"- {safe(graph.algorithm)}: {graph.n_channels} channels"
    if graph.bw_intra_gbps is not None:
        text += f", {graph.bw_intra_gbps:g} GB/s inside a node ({safe(graph.type_intra)})"
    if graph.bw_inter_gbps and not one_node:
        text += f", {graph.bw_inter_gbps:g} GB/s between nodes ({safe(graph.type_inter)})"
    return text


def settings_in_force(view: Settings) -> Iterator[str]:
    """What the user set first, then what the application set."""
    data = catalog()
    lines = []
    for setting in sorted(view.user, key=lambda s: (s.name, s.value)):
        variable = data.get(setting.name)
        notes = []
        if variable is not None:
            if variable.default and variable.default not in {"unset", "automatic"}:
                notes.append(f"default {safe(variable.default)}")
            if variable.advice:
                notes.append(safe(variable.advice, 400))
        if setting.processes < view.processes and setting.hosts:
            notes.append(f"on {listed([safe(h) for h in setting.hosts])} only")
        text = f" ({'; '.join(notes)})" if notes else ""
        lines.append(f"- {setting.name}={safe(setting.value, 120)}{text}")
    if lines:
        yield "Set by the user (environment or nccl.conf):"
        yield from capped(lines, 40, "settings")
    else:
        yield "No setting of the user is in the log (NCCL before 2.24 prints them only with NCCL_DEBUG_SUBSYS=ENV)."
    own = [f"- {safe(name)} = {safe(value)}" for name, value in view.config]
    if own:
        yield "Set by the application (ncclConfig_t):"
        yield from capped(own, 12, "fields")


def start_up(view: Sequence[StartUp]) -> Iterator[str]:
    """Init times by communicator size, with the phase that took longest."""
    if not view:
        yield "No init timings in the log (NCCL prints them since 2.22)."
    lines = []
    for kind in view:
        phase = max(kind.phases, key=lambda p: kind.phases[p], default=None)
        longest = ""
        if phase is not None:
            longest = f"; longest phase: {phase.removesuffix('_s')} ({kind.phases[phase]:.2f} s)"
        of = f" of {plural(kind.nranks, 'rank')}" if kind.nranks else ""
        times = f"{kind.median_s:.2f} s per rank, at most {kind.longest_s:.2f} s"
        lines.append(f"- {plural(kind.communicators, 'communicator')}{of}: {times}{longest}")
    yield from capped(lines, 10, "kinds")


def calls(view: Sequence[Calls]) -> Iterator[str]:
    """What was called, the most bytes first."""
    lines = [
        f"- {safe(c.op)}: {plural(c.calls, 'call')} of all ranks together, "
        f"{format_bytes(c.low_bytes)} to {format_bytes(c.high_bytes)}"
        for c in view
    ]
    return capped(lines, 12, "operations")


def limits(view: Limits) -> Iterator[str]:
    """What this log cannot tell, and which setting would change that."""
    if view.missing:
        yield f"- what ranks {format_ranks(view.missing)} did: their lines are not in the input"
    if not view.transports:
        yield "- which transports are used: NCCL prints them with the first collective (subsystems P2P, SHM, NET)"
    for known, what, subsystem in (
        (view.calls, "which collectives ran, of what size", "COLL"),
        (view.choices, "which algorithm each call used", "TUNING"),
        (view.topology, "the topology and what was searched on it", "GRAPH"),
    ):
        if not known:
            yield f"- {what}: add {subsystem} to NCCL_DEBUG_SUBSYS (with NCCL_DEBUG=INFO)"
    yield "- how long calls took and whether compute hides them: give profiler traces"
    if view.unknown_lines:
        yield f"- {plural(view.unknown_lines, 'NCCL line')} of a wording that is not known here"
    if view.torn_lines:
        yield f"- {plural(view.torn_lines, 'torn line')} that several processes wrote over each other"
