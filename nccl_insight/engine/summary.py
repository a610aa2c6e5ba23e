"""Job, coverage and inputs of an analysis, from the tables."""

import re
from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from nccl_insight.base import toml
from nccl_insight.base.grouping import grouped
from nccl_insight.base.model import Coverage, InputInfo, Job, ToolOutput
from nccl_insight.facts.said.ends import ends
from nccl_insight.tables.run import Run

_TEMPLATES = 20
_TOOLS = 6
_OUTPUTS = 100
_FACTS = 40
_OWN = ("inputs", "unknown", "notes", "endings", "progress", "unreadable", "milestones", "trace_info", "trace_clocks")
_KINDS: Final[Mapping[str, str]] = toml.beside(__file__)["kinds"]


def _natural(text: str) -> list[tuple[int, int, str]]:
    return [(0, int(p), "") if p.isascii() and p.isdigit() else (1, 0, p) for p in re.split("([0-9]+)", text)]


def _values(*columns: pl.Series) -> tuple[str, ...]:
    found = {str(v) for column in columns for v in set(column.to_list()) if v is not None}
    return tuple(sorted(sorted(found), key=_natural))


def _largest(*values: Any) -> int | None:
    return max((int(v) for v in values if v is not None), default=None)


def job_of(run: Run) -> Job:
    """What the run looks like.

    ``nranks`` and ``n_nodes`` are those of the largest communicator; where communicators stand side by side and none
    has all ranks (groups without a world, replicas), the GPUs and hosts that they have together.
    """
    processes, ranks, comms = run.table("processes"), run.table("ranks"), run.table("communicators")
    collectives, benchmarks = run.table("collectives"), run.table("benchmarks")
    hosts = _values(ranks["host"], processes["host"])
    nranks = _largest(comms["nranks"].max(), ranks["nranks"].max())
    if nranks is None:
        top = _largest(collectives["rank"].max())
        beyond = None if top is None else top + 1
        stated = run.table("trace_info")["world_size"].max()
        nranks = _largest(collectives["group_size"].max(), beyond, benchmarks["nranks"].max(), stated)
    n_nodes = _largest(comms["n_nodes"].max(), ranks["n_nodes"].max())
    gpus = ranks.select("host", "pid", pl.coalesce("bus_id", pl.col("nvml_dev").cast(pl.String))).drop_nulls()
    by_bus = gpus.select("host", "bus_id").unique().height
    together = ranks.select("host", "bus_id").drop_nulls().unique()
    if nranks is not None and together.height > nranks:
        nranks, n_nodes = together.height, together["host"].n_unique()
    seen = None
    if nranks is not None and n_nodes is None and hosts:
        own = ranks.filter(pl.col("nranks") == nranks).group_by("comm_id").agg(pl.col("rank").n_unique())
        seen = _largest(own["rank"].max())
    return Job(
        ranks_seen=seen if seen and nranks and seen < nranks else None,
        nccl_versions=_values(processes["nccl_version"]),
        nranks=nranks,
        n_nodes=n_nodes if n_nodes is not None else (len(hosts) or None),
        hosts=hosts,
        gpus=by_bus or None,
        networks=_values(processes["network"]),
        communicators=comms.height,
        cuda_versions=_values(processes["cuda_version"]),
        driver_versions=_values(processes["driver_version"].cast(pl.String)),
    )


def coverage_of(run: Run) -> Coverage:
    """Physical lines by fate, and the most frequent templates that no rule knew."""
    inputs = run.table("inputs")

    def total(column: str) -> int:
        return int(inputs[column].sum() or 0)

    unknown = (
        run.table("unknown")
        .group_by("template")
        .agg(pl.col("count").sum())
        .drop_nulls()
        .sort(["count", "template"], descending=[True, False])
        .head(_TEMPLATES)
    )
    return Coverage(
        lines=total("lines"),
        nccl_lines=total("nccl_lines"),
        parsed=total("parsed_lines"),
        unknown=total("unknown_lines"),
        foreign=total("foreign_lines"),
        torn=total("torn_lines"),
        unknown_templates=tuple((str(t), int(c)) for t, c in unknown.iter_rows()),
    )


def inputs_of(run: Run) -> tuple[InputInfo, ...]:
    """The inputs in reading order."""
    unread = {int(row["input_id"]): row for row in run.table("unreadable").iter_rows(named=True)}
    frame = run.table("inputs").sort("input_id")
    tools = _tools(run)
    found: list[InputInfo] = []
    for row in frame.iter_rows(named=True):
        kind = str(row["kind"] or "unknown")
        known = unread.get(int(row["input_id"]))
        if known is not None:
            taken = f"{known['what']}; {known['why']}"
        elif row["size_bytes"] == 0:
            taken = "empty file"
        else:
            taken = _KINDS.get(kind, "text without a line of NCCL" if row["lines"] else kind.replace("_", " "))
            if row["form"]:
                taken = f"{taken}: {row['form']}"
            named = tools.get(int(row["input_id"]), "")
            if named:
                taken = named if kind in ("host_tool", "smi_topo") else f"{taken}, with {named}"
        command = str(known["command"] or "") if known else ""
        size, lines, nccl = (int(row[name] or 0) for name in ("size_bytes", "lines", "nccl_lines"))
        found.append(InputInfo(str(row["path"]), kind, size, str(row["sha256"] or ""), lines, taken, command, nccl))
    return tuple(found)


def _tools(run: Run) -> dict[int, str]:
    """What outputs of host tools an input holds, in words."""
    rows = run.table("host_tools").select("input_id", "what").unique(maintain_order=True)
    found = grouped((int(i), str(what)) for i, what in rows.iter_rows())
    return {
        n: "; ".join(w[:_TOOLS]) + (f" and {len(w) - _TOOLS} more" if len(w) > _TOOLS else "") for n, w in found.items()
    }


def outputs_of(run: Run) -> tuple[ToolOutput, ...]:
    """What each output of a host tool says, in reading order; of very many the first."""
    paths = {int(i): str(p) for i, p in run.table("inputs").select("input_id", "path").drop_nulls().iter_rows()}
    rows = run.table("host_tools").sort("input_id", "line", maintain_order=True).head(_OUTPUTS)
    facts = run.table("host_facts")
    found: list[ToolOutput] = []
    for row in rows.iter_rows(named=True):
        mine = facts.filter(
            (pl.col("input_id") == row["input_id"])
            & pl.col("line").is_between(row["line"], row["last_line"])
            & (pl.col("tool") == row["tool"])
        )
        first = mine.select(pl.col("device", "name", "value", "unit").fill_null("")).head(_FACTS).rows() or _frames(
            run, row
        )
        about = row["host"], row["tool"], row["what"], row["says"] or ""
        found.append(ToolOutput(paths.get(int(row["input_id"]), ""), int(row["line"]), *about, tuple(first)))
    return tuple(found)


def _frames(run: Run, row: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """The first frames of an output that is stacks, as facts of their threads."""
    frames = run.table("stacks").filter(
        (pl.col("input_id") == row["input_id"]) & pl.col("line").is_between(row["line"], row["last_line"])
    )
    place = pl.concat_str(pl.coalesce("file", "library"), pl.col("line_number"), separator=":", ignore_nulls=True)
    shown = frames.head(_FACTS).select("pid", "thread", "depth", "function", place=place)
    return [
        (
            f"pid {pid} {thread}" if pid is not None else str(thread),
            f"frame {depth}",
            f"{function} ({at})" if at else str(function),
            "",
        )
        for pid, thread, depth, function, at in shown.iter_rows()
    ]


def has_matter(run: Run) -> bool:
    """Whether a verdict can rest on what was read: a line of NCCL or a failure, a trace, a last word, a loss of NaN."""
    read = coverage_of(run).nccl_lines or any(run.has(name) for name in run.tables if name not in _OWN)
    return bool(read or ends(run) or run.table("progress")["not_a_number"].any())
