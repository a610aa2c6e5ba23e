"""Host names that a torn line spoiled.

Where one writer cut another's line, the rest of the first text stands glued before the host of the second:
``Connected all trgpu1:100:200``. A host that is seen rarely, ends with a frequent host, and shares its pid with
it, is that host. So is one that no other process has, where no name of a host begins like the debris: ``53gpu1``.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import polars as pl

from nccl_insight.base import late
from nccl_insight.base.grouping import grouped
from nccl_insight.readers.nccl_log.log import LogPart

_RARE: Final = 0.05
_OFTEN: Final = 4
_LONGEST: Final = 255
_DEBRIS: Final = late.compiled(r"[0-9]{1,9}|.*[/\\=>].*")


def spoiled(processes: pl.DataFrame) -> pl.DataFrame:
    """Columns ``input_id, _host, _pid, _mended`` of the hosts that are another's with debris in front."""
    printed = ["input_id", "_pid", "_host"]
    known = processes.drop_nulls(printed).group_by(printed, maintain_order=True).agg(pl.sum("_lines"))
    # A name that is alone in its process, and stands in several lines or is the only one of its input, is none of them.
    alone, once = pl.len().over("input_id", "_pid") == 1, pl.sum("_lines").over("input_id", "_host") == 1
    odd = known.filter((~alone | once) & (pl.col("_host").n_unique().over("input_id") > 1))
    by_pid = grouped(((input_id, pid), (host, lines)) for input_id, pid, host, lines in odd.iter_rows())
    totals = defaultdict[int, Counter[str]](Counter)
    for input_id, _, host, lines in known.iter_rows() if by_pid else ():
        totals[input_id][host] += lines
    found: list[tuple[int, str, int, str]] = []
    for (input_id, pid), named in by_pid.items():
        total, hosts = totals[input_id], dict(named)
        for host, lines in named:
            # The longest end of the name that is a host: looked up, as there may be as many hosts as lines.
            ends = _ends(host) if len(hosts) > 1 else ()
            mended = next((e for e in ends if e in hosts and lines <= max(1, _RARE * hosts[e])), "")
            if not mended and total[host] == 1:
                mended = _behind_debris(host, total)
            if mended:
                found.append((input_id, host, pid, mended))
    return pl.DataFrame(
        found, schema={"input_id": pl.UInt16, "_host": pl.String, "_pid": pl.Int64, "_mended": pl.String}, orient="row"
    )


def _ends(host: str) -> Iterator[str]:
    """What a name ends with, the longest first; no name of a host is longer than the 255 bytes of RFC 1035."""
    return (host[at:] for at in range(max(1, len(host) - _LONGEST), len(host)))


def _behind_debris(host: str, total: dict[str, int]) -> str:
    """The frequent host that a name ends with, behind what no name of a host begins with; empty when there is none."""
    end = next((e for e in _ends(host) if total.get(e, 0) >= _OFTEN), "")
    return end if end and _DEBRIS.fullmatch(host[: -len(end)]) else ""


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
        processes=_mend(part.processes, names).unique(["input_id", "_host", "_pid"], keep="first", maintain_order=True),
    )
