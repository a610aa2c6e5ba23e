"""Host names that a torn line spoiled.

Where one writer cut another's line, the rest of the first text stands glued before the host of the second:
``Connected all trgpu1:100:200``. A host that is seen rarely, ends with a frequent host, and shares its pid with
it, is that host.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import polars as pl

from nccl_insight.readers.nccl_log.log import LogPart

_RARE: Final = 0.05


def spoiled(processes: pl.DataFrame) -> pl.DataFrame:
    """Columns ``input_id, _host, _pid, _mended`` of the hosts that are another's with debris in front."""
    by_pid: dict[tuple[int, int], dict[str, int]] = {}
    known = processes.filter(pl.col("_host").is_not_null() & pl.col("_pid").is_not_null())
    for input_id, host, pid, lines in known.select("input_id", "_host", "_pid", "_lines").iter_rows():
        hosts = by_pid.setdefault((input_id, pid), {})
        hosts[host] = hosts.get(host, 0) + lines
    found: list[tuple[int, str, int, str]] = []
    for (input_id, pid), hosts in by_pid.items():
        if len(hosts) == 1:
            continue
        for host, lines in hosts.items():
            # The longest end of the name that is a host: looked up, as there may be as many hosts as lines.
            ends = (host[at:] for at in range(1, len(host)))
            mended = next((e for e in ends if e in hosts and lines <= max(1, _RARE * hosts[e])), None)
            if mended is not None:
                found.append((input_id, host, pid, mended))
    return pl.DataFrame(
        found,
        schema={"input_id": pl.UInt16, "_host": pl.String, "_pid": pl.Int64, "_mended": pl.String},
        orient="row",
    )


def _mend(frame: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    if "_host" not in frame.columns:
        return frame
    joined = frame.join(names, on=["input_id", "_host", "_pid"], how="left", maintain_order="left")
    return joined.with_columns(_host=pl.coalesce("_mended", "_host")).drop("_mended")


def mend_hosts(part: LogPart) -> LogPart:
    """The part with spoiled host names put right everywhere."""
    if not part.processes.height:
        return part
    names = spoiled(part.processes)
    if not names.height:
        return part
    return replace(
        part,
        chunks=[{name: _mend(rows, names) for name, rows in chunk.items()} for chunk in part.chunks],
        loud=_mend(part.loud, names),
        heads=_mend(part.heads, names),
        processes=_mend(part.processes, names).unique(
            ["input_id", "_host", "_pid"], keep="first", maintain_order=True
        ),
    )
