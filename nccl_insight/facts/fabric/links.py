"""Ports of NICs that went down and came back, and errors that other lines report on the same device near in time."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.natures import names
from nccl_insight.facts.said.errors import causes
from nccl_insight.facts.said.topics import told
from nccl_insight.language.load import playing
from nccl_insight.loading.assemble.places import Places, places, without_port
from nccl_insight.tables.run import Run, fact

REACH_S: Final = 60.0
"""Retries of a queue pair last about half a minute by default; an error later than this has another reason."""


@dataclass(frozen=True)
class Flap:
    """A port that went down: how often, when, and whether the log says that it came back.

    ``went_on``: the input goes on after the last event.
    """

    host: str | None
    device: str | None
    count: int
    back: bool
    down_s: float | None
    first_s: float | None
    last_s: float | None
    ranks: tuple[int, ...]
    lines: tuple[tuple[int, int], ...]
    went_on: bool = True

    @property
    def key(self) -> str:
        """``host/device``."""
        return f"{self.host or '?'}/{self.device or '?'}"


@fact
def flaps(run: Run) -> tuple[Flap, ...]:
    """Every device whose port went down, in reading order of the first event."""
    rows = causes(run)
    rows = rows.with_columns(device="hca_name", event=told(rows, "port-event")).drop_nulls("event")
    rows = rows.with_columns(down=pl.col("event") == "down", up=pl.col("event") == "up")
    sizes = {int(i): int(n or 0) for i, n in run.table("inputs").select("input_id", "lines").iter_rows()}
    parts = rows.group_by("host", "device", maintain_order=True)
    found = (_flap(host, device, part, sizes) for (host, device), part in parts if part["down"].any())
    return tuple(f for f in found if f.device is not None or not _unclear(run, f))


def _flap(host: Any, device: Any, rows: pl.DataFrame, sizes: Mapping[int, int]) -> Flap:
    """What the lines about one device tell; ``sizes``: the lines of inputs."""
    # All processes of a host that use the device report the same event: the first of each is the event.
    downs = rows.filter(pl.col("down") & pl.col("pid").eq_missing(rows["pid"][0]))
    order = rows if rows["time_s"].null_count() else rows.sort("time_s", "line")
    last = order.filter(pl.col("down") | pl.col("up"))["up"]
    first = rows.filter("down")["time_s"].drop_nulls().min()
    first_s = first if isinstance(first, float) else None
    back = [t for t in rows.filter("up")["time_s"].drop_nulls() if first_s is not None and t >= first_s]
    lines = tuple((int(i), int(n)) for i, n in rows.select("input_id", "line").drop_nulls().iter_rows())
    return Flap(
        host=host,
        device=device,
        count=max(1, downs.height),
        back=bool(last[-1]),
        down_s=min(back) - first_s if back and first_s is not None else None,
        first_s=first_s,
        last_s=max([*back, first_s]) if first_s is not None else None,
        ranks=tuple(sorted(rows["rank"].drop_nulls().unique())),
        lines=lines,
        went_on=all(sizes.get(i, n + 1) > n for i, n in lines[-1:]),
    )


def _unclear(run: Run, flap: Flap) -> bool:
    """Whether a kernel tells of a network device that the job need not use, and no error of the job is near in time."""
    kernel = _kernel_lines(run)
    if not all(line in kernel for line in flap.lines):
        return False
    # Kernel logs reach back to the start of the machine.
    timed = _failures(run).times
    return flap.first_s is None or not timed or not failed_after(run, flap)


@fact
def _kernel_lines(run: Run) -> frozenset[tuple[int, int]]:
    rows = causes(run).filter(pl.col("message").is_in(playing("netdev"))).select("input_id", "line").drop_nulls()
    return frozenset((int(i), int(n)) for i, n in rows.iter_rows())


def devices_of(run: Run, rows: pl.DataFrame) -> tuple[str, ...]:
    """``host/device`` of both ends of failure lines: the reporter's, and the peer's NIC of the same name.

    Rails connect NICs of the same name, so an error on one end may come from the link of the other.
    """
    known = places(run)
    frame = rows.select("host", "hca_name", without_port("peer")).unique(maintain_order=True)
    return tuple(sorted({key for row in frame.iter_rows() for key in _ends(known, *row)}))


def _ends(known: Places, host: str | None, device: str | None, peer: str | None) -> Iterator[str]:
    if device is None:
        return
    yield f"{host or '?'}/{device}"
    other = known.addresses.get(peer) or known.names.get(peer.split(".", 1)[0]) if peer else None
    if other is not None:
        yield f"{other}/{device}"


_ANY: Final = ""
_ANY_DEVICE: Final = "*"


@dataclass(frozen=True)
class _Failures:
    """When a device failed: sorted times by ``host/device``, by ``*`` for all devices and by an empty name for all
    failures; and which of these have failures without a time."""

    times: dict[str, list[float]]
    undated: set[str]

    def within(self, name: str, first_s: float | None, last_s: float | None) -> bool:
        """Whether one lies, or may lie, between the times; without times, whether there is one."""
        if name in self.undated:
            return True
        known = self.times.get(name, [])
        if first_s is None or last_s is None:
            return bool(known)
        at = bisect_left(known, first_s)
        return at < len(known) and known[at] <= last_s


@fact
def _failures(run: Run) -> _Failures:
    known = places(run)
    found = _Failures({}, set())
    rows = causes(run).filter(pl.col("cause").is_in(names("completion", "unanswered"))).sort("time_s")
    for time_s, *place in rows.select("time_s", "host", "hca_name", without_port("peer")).iter_rows():
        ends = list(_ends(known, *place))
        for name in (_ANY, *([_ANY_DEVICE] if ends else []), *ends):
            if time_s is None:
                found.undated.add(name)
            else:
                found.times.setdefault(name, []).append(time_s)
    return found


def failed_after(run: Run, flap: Flap) -> bool:
    """Whether errors on the same device follow within the retry time."""
    failures = _failures(run)
    first, last = flap.first_s, flap.last_s
    near = (first - 5, last + REACH_S) if first is not None and last is not None else (None, None)
    if not failures.within(_ANY, *near):
        return False
    return flap.device is None or not failures.within(_ANY_DEVICE, *near) or failures.within(flap.key, *near)
