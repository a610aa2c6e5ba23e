"""Which rank and host a process number, task number, node name or address means."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from nccl_insight.tables.run import Run


def short(host: str) -> str:
    """A host name without its domain; addresses stay whole."""
    return host if host.replace(".", "").replace(":", "").isdigit() else host.split(".", 1)[0]


_HOST_TAGS: Final = (
    re.compile(
        r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})? (\S+) (?:kernel|systemd|earlyoom)\b"
    ),
    re.compile(r"\bip=([0-9A-Fa-f.:]+)"),
    # UCX and Open MPI: [host:pid  :0:tid] and [host:pid]
    re.compile(r"^\s*\[([A-Za-z][\w.-]*):[0-9]+(?: *:[0-9]+:[0-9]+)?\]"),
    re.compile(r"^[\s(\[]*([A-Za-z0-9][\w.-]*)\]?:(?:\s|$)"),
    # Docker Compose: worker-1  | ...
    re.compile(r"^\s*([A-Za-z0-9][\w.-]*) +\|"),
)


@dataclass(frozen=True)
class Identities:
    """What the log knows of ranks, hosts, processes and addresses; nothing is guessed where it is ambiguous."""

    host_of_rank: dict[int, str] = field(default_factory=dict)
    rank_of_process: dict[tuple[str, int], int] = field(default_factory=dict)
    processes_of_pid: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    ranks_of_host: dict[str, list[int]] = field(default_factory=dict)
    world: int = 0

    def host(self, name: str | None) -> str | None:
        """The host as NCCL calls it: by name, short name or address; the given name when NCCL's lines have none."""
        if not name:
            return None
        return self.names.get(short(name)) or self.addresses.get(name) or name

    def pod(self, name: str | None) -> str | None:
        """The host that a pod or container is: pods of training jobs call their host by their own name.

        ``team.job-worker-1`` and ``pod/job-worker-1`` are ``job-worker-1``.
        """
        if not name:
            return None
        bare = name.rsplit("/", 1)[-1]
        candidates = (bare, bare.rsplit(".", 1)[-1])
        return next((self.names[c] for c in candidates if c in self.names), candidates[-1])

    def host_in_tag(self, tag: str | None) -> str | None:
        """The host that a launcher, syslog or pdsh put in front of a line."""
        for pattern in _HOST_TAGS:
            found = pattern.search(tag or "")
            if found is not None and (pattern not in _HOST_TAGS[-2:] or short(found[1]) in self.names):
                return self.host(found[1])
        return None

    def hosts(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """The hosts of ranks of the job, as far as they are known."""
        return tuple(sorted({self.host_of_rank[r] for r in ranks if r in self.host_of_rank}))

    def process(self, pid: int | None, host: str | None) -> tuple[str, int] | None:
        """Host and rank of a process number, when only one process can be meant."""
        if pid is None or pid <= 1:
            return None
        found = self.processes_of_pid.get(pid, [])
        if host is not None:
            found = [p for p in found if p[0] == host]
        return found[0] if len(found) == 1 else None

    def rank(self, number: int | None, host: str | None) -> tuple[str | None, int] | None:
        """Host and rank of a task or process number of a launcher; None when that rank is on another host."""
        if number is None or number < 0:
            return None
        known = self.host_of_rank.get(number)
        if known is None:
            return None if self.world and number >= self.world else (host, number)
        return (known, number) if host is None or host == known else None


def identities(run: Run) -> Identities:
    """The identities of a run, by its largest communicator."""
    return run.memo("facts.identities", _build)


def _build(run: Run) -> Identities:
    ranks = run.table("ranks").filter(pl.col("rank").is_not_null())
    world = ranks
    if ranks.height:
        size = ranks["nranks"].max()
        # Of several attempts the last one counts.
        world = ranks.filter(pl.col("nranks") == size) if size is not None else ranks
        last = world.sort("input_id", "line")["comm_id"].drop_nulls()
        if last.len():
            same = world.filter(pl.col("comm_id") == last[-1])
            world = same if same.height * 2 >= world.height else world
    host_of_rank: dict[int, str] = {}
    rank_of_process: dict[tuple[str, int], int] = {}
    by_pid: dict[int, list[tuple[str, int]]] = {}
    on_host: dict[str, list[int]] = {}
    shared: set[tuple[str, int]] = set()
    for rank, host, pid in world.select("rank", "host", "pid").unique(maintain_order=True).iter_rows():
        if host is None:
            continue
        host_of_rank[rank] = host
        on_host.setdefault(host, []).append(rank)
        if pid is None:
            continue
        if (host, pid) in rank_of_process and rank_of_process[host, pid] != rank:
            shared.add((host, pid))
        rank_of_process[host, pid] = rank
    for (host, pid), rank in rank_of_process.items():
        if (host, pid) not in shared:
            by_pid.setdefault(pid, []).append((host, rank))
    names = {short(h): h for h in run.table("processes")["host"].drop_nulls().unique().sort()}
    addresses: dict[str, str] = {}
    for table in ("interfaces", "net_devices"):
        frame = run.table(table)
        rows = frame.select(
            "host", pl.col("address").cast(pl.String).str.replace(r"<[0-9]+>$", "")
        ).drop_nulls()
        addresses.update({a: h for h, a in rows.unique(maintain_order=True).iter_rows()})
    size_value = world["nranks"].max() if world.height else 0
    return Identities(
        host_of_rank,
        {k: v for k, v in rank_of_process.items() if k not in shared},
        by_pid,
        names,
        addresses,
        on_host,
        size_value if isinstance(size_value, int) else 0,
    )


def rank_in_job(run: Run, comm: object, rank: int) -> int | None:
    """The rank of the job that a rank of a communicator is; None where the log does not say."""
    process = run.memo("facts.identity.members", _members).get((_plain(comm), rank))
    return identities(run).rank_of_process.get(process) if process is not None else None


def _members(run: Run) -> dict[tuple[str, int], tuple[str, int]]:
    """Host and process of each rank of each communicator, by its id without leading zeros."""
    rows = (
        run.table("ranks").select("comm_id", "rank", "host", "pid").drop_nulls().unique(maintain_order=True)
    )
    return {(_plain(c), int(r)): (h, int(p)) for c, r, h, p in rows.iter_rows()}


def _plain(comm: object) -> str:
    return str(comm or "").lower().removeprefix("0x").lstrip("0")
