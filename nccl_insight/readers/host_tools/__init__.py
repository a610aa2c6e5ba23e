"""Output of the tools that one asks for beside a log, wherever it stands: alone in a file, with others, within a log.

``scan`` cuts a text into outputs and reads each into rows of ``host_tools``, ``host_facts``, ``stacks``,
``peer_bandwidth`` and ``env``. A new tool is a :class:`Tool` in one of the modules here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

import polars as pl

from nccl_insight.readers.host_tools import amd, bench, cluster, daemons, dcgm, net, nvidia, pci, rdma, stacks, system
from nccl_insight.readers.host_tools.cut import Cutter
from nccl_insight.readers.host_tools.model import Found, Lines, Tool

TOOLS: Final[tuple[Tool, ...]] = (
    *pci.TOOLS, *nvidia.TOOLS, *dcgm.TOOLS, *amd.TOOLS, *rdma.TOOLS, *net.TOOLS, *bench.TOOLS, *stacks.TOOLS, *cluster.TOOLS,
    *daemons.TOOLS, *system.TOOLS,
)  # fmt: skip
SIGNS: Final = tuple(sorted({sign for tool in TOOLS for sign in tool.signs}))
"""Each line with which an output begins holds one of these."""


@cache
def _cutter() -> Cutter:
    return Cutter(TOOLS)


def output_lines(lines: pl.Series, others: pl.DataFrame, starts: Sequence[int]) -> pl.DataFrame:
    """Of the lines of a chunk those that :func:`scan` needs, ``_line`` and ``_text``: outputs, and what names their host.

    ``others``: the lines (``_line``, counted from 1, and ``_text``) that may begin an output. ``starts``: the first line
    of each input in the chunk.
    """
    text = pl.col("_text")
    likely = others.filter(text.str.contains_any(list(SIGNS)))
    if likely.height:
        likely = likely.filter(text.str.contains(_cutter().start))
    if likely.is_empty():
        return pl.DataFrame(schema={"_line": pl.UInt64, "_text": pl.String})
    hits = likely["_line"].to_list()
    ends = [*(start - 1 for start in starts[1:]), lines.len()]
    found: list[int] = []
    for first, last in zip(starts, ends, strict=True):
        mine = [hit for hit in hits if first <= hit <= last] if len(starts) > 1 else hits
        found += _cutter().numbers(mine, first, last, lambda n: lines[n - 1] or "")
    numbers = pl.Series("_line", found, dtype=pl.UInt64)
    return pl.DataFrame([numbers, lines.gather(numbers - 1).alias("_text")])


def read(lines: Lines, path: str = "") -> Found:
    """The rows of all outputs in the lines; a reader that fails costs its output, which is then listed as not read."""
    found = Found()
    for output in _cutter().outputs(lines, path):
        found.host, found.tool = output.host, output.tool.name
        before = len(found.facts) + len(found.stacks) + len(found.copies)
        try:
            says = output.tool.read(output, found)
        except (ValueError, IndexError, KeyError, AttributeError, TypeError) as error:
            says = f"could not be taken apart ({type(error).__name__})"
        rows = len(found.facts) + len(found.stacks) + len(found.copies) - before
        found.outputs.append(
            {
                "line": output.line, "last_line": output.lines[-1][0], "host": output.host, "tool": output.tool.name,
                "what": output.tool.what, "says": says[:400], "facts": rows, "unread": found.unread,
            }
        )  # fmt: skip
        found.unread = 0
    return found


def scan(lines: pl.DataFrame, path: str = "") -> dict[str, pl.DataFrame]:
    """Tables (without ``input_id``) of what ``lines`` (``line``, ``text``) hold; empty ones are left out."""
    found = read(list(lines.select("line", "text").iter_rows()), path)
    facts = list(zip(*found.facts, strict=True)) if found.facts else [[] for _ in range(7)]
    columns = ("line", "host", "device", "name", "value", "unit", "tool")
    types = (pl.UInt64, *(pl.String for _ in range(6)))
    env = list(zip(*found.env, strict=True)) if found.env else [[] for _ in range(4)]
    tables = {
        "host_tools": pl.DataFrame(found.outputs, schema=OUTPUTS),
        "host_facts": pl.DataFrame([pl.Series(c, v, t) for c, v, t in zip(columns, facts, types, strict=True)]),
        "stacks": pl.DataFrame(found.stacks, schema=STACKS),
        "peer_bandwidth": pl.DataFrame(found.copies, schema=COPIES),
        "env": pl.DataFrame([pl.Series(c, v, pl.UInt64 if c == "line" else pl.String) for c, v in zip(("line", "host", "name", "value"), env, strict=True)]),
    }  # fmt: skip
    if found.lost:
        detail = f"{found.lost:,} rows of host tools beyond the first {len(found.facts) + len(found.stacks):,} were left out"
        tables["notes"] = pl.DataFrame({"line": [None], "kind": ["log-truncated"], "detail": [detail]})
    return {name: frame for name, frame in tables.items() if frame.height}


def silent_lines(outputs: pl.DataFrame) -> pl.DataFrame:
    """Numbers (``line``) of the lines of outputs that show a state: such a line does not tell how a job ended."""
    spans = outputs.filter(~pl.col("tool").is_in(list(_TELLING))).select("line", "last_line").iter_rows()
    numbers = [number for first, last in spans for number in range(first, last + 1)]
    return pl.DataFrame({"line": numbers}, schema={"line": pl.UInt64})


def kind_of(outputs: pl.DataFrame) -> str:
    """The kind of an input that holds these outputs and nothing else (``inputs.kind``)."""
    tools = set(outputs["tool"].to_list())
    return "smi_topo" if tools == {"nvidia-smi topo -m"} else "host_tool"


_TELLING: Final = frozenset(tool.name for tool in (*stacks.TOOLS, *daemons.TOOLS))
OUTPUTS: Final = {
    "line": pl.UInt64, "last_line": pl.UInt64, "host": pl.String, "tool": pl.String, "what": pl.String, "says": pl.String,
    "facts": pl.UInt32, "unread": pl.UInt32,
}  # fmt: skip
STACKS: Final = {
    "line": pl.UInt64, "host": pl.String, "pid": pl.Int64, "rank": pl.Int32, "thread": pl.String, "depth": pl.Int32,
    "function": pl.String, "library": pl.String, "file": pl.String, "line_number": pl.Int64,
}  # fmt: skip
COPIES: Final = {
    "line": pl.UInt64, "host": pl.String, "src": pl.Int32, "dst": pl.Int32, "peer_access": pl.Boolean, "gbps": pl.Float64,
    "test": pl.String,
}  # fmt: skip
