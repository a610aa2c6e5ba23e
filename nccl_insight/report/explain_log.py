"""A log in plain words: who takes part, who talks to whom over what, which choices NCCL made and why."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from nccl_insight.advise.settings.catalog import catalog
from nccl_insight.base.grouping import grouped
from nccl_insight.base.units import plural
from nccl_insight.report.fill import environment, marked
from nccl_insight.report.sanitize import one_line, sanitize
from nccl_insight.views.log import Log
from nccl_insight.views.log.job import CommKind
from nccl_insight.views.log.paths import Nic

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_P2P = frozenset({"Send", "Recv", "SendRecv"})


def render(log: Log, width: int | None = None) -> str:
    """All sections as text, ending with a newline. ``width`` wraps; None leaves lines as they are."""
    return "\n\n".join(_text(title, lines, width) for title, lines in sections(log).items()) + "\n"


def sections(log: Log) -> dict[str, list[str]]:
    """The lines of the explanation by heading, headings without lines left out."""
    orders = grouped(((ring.order, ring.whole), ring.channel) for ring in log.rings.rings) if log.rings else {}
    filled = _environment().get_template("explain.txt").render(log=log, orders=orders, catalog=catalog(), guess=_guess)
    parts: dict[str, list[str]] = {}
    for line in filter(str.strip, filled.split("\n")):
        if line.startswith("== "):
            lines = parts.setdefault(line[3:], [])
        else:
            lines.append(line)
    return {title: lines for title, lines in parts.items() if lines}


@cache
def _environment() -> Environment:
    filters: dict[str, Callable[..., str]] = {
        "capped": _capped,
        "chain": chain,
        "counted": lambda told: f"{_shown(told[0])} ({plural(told[1], 'process', 'processes')})",
        "distinct": lambda text: marked("\n".join(dict.fromkeys(text.split("\n")))),
        "general": "{:g}".format,
        "nic": _nic,
        "percent": "{:.0%}".format,
        "shown": _shown,
    }
    return environment(sanitize, filters)


def _shown(value: object, limit: int = 80) -> str:
    """Text from a log, on one line and harmless."""
    return one_line(str(value), limit) if value is not None else "?"


def _capped(text: str, limit: int, what: str) -> Markup:
    """The first lines, and how many were left out."""
    lines = list(filter(str.strip, text.split("\n")))
    more = [f"  ... and {len(lines) - limit:,} {what}"] if len(lines) > limit else []
    return marked("\n".join([*lines[:limit], *more]))


def chain(ranks: Sequence[int], limit: int = 24) -> str:
    """``0 > 1 > 2 > ... > 0`` for a ring order."""
    shown = [str(r) for r in ranks[:limit]]
    if len(ranks) > limit:
        shown.append(f"... ({len(ranks)} ranks)")
    return " > ".join([*shown, str(ranks[0])] if ranks else shown)


def _nic(nic: Nic) -> str:
    port = f":{nic.port}" if nic.port is not None else ""
    layer = f"/{nic.link_layer}" if nic.link_layer else ""
    return nic.name + port + layer + (f" {nic.speed_gbit} Gb/s" if nic.speed_gbit else "")


def _guess(kind: CommKind) -> str:
    """What such groups are usually for; said to be a guess, because the log does not know."""
    ops = kind.ops
    if kind.layout.kind == "world":
        return "all ranks of the job (default group; plain data parallelism if there is no other group)"
    if kind.layout.kind == "single":
        return "groups of one rank, which communicate with nobody"
    if ops and ops <= _P2P:
        return "pipeline stages (PP), a guess: only sends and receives"
    if "AllToAll" in ops or "AllToAllv" in ops:
        return "expert parallelism (EP), a guess: all-to-all inside the group"
    if kind.layout.kind == "block" and kind.hosts == 1:
        return "tensor parallelism (TP), a guess: consecutive ranks of one host"
    if kind.layout.kind == "block":
        return "a block of consecutive ranks over several hosts (sharding group or pipeline), a guess"
    if kind.layout.kind == "stride":
        every = f"ranks {kind.layout.step} apart"
        if ops:
            return f"data parallelism (DP), a guess: {every}, collectives only"
        return f"data parallelism (DP) or pipeline stages (PP), a guess: {every}"
    return "unclear: the ranks follow no simple pattern, or not all are in the log"


def _text(title: str, told: Sequence[str], width: int | None) -> str:
    lines = [title, "-" * len(title)]
    for line in told:
        if width is None:
            lines.append(line)
            continue
        indent = len(line) - len(line.lstrip())
        hang = " " * (indent + 2)
        lines += textwrap.wrap(line, max(width, 40), subsequent_indent=hang, break_on_hyphens=False) or [""]
    return "\n".join(lines)
