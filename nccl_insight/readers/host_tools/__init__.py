"""Output of the tools that one asks for beside a log, wherever it stands: alone in a file, with others, within a log.

``scan`` cuts a text into outputs and reads each into rows of ``host_tools``, ``host_facts``, ``stacks``,
``peer_bandwidth`` and ``env``. A new tool is a block in ``tools.txt``
and a reader in one of the modules here, which are imported when there is an output for them.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

import polars as pl

from nccl_insight.readers.host_tools.cut import ANSI, Cutter
from nccl_insight.readers.host_tools.model import Found, Lines, described
from nccl_insight.tables.declared import frame
from nccl_insight.tables.notes import LOG_CUT
from nccl_insight.tables.schema import of_input, of_rows

TOOLS: Final = described()
SIGNS: Final = tuple(sorted({sign for tool in TOOLS for sign in tool.signs}))
"""Each line with which an output begins holds one of these."""


_FEW: Final = 64


@cache
def _cutter() -> Cutter:
    return Cutter(TOOLS)


def output_lines(lines: pl.Series, others: pl.DataFrame, starts: Sequence[int]) -> pl.DataFrame:
    """Of the lines of a chunk those that :func:`scan` needs (``_line, _text``): outputs, and what names their host.

    ``others``: the lines (``_line``, counted from 1, and ``_text``) that may begin an output. ``starts``: the first
    line of each input in the chunk.
    """
    text = pl.col("_text")
    likely = others.filter(text.str.contains_any(list(SIGNS)))
    if 0 < likely.height <= _FEW:  # one by one: only the patterns of tools whose signs are there are compiled
        bare = likely.select(text.str.replace_all(ANSI, "")).to_series()
        likely = likely.filter(pl.Series([_cutter().begin(t, None) is not None for t in bare], dtype=pl.Boolean))
    elif likely.height:
        likely = likely.filter(text.str.replace_all(ANSI, "").str.contains(_cutter().start))
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
        if output.tool.also:
            kept = found.also.setdefault(output.tool.also, [])
            kept += [(line, text, output.host) for line, text in output.lines]
        rows = len(found.facts) + len(found.stacks) + len(found.copies) - before
        tool = output.tool
        said = {"line": output.line, "last_line": output.lines[-1][0], "host": output.host, "tool": tool.name}
        found.outputs.append({**said, "what": tool.what, "says": says[:400], "facts": rows, "unread": found.unread})
        found.unread = 0
    return found


def scan(lines: pl.DataFrame, path: str = "") -> dict[str, pl.DataFrame]:
    """Tables (without ``input_id``) of what ``lines`` (``line``, ``text``) hold; empty ones are left out."""
    found = read(list(lines.select("line", "text").iter_rows()), path)
    tables = {
        "host_tools": of_rows(found.outputs, OUTPUTS),
        "host_facts": of_rows(found.facts, FACTS),
        "stacks": of_rows(found.stacks, STACKS),
        "peer_bandwidth": of_rows(found.copies, COPIES),
        "env": of_rows(found.env, ENV).with_columns(origin=pl.lit("environment")),
    }
    tables |= _other_tables(found)
    if found.lost:
        kept = len(found.facts) + len(found.stacks)
        detail = f"{found.lost:,} rows of host tools beyond the first {kept:,} were left out"
        tables["notes"] = pl.DataFrame({"line": [None], "kind": [LOG_CUT], "detail": [detail]})
    return {name: frame for name, frame in tables.items() if frame.height}


def _other_tables(found: Found) -> dict[str, pl.DataFrame]:
    """Tables that outputs fill beside facts: topology and NVLinks of nvidia-smi, reports of NCCL's RAS."""
    types = {"line": pl.UInt64, "text": pl.String, "host": pl.String}
    kept = {name: pl.DataFrame(rows, schema=types, orient="row") for name, rows in found.also.items()}
    tables: dict[str, pl.DataFrame] = {}
    if kept:
        from nccl_insight.readers.embedded import ras_text, smi_text
    if "topology" in kept:
        lines = kept["topology"]
        tables["topology_nodes"], tables["topology_links"] = smi_text.scan_topology(lines)
        tables["nvlinks"] = smi_text.scan_nvlinks(lines)
        hosts = lines.select("line", "host")
        for name in ("topology_nodes", "topology_links"):
            tables[name] = tables[name].join(hosts, on="line", how="left", maintain_order="left")
    if "ras" in kept:
        tables["ras"] = ras_text.scan_lines(kept["ras"])
    return tables


def silent_lines(outputs: pl.DataFrame) -> pl.DataFrame:
    """Numbers (``line``) of the lines of outputs that show a state: such a line does not tell how a job ended."""
    spans = outputs.filter(~pl.col("tool").is_in(list(_TELLING))).select("line", "last_line").iter_rows()
    numbers = [number for first, last in spans for number in range(first, last + 1)]
    return pl.DataFrame({"line": numbers}, schema={"line": pl.UInt64})


def kind_of(tables: Mapping[str, pl.DataFrame]) -> str:
    """The kind of an input that holds outputs and nothing else (``inputs.kind``)."""
    tools = set(tables["host_tools"]["tool"].to_list())
    if tools == {"nvidia-smi -L"} and "nvlinks" in tables:
        return "smi_nvlink"
    return _KINDS.get(next(iter(tools)), "host_tool") if len(tools) == 1 else "host_tool"


#: Values of ``inputs.kind`` of inputs whose lines are read as those of a log are.
KINDS: Final = ("host_tool", "smi_topo", "smi_nvlink")
_KINDS: Final = {"nvidia-smi topo -m": "smi_topo", "ncclras": "ras"}
_TELLING: Final = frozenset(tool.name for tool in TOOLS if tool.reader.startswith(("stacks.", "daemons.")))
OUTPUTS: Final = of_input("host_tools")
FACTS: Final = of_input("host_facts")
ENV: Final = {"line": pl.UInt64, "host": pl.String, "name": pl.String, "value": pl.String}
STACKS: Final = of_input("stacks")
COPIES: Final = frame("line u64, host str, src i32, dst i32, peer_access bool, gbps f64, test str")
