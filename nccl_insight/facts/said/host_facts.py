"""What host tools say, with the host that each fact is of."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.grouping import grouped
from nccl_insight.tables.run import Run, fact


@dataclass(frozen=True)
class Fact:
    """One fact: where it stands, whose it is, its name, value and unit."""

    input_id: int
    line: int
    host: str | None
    device: str
    name: str
    value: str
    tool: str

    @property
    def number(self) -> float | None:
        """The value as a number, None where it is none."""
        try:
            return float(self.value)
        except ValueError:
            return None

    @property
    def amount(self) -> float:
        """The number, 0 where the value is none."""
        return self.number or 0.0

    @property
    def home(self) -> tuple[int, str | None]:
        """The input and the host: facts of one machine agree in them."""
        return self.input_id, self.host

    @property
    def at(self) -> str:
        """The device and its host."""
        return f"{self.device} on {self.host}" if self.host and self.device else self.device or self.host or ""


def job_hosts(run: Run) -> tuple[str, ...]:
    """Hosts of the job by its log."""
    names = {str(h) for table in ("ranks", "processes") for h in run.table(table)["host"].drop_nulls().unique()}
    return tuple(sorted(names))


@fact
def facts(run: Run) -> tuple[Fact, ...]:
    """All facts in reading order.

    One without a host is of the host that its file's path names, else of the only host of the job.
    """
    rows = run.table("host_facts")
    if rows.is_empty():
        return ()
    hosts = _host_of_input(run)
    columns = ("input_id", "line", "host", "device", "name", "value", "tool")
    return tuple(
        Fact(int(i), int(n), host or hosts.get(int(i)), device or "", name, value, tool)
        for i, n, host, device, name, value, tool in rows.select(columns).iter_rows()
    )


def _host_of_input(run: Run) -> dict[int, str]:
    hosts = job_hosts(run)
    found: dict[int, str] = {}
    for input_id, path in run.table("inputs").select("input_id", "path").iter_rows():
        named = [h for h in hosts if re.search(rf"(?<![A-Za-z0-9]){re.escape(h)}(?![A-Za-z0-9])", str(path))]
        if len(hosts) == 1 or len(named) == 1:
            found[int(input_id)] = (named or list(hosts))[0]
    return found


def named(run: Run, pattern: str) -> Iterator[Fact]:
    """Facts whose whole name matches."""
    wanted = re.compile(pattern)
    known: dict[str, bool] = {}
    for told in facts(run):
        if known.setdefault(told.name, bool(wanted.fullmatch(told.name))):
            yield told


Lines: TypeAlias = Callable[[int, int], bool]
_CONTAINER: Final = r"\[pod/[^/\]\s]+/([A-Za-z0-9.-]+)\]"  # kubectl logs --prefix


@fact
def sidecars(run: Run) -> Lines:
    """Whether a line of a pod's state is about a container beside that of the ranks: another one of the pod has its
    GPUs, or those that print NCCL's lines, by kubectl's prefix, have another name."""
    held = grouped((f.input_id, (f.line, (f.device, f.value))) for f in named(run, r"pod\.container"))

    def container(input_id: int, line: int) -> tuple[str, str] | None:
        here = held.get(input_id, [])
        above = bisect_right(here, line, key=lambda c: c[0])
        return here[above - 1][1] if above else None

    limits = named(run, r"pod\.limits\.(?:nvidia|amd)\.com\.gpu")
    gpus = {at for f in limits if (at := container(f.input_id, f.line)) is not None}
    headed = run.table("errors").filter(pl.col("pid").is_not_null()) if held else run.table("errors").clear()
    speak = set(headed["launcher"].str.extract(_CONTAINER).drop_nulls())

    def beside(input_id: int, line: int) -> bool:
        at = container(input_id, line)
        other = at is not None and at not in gpus and at[0] in {pod for pod, _ in gpus}
        return other or (at is not None and bool(speak) and at[1] not in speak)

    return beside


def by_device(rows: Iterable[Fact]) -> Mapping[tuple[int, str | None, str], dict[str, Fact]]:
    """The last fact of each name by (input, host, device)."""
    found = grouped(((*told.home, told.device), told) for told in rows)
    return {at: {told.name: told for told in own} for at, own in found.items()}


@dataclass(frozen=True)
class Counter:
    """A counter of a device: its last value, and by how much it grew where it was read twice."""

    last: Fact
    value: int
    grew: int | None


@fact
def counters(run: Run) -> Mapping[tuple[str | None, str], dict[str, Counter]]:
    """Counters by (host, device), by their names."""
    every = (told for told in named(run, r"counter\..*") if told.value.isdecimal())
    rows = grouped(((told.host, told.device, told.name.removeprefix("counter.")), told) for told in every)
    found: dict[tuple[str | None, str], dict[str, Counter]] = {}
    for (host, device, name), read in rows.items():
        first, last = int(read[0].value), int(read[-1].value)
        again = len(read) > 1 and device != "" and last >= first
        found.setdefault((host, device), {})[name] = Counter(read[-1], last, last - first if again else None)
    return found
