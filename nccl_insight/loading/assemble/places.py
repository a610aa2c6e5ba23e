"""Which rank and host a process number, task number, node name, address or line of a launcher means."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import takewhile
from typing import Any, Final, TypeAlias

import polars as pl

from nccl_insight.advise.settings.interfaces import is_loopback
from nccl_insight.base.data import dataclass, field
from nccl_insight.base.grouping import grouped
from nccl_insight.language.load import parts_of, witnesses
from nccl_insight.language.meanings import Witness
from nccl_insight.readers.embedded.tags import PathPlace, Tag, read_path, read_tag
from nccl_insight.tables.run import Run, Tables, fact


def short(host: str) -> str:
    """A host name without its domain; addresses stay whole."""
    return host if host.replace(".", "").replace(":", "").isdigit() else host.split(".", 1)[0]


def _own_address(name: str) -> str | None:
    """The address that a machine's name is made of: ``ip-10-0-0-12`` is at 10.0.0.12."""
    found = _IP_NAME.fullmatch(short(name))
    return found and found[1][1:].replace("-", ".")


def without_port(column: str) -> pl.Expr:
    """A column of addresses as NCCL prints them, ``10.0.0.1<4001>``, without the port."""
    return pl.col(column).cast(pl.String).str.replace(r"<[0-9]+>$", "")


# Behind glog's stamp torch prints the rank in a process group: [E ProcessGroupNCCL.cpp:828] [Rank 3].
_OF_TORCH: Final = re.compile(r"\[[IWEF][^\]]*\.cpp:[0-9]+\].*|what\(\):.*")
# EC2 names a machine after its private address.
_IP_NAME: Final = re.compile(r"ip((?:-[0-9]{1,3}){4})")
_REPLICA: Final = re.compile(r"-[0-9]{1,4}$")
# What differs in the names of hosts: nid001, nid002; nodea, nodeb.
_COUNTED: Final = re.compile(r"[0-9]+|[a-z]$")
_EVERY: Final = pl.lit(True)


@dataclass(frozen=True)
class Place:
    """Host and rank of a process, as far as they are known; ``local_rank`` where only that is."""

    host: str | None = None
    rank: int | None = None
    local_rank: int | None = None


@dataclass(frozen=True)
class Places:
    """What the log knows of ranks, hosts, processes and addresses; nothing is guessed where it is ambiguous."""

    host_of_rank: dict[int, str] = field(default_factory=dict)
    rank_of_process: dict[tuple[str, int], int] = field(default_factory=dict)
    processes_of_pid: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    ranks_of_host: dict[str, list[int]] = field(default_factory=dict)
    world: int = 0
    host_of_input: dict[int, str] = field(default_factory=dict)
    rank_of_input: dict[int, int] = field(default_factory=dict)
    local_of_input: dict[int, int] = field(default_factory=dict)

    def host(self, name: str | None) -> str | None:
        """The host as NCCL calls it: by name, short name or address; the given name when NCCL's lines have none.

        ``localhost`` is no host's name, unless NCCL itself uses it.
        """
        if not name:
            return None
        own = _own_address(name) or name
        found = self.names.get(short(name)) or self.addresses.get(own)
        return found or (None if is_loopback(short(name)) else name)

    def hosts_at(self, rows: pl.DataFrame, column: str = "peer") -> set[str]:
        """The hosts that the addresses in a column of rows mean; the address itself where NCCL's lines have none."""
        addresses = rows.select(without_port(column)).to_series().drop_nulls().unique()
        return {host for a in addresses if (host := self.host(a)) is not None}

    def pod(self, name: str | None) -> str | None:
        """The host that a pod or container is: pods of training jobs call their host by their own name.

        ``team.job-worker-1`` and ``pod/job-worker-1`` are ``job-worker-1``; Docker Compose numbers what it runs of one
        service: ``job-worker-1-1``.
        """
        if not name:
            return None
        bare = name.rsplit("/", 1)[-1]
        candidates = (bare, bare.rsplit(".", 1)[-1], _REPLICA.sub("", bare))
        return next((self.names[c] for c in candidates if c in self.names), candidates[1])

    def host_in_tag(self, tag: Tag | str | None) -> str | None:
        """The host that a launcher, syslog or pdsh put in front of a line."""
        said = tag if isinstance(tag, Tag) else read_tag(tag)
        if said.hosts:
            return self.host(said.hosts[0])
        for name in said.maybe:
            host = self.host(name)
            if short(name) in self.names or host != name or (not self.names and said.pid is not None):
                return host
        return None

    def placed(
        self, tag: Tag, input_id: int, host: str | None = None, rank: int | None = None, pid: int | None = None
    ) -> Place:
        """Where a process is, by what a line says of it, then by the tag in front of it, then by its file.

        The number of the process goes before its rank, the rank before the local rank.
        """
        host, of_input = self.host(host) or self.host_in_tag(tag), self.host_of_input.get(input_id)
        at, of_file = host or of_input, host in (None, of_input)
        number, local = tag.rank if rank is None else rank, tag.local_rank
        if process := self.process(tag.pid if pid is None else pid, host):
            return Place(*process)
        if number is not None:
            told = self.rank(number, host)
            return Place(told[0] or at, told[1]) if told is not None else Place(host)
        if local is None and of_file:
            local = self.local_of_input.get(input_id)
        found = self.rank(self.at_local_rank(local, at), at)
        if found is None and pid is None and of_file:
            found = self.rank(self.rank_of_input.get(input_id), at)
        if found is None and pid is None and local is None and len(self.ranks) == len(self.machines) == self.world:
            found = next(((at, rank) for rank in self.on(filter(None, [at]))), None)
        return Place(*found) if found is not None else Place(at, None, local)

    @property
    def ranks(self) -> Set[int]:
        """The ranks of the job whose host is known."""
        return self.host_of_rank.keys()

    @property
    def machines(self) -> Set[str]:
        """The hosts of the job."""
        return self.ranks_of_host.keys()

    def with_hosts(self, rows: pl.DataFrame, rank: str = "rank", where: pl.Expr = _EVERY) -> pl.DataFrame:
        """Rows that name a rank of the job with its host, where they have none."""
        if not self.host_of_rank:
            return rows
        of_rank = pl.col(rank).cast(pl.Int64).replace_strict(self.host_of_rank, default=None, return_dtype=pl.String)
        return rows.with_columns(host=pl.coalesce("host", pl.when(where).then(of_rank)))

    def on(self, hosts: Iterable[str]) -> set[int]:
        """The ranks on hosts of the job."""
        return {rank for host in hosts for rank in self.ranks_of_host.get(host, ())}

    def whom(self, row: Mapping[str, Any], pod: str | None, tasks: bool = True) -> tuple[set[int], set[str]]:
        """Ranks and hosts of the processes whose end a row of ``errors`` tells: never those of who reports it.

        ``pod``: the pod or container that the line is about. ``tasks``: whether its tasks are ranks.
        """
        said = witnesses().get(row["message"], _NOTHING)
        tag, input_id, pid = read_tag(row.get("launcher")), int(row["input_id"]), row.get("killed_pid")
        at = self.host_of_input.get(input_id) if said.speaker else None
        host = self.host(row.get("node_name")) or self.pod(pod) or self.host_in_tag(tag) or at
        process: tuple[str | None, int] | None = self.process(pid, host)
        if process is None and said.speaker == "process" and pid is None and host is not None:
            process = self.rank(self.rank_of_input.get(input_id), None)
        numbers, here = self._numbers(row, said, tag, host, tasks), self.ranks_of_host.get(host or "", ())
        if not numbers and pod and len(here) == 1:
            numbers = {*here}
        found = [process] if process is not None else [self.rank(number, host) for number in numbers]
        sure = [place for place in found if place is not None]
        return {rank for _, rank in sure}, {*filter(None, (host, *(at for at, _ in sure)))}

    def _numbers(self, row: Mapping[str, Any], said: Witness, tag: Tag, host: str | None, tasks: bool) -> set[int]:
        """The numbers of ranks that a row names, else the tag of a process that speaks, else the local rank named."""
        number = row.get("rank") if said.names == "rank" else None
        if number is None and said.speaker == "process":
            number = self.at_local_rank(tag.local_rank, host) if tag.rank is None else tag.rank
        listed = row.get("task_list") if tasks else None
        numbers = {*(_numbers(str(listed)) if listed else (number,)), *task_numbers(row.get("further_tasks"))}
        if numbers <= {None} and "local-rank" in parts_of(str(row["message"] or "")):
            numbers = {self.at_local_rank(row.get("local_rank"), host)}
        return {number for number in numbers if number is not None}

    def hosts(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """The hosts of ranks of the job, as far as they are known."""
        return tuple(sorted({self.host_of_rank[r] for r in ranks if r in self.host_of_rank}))

    def hosts_of_absent(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """The hosts of ranks that may have printed nothing; empty unless all of them are known.

        Launchers number ranks host by host, so a rank between two ranks of one host is on that host.
        """
        found: set[str] = set()
        present = sorted(self.host_of_rank)
        for rank in ranks:
            at = bisect_left(present, rank)
            around = {self.host_of_rank[r] for r in (*present[max(0, at - 1) : at], *present[at : at + 1])}
            inside = 0 < at < len(present) and len(around) == 1
            host = self.host_of_rank.get(rank) or (around.pop() if inside else self._short_of(rank, present))
            if host is None:
                return ()
            found.add(host)
        return tuple(sorted(found))

    def _short_of(self, rank: int, present: list[int]) -> str | None:
        """The host whose block of consecutive ranks the rank completes, where all blocks are of one size."""
        size = max((len(r) for r in self.ranks_of_host.values()), default=0)
        if len(self.ranks_of_host) < 2 or not size or (self.world and self.world % size):
            return None
        block = {self.host_of_rank[r] for r in present if r // size == rank // size}
        whole = all(len({r // size for r in ranks}) == 1 for ranks in self.ranks_of_host.values())
        return block.pop() if whole and len(block) == 1 else None

    def at_local_rank(self, number: int | None, host: str | None) -> int | None:
        """The rank of the job that a launcher's local rank means: on the host named, or on the only one of the job.

        Launchers number the ranks of a node in order and without gaps; None where some of the node's are not known.
        """
        if host is None and len(self.ranks_of_host) == 1:
            (host,) = self.ranks_of_host
            if len(set(self.ranks_of_host[host])) < self.world:
                return None
        here = sorted(set(self.ranks_of_host.get(host or "", ())))
        if number is None or not 0 <= number < len(here) or here[-1] - here[0] + 1 != len(here):
            return None
        return here[number]

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
            if self.world and number >= self.world:
                return None
            return host or next(iter(self.hosts_of_absent((number,))), None), number
        return (known, number) if host is None or host == known else None


_NOTHING: Final = Witness()


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers of a scheduler's list: 3, 5, 6 and 7 of ``3,5-7``."""
    out: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            out += range(int(first), min(int(last or first), int(first) + 100_000) + 1)
    return tuple(out)


def task_numbers(tasks: Iterable[str] | None) -> tuple[int, ...]:
    """The numbers of JAX's tasks: 3 of ``/job:jax_worker/replica:0/task:3``."""
    numbers = (str(task).rpartition("/task:")[2] for task in (tasks if tasks is not None else ()))
    return tuple(int(number) for number in numbers if number.isdigit())


@fact
def places(run: Run) -> Places:
    """The places of a run."""
    return places_in(run.tables)


def places_in(tables: Tables) -> Places:
    """The places that tables tell, by the largest communicator."""
    return tables.derived("places of processes", lambda: _places(tables))


def _world(tables: Tables) -> pl.DataFrame:
    """The ranks of the largest communicator; of several attempts the last one counts."""
    ranks = tables["ranks"].filter(pl.col("rank").is_not_null())
    size = ranks["nranks"].max()
    world = ranks.filter(pl.col("nranks") == size) if size is not None else ranks
    last = world.sort("input_id", "line")["comm_id"].drop_nulls()
    if last.is_empty():
        return world
    same = world.filter(pl.col("comm_id") == last[-1])
    if _side_by_side(world, same):
        return _by_launcher(tables, world)
    return same if same.height * 2 >= world.height else world


def _places(tables: Tables) -> Places:
    world = _world(tables)
    rows = world.select("rank", "host", "pid").unique(maintain_order=True).drop_nulls("host")
    host_of_rank: dict[int, str] = dict(rows.select("rank", "host").iter_rows())
    on_host: dict[str, list[int]] = grouped(rows.select("host", "rank").iter_rows())
    numbers = grouped(((host, pid), rank) for rank, host, pid in rows.drop_nulls("pid").iter_rows())
    every = {at: ranks[-1] for at, ranks in numbers.items()}
    # A process with several GPUs has several ranks.
    rank_of_process = {at: rank for at, rank in every.items() if len({*numbers[at]}) == 1}
    if not host_of_rank:
        host_of_rank = dict(tables["trace_info"].select("rank", "host").drop_nulls().iter_rows())
        on_host = grouped((host, rank) for rank, host in host_of_rank.items())
    names = {short(h): h for h in tables["processes"]["host"].drop_nulls().unique().sort()}
    addresses = {own: h for name, h in names.items() if (own := _own_address(name)) is not None}
    for table, column in (("net_devices", "oob_address"), ("interfaces", "address"), ("net_devices", "address")):
        told = tables[table].select(without_port(column), "host").drop_nulls()
        addresses.update(told.unique(maintain_order=True).iter_rows())
    input_host, input_rank = _owners(tables, names, every)
    local = _by_path(tables, names, every, input_host, input_rank)
    return Places(
        host_of_rank,
        rank_of_process,
        grouped((pid, (host, rank)) for (host, pid), rank in rank_of_process.items()),
        names,
        addresses,
        on_host,
        size if isinstance(size := world["nranks"].max(), int) else 0,
        input_host,
        input_rank,
        local,
    )


def _by_local_ranks(
    local: Mapping[int, int], said: Mapping[int, PathPlace], proved: Mapping[int, int]
) -> Iterator[tuple[int, int]]:
    """Ranks of inputs on hosts on which those that are known all begin at one number."""
    for here in grouped((said[i].host, i) for i in local).values():
        firsts = {proved[i] - local[i] for i in here if i in proved}
        if len(firsts) == 1:
            (first,) = firsts
            yield from ((i, local[i] + first) for i in here)


def _by_path(
    tables: Tables,
    names: Mapping[str, str],
    rank_of_process: Mapping[tuple[str, int], int],
    hosts: dict[int, str],
    ranks: dict[int, int],
) -> dict[int, int]:
    """Adds hosts and ranks of inputs by the names of their files and folders, and returns their local ranks.

    A number counts as the rank where it is that of every other input whose rank is known, or where the word in front
    of it says so; a name counts as a host only where NCCL's lines name none, and the inputs are of several.
    """
    paths: dict[int, str] = dict(tables["inputs"].select("input_id", "path").drop_nulls().iter_rows())
    if len(paths) < 2:
        return {}
    parts = _without_shared(paths)
    said = {i: read_path("/".join(own)) for i, own in parts.items()}
    proved = {**_told_by_tags(tables, said), **ranks}
    for numbers in _numberings(said, parts, proved):
        if all(proved.get(i, number) == number for i, number in numbers.items()):
            ranks.update({**numbers, **ranks})
    local = {i: p.local_rank for i, p in said.items() if p.local_rank is not None}
    ranks.update((i, rank) for i, rank in _by_local_ranks(local, said, proved) if i not in ranks)
    at = {rank: {*own} for rank, own in grouped((rank, host) for (host, _), rank in rank_of_process.items()).items()}
    hosts.update((i, at[rank].pop()) for i, rank in ranks.items() if i not in hosts and len(at.get(rank, ())) == 1)
    own = {i: p.host for i, p in said.items() if p.host is not None}
    if not names and len(set(own.values())) > 1:
        hosts.update(own)
    return local


def _without_shared(paths: Mapping[int, str]) -> dict[int, list[str]]:
    """The names in paths without the folders that all of them are in, which tell no two apart."""
    parts = {i: re.findall(r"[^/\\]+", path) for i, path in paths.items()}
    levels = zip(*(own[:-1] for own in parts.values()), strict=False)
    shared = len([*takewhile(lambda level: len(set(level)) == 1, levels)])
    return {i: own[shared:] for i, own in parts.items()}


def _numberings(
    said: Mapping[int, PathPlace], parts: Mapping[int, Sequence[str]], proved: Mapping[int, int]
) -> Iterator[dict[int, int]]:
    """What may be the ranks of inputs: numbers that differ where ranks are proved, and those called so."""
    numbers = grouped((template, (i, number)) for i, place in said.items() for template, number in place.numbers)
    told = map(dict, numbers.values())
    yield from (own for own in told if len({n for i, n in own.items() if i in proved}) > 1)
    # A rank may have several files: logs and dumps, or those of its streams. Files of one kind differ in numbers only.
    named = {i: p.rank for i, p in said.items() if p.rank is not None}
    kinds = grouped((re.sub("[0-9]+", "#", parts[i][-1]), (i, rank)) for i, rank in named.items())
    stated = [named] if len(set(named.values())) == len(named) else map(dict, kinds.values())
    yield from (own for own in stated if len(set(own.values())) == len(own) > 1)


def _told_by_tags(tables: Tables, said: Mapping[int, PathPlace]) -> dict[int, int]:
    """The rank of inputs in which all tags that name one name the same."""
    if sum(bool(p.numbers) for p in said.values()) < 2:
        return {}
    told = (
        (int(input_id), read_tag(_OF_TORCH.sub("", str(tag))).rank)
        for table, column in (("errors", "launcher"), ("tracebacks", "tag"))
        for input_id, tag in tables.as_read(table).select("input_id", column).drop_nulls().unique().iter_rows()
    )
    found = grouped((input_id, rank) for input_id, rank in told if rank is not None)
    return {i: ranks[0] for i, ranks in found.items() if len({*ranks}) == 1}


def _side_by_side(ranks: pl.DataFrame, one: pl.DataFrame) -> bool:
    """Whether a communicator of as many ranks has other GPUs and processes than this one: none of them is the job's.

    Groups of a job (tensor, pipeline) are so; attempts of a job have its GPUs one after the other.
    """
    place = pl.struct("host", "bus_id")
    known = (
        ranks.filter(pl.col("comm_id").is_not_null())
        .group_by("comm_id")
        .agg(
            told=(pl.col("host").is_not_null() & pl.col("bus_id").is_not_null()).all(),
            again=place.is_in(one.select(place.implode()).to_series()).any(),
        )
    )
    return known.filter(pl.col("told") & ~pl.col("again")).height > 0


def _by_launcher(tables: Tables, ranks: pl.DataFrame) -> pl.DataFrame:
    """The processes under the ranks that the launcher gave them; none where it tells them not all, or one twice."""
    key = ["host", "pid"]
    tasks = tables["processes"].select(*key, "launcher_rank").join(ranks.select(key).unique(), on=key, how="semi")
    found = tasks["launcher_rank"].cast(pl.Int64, strict=False)
    if not tasks.height or found.null_count() or found.n_unique() < tasks.height:
        return ranks.clear()
    size = pl.lit(tasks.height, pl.Int32).alias("nranks")
    return tasks.select(found.cast(pl.Int32).alias("rank"), *key, size)


def _owners(
    tables: Tables, names: Mapping[str, str], rank_of_process: Mapping[tuple[str, int], int]
) -> tuple[dict[int, str], dict[int, int]]:
    """Host, and rank, that whole inputs belong to: where every one holds a host's, or a process's, lines alone.

    An input without lines of NCCL (a kernel log) is the host's that its path names.
    """
    rows = tables["processes"].select("input_id", "host", "pid").drop_nulls().unique(maintain_order=True)
    writers = grouped((int(input_id), (str(host), int(pid))) for input_id, host, pid in rows.iter_rows())
    apart = len(writers) > 1 and all(len({host for host, _ in own}) == 1 for own in writers.values())
    alone = apart and all(len(own) == 1 for own in writers.values())
    found = {i: own[0][0] for i, own in writers.items() if apart and len(names) > 1}
    ranks = {i: rank_of_process[own[0]] for i, own in writers.items() if alone and own[0] in rank_of_process}
    paths: dict[int, str] = dict(tables["inputs"].select("input_id", "path").drop_nulls().iter_rows())
    if min(len(names), len(paths)) > 1:
        alike = _named_alike(paths, found)
        known = {**{name: name for name in alike.values()}, **names}
        others = ((i, alike.get(i) or _in_path(path, known)) for i, path in paths.items() if i not in writers)
        found.update((i, host) for i, host in others if host is not None)
    return found, ranks


def _named_alike(paths: Mapping[int, str], hosts: Mapping[int, str]) -> dict[int, str]:
    """Hosts of files named as those of several known hosts: ``run/gpu3.log`` beside ``gpu1.log``, ``gpu2.log``."""
    shapes = {_COUNTED.sub("#", short(host)) for host in hosts.values()}
    around = {tuple(paths[i].rpartition(short(host))[::2]) for i, host in hosts.items() if short(host) in paths[i]}
    if len(around) != 1 or len({*hosts.values()}) < 2:
        return {}
    ((before, behind),) = around
    cut = {i: path[len(before) : len(path) - len(behind)] for i, path in paths.items()}
    return {
        i: name for i, name in cut.items() if before + name + behind == paths[i] and _COUNTED.sub("#", name) in shapes
    }


def _in_path(path: str, names: Mapping[str, str]) -> str | None:
    """The only host that the last names of a path hold as a word; of names within names the longest."""
    words = {w for part in path.replace("\\", "/").split("/")[-4:] for w in _words(part)}
    held = sorted(words & names.keys(), key=len)
    held = [n for i, n in enumerate(held) if not any(n in longer for longer in held[i + 1 :])]
    return names[held[0]] if len(held) == 1 else None


def _words(part: str) -> Iterable[str]:
    """All runs of a name's pieces between dots, dashes and underscores: ``a-b.log`` gives a, a-b, a-b.log, b ..."""
    cuts = [0, *(m.end() for m in re.finditer(r"[._\-]", part)), len(part) + 1][:24]
    for i, start in enumerate(cuts[:-1]):
        for end in cuts[i + 1 :]:
            yield part[start : end - 1]


Owner: TypeAlias = tuple[str, int | None]


def _gpus(tables: Tables) -> dict[str, dict[str, set[Owner]]]:
    """Host and rank in the job of those whose GPU has a PCI address: by the address as NCCL prints it, and by host."""
    known = places_in(tables)
    ids = pl.col("bus_id").str.to_lowercase().str.replace_all(r"[:.]", "")
    rows = tables["ranks"].select(ids, "host", "pid", "rank", "nranks").drop_nulls().unique(maintain_order=True)
    owners: dict[tuple[str, str, int], int | None] = {}
    for *at, rank, size in rows.iter_rows():
        bus, host, pid = at
        # A process with several GPUs has several ranks; that of this GPU stands in the job's own communicator.
        whole = rank if size == known.world and known.host_of_rank.get(rank) == host else None
        before = owners.get((bus, host, pid))
        owners[bus, host, pid] = known.rank_of_process.get((host, pid), before if whole is None else whole)
    found = grouped((bus, (host, (host, rank))) for (bus, host, _), rank in owners.items())
    return {bus: {host: {*own} for host, own in grouped(at).items()} for bus, at in found.items()}


def gpus_at(tables: Tables, address: str, host: str | None) -> set[Owner]:
    """Host and rank in the job of those whose GPU has this PCI address, on one host or on all."""
    buses = tables.derived("GPUs by address", lambda: _gpus(tables))
    # Bus and device without punctuation, as NCCL prints a bus id.
    digits = "".join(address.lower().split(".")[0].split(":")[-2:])
    here = [at for bus, at in buses.items() if digits in bus]
    return {owner for at in here for name, owners in at.items() if host in (None, name) for owner in owners}


@fact
def rank_hosts(run: Run) -> pl.DataFrame:
    """Host of each rank: ``comm_id, rank, host``, unique, from Init lines and from who printed a connection.

    A P2P, SHM or [send] line is printed by its source, a [receive] line by its destination.
    """
    receives = pl.col("direction").cast(pl.String) == "receive"
    printed = run.lazy("connections").select(
        "comm_id", pl.when(receives).then(pl.col("dst_rank")).otherwise(pl.col("src_rank")).alias("rank"), "host"
    )
    stated = run.lazy("ranks").select("comm_id", "rank", "host")
    # The host that most lines name: a torn line may start with a host that is none.
    return (
        pl.concat([stated, printed])
        .filter(pl.col("host").is_not_null() & pl.col("rank").is_not_null())
        .group_by("comm_id", "rank", "host", maintain_order=True)
        .len()
        .sort("len", descending=True, maintain_order=True)
        .unique(["comm_id", "rank"], keep="first", maintain_order=True)
        .drop("len")
        .sort("comm_id", "rank", nulls_last=True)
        .collect(engine="in-memory")
    )


def placed(run: Run, rows: pl.DataFrame, rank: str = "rank", host: str = "host") -> pl.DataFrame:
    """Rows of ranks of communicators with the host of each, by :func:`rank_hosts`."""
    known = rank_hosts(run).rename({"rank": rank, "host": host})
    return rows.join(known, on=["comm_id", rank], how="left", nulls_equal=True, maintain_order="left")


def ends_placed(run: Run, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of pairs of ranks with the hosts of both, ``src_host`` and ``dst_host``."""
    return placed(run, placed(run, rows, "src_rank", "src_host"), "dst_rank", "dst_host")


def rank_in_job(run: Run, comm: object, rank: int) -> int | None:
    """The rank of the job that a rank of a communicator is; None where the log does not say."""
    return member_in_job(run.tables, comm, rank)


def member_in_job(tables: Tables, comm: object, rank: int) -> int | None:
    """As :func:`rank_in_job`, of tables."""
    members = tables.derived("members of communicators", lambda: _members(tables))
    process = members.get((_plain(comm), rank))
    return places_in(tables).rank_of_process.get(process) if process is not None else None


def ranks_in_job(run: Run, comm: object, ranks: Iterable[int]) -> tuple[int, ...]:
    """The ranks of the job that ranks of a communicator are; its own where the log does not say of all."""
    own = tuple(ranks)
    placed = tuple(p for r in own if (p := rank_in_job(run, comm, r)) is not None)
    return placed if len(placed) == len(own) else own


def _members(tables: Tables) -> dict[tuple[str, int], tuple[str, int]]:
    """Host and process of each rank of each communicator, by its id without leading zeros."""
    rows = tables["ranks"].select("comm_id", "rank", "host", "pid").drop_nulls().unique(maintain_order=True)
    return {(_plain(c), int(r)): (h, int(p)) for c, r, h, p in rows.iter_rows()}


def _plain(comm: object) -> str:
    return str(comm or "").lower().removeprefix("0x").lstrip("0")
