"""What the inputs hold of one rank, host or process group."""

from typing import Final

import polars as pl

from nccl_insight.base import late
from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Evidence
from nccl_insight.engine.evidence import paths_of
from nccl_insight.facts.progress.standings import standings
from nccl_insight.loading.assemble.places import places
from nccl_insight.tables.run import Run

_RANK: Final = late.compiled(r"(?i)(?:ranks?\s*)?([0-9]{1,7})")
_WORD: Final = late.compiled(r"(?i)(host|node|group|process group|pg|communicator|comm)\s+(.+)")
_LAST: Final = 4


@dataclass(frozen=True)
class Standing:
    """How far a rank is in a group by one source, and how far the furthest rank of the group is."""

    source: str
    group: str
    op: str
    rank: int
    enqueued: int | None
    started: int | None
    completed: int | None
    furthest: int | None


@dataclass(frozen=True)
class Who:
    """``kind``: rank, host or group; ``name`` as the inputs call it; its ranks, processes, standings and last lines."""

    kind: str
    name: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    pids: tuple[int, ...]
    standings: tuple[Standing, ...]
    last: tuple[Evidence, ...]


def who(run: Run, subject: str) -> Who | None:
    """What is known of ``rank 5``, ``host gpu01`` or ``group 7`` (the word may be left out); None where nothing is."""
    known, rows = places(run), standings(run)
    word = _WORD.fullmatch(subject.strip())
    kind, name = (word[1].lower(), word[2].strip()) if word else ("", subject.strip())
    if not word and (number := _RANK.fullmatch(name)):
        rank = int(number[1])
        seen = {*known.ranks, *known.rank_of_process.values(), *rows["rank"].drop_nulls()}
        # A rank that printed nothing is one to ask for, too.
        return _who(run, "rank", f"rank {rank}", (rank,), rows) if rank in seen or rank < known.world else None
    host = known.host(name)
    if kind in ("", "host", "node") and host in known.machines:
        return _who(run, "host", f"host {host}", tuple(sorted(known.on([str(host)]))), rows)
    of_group = rows.filter(pl.col("group") == name)
    if kind not in ("host", "node") and of_group.height:
        ranks = tuple(of_group["rank"].drop_nulls().unique().sort().to_list())
        return _who(run, "group", f"process group {name}", ranks, of_group)
    return None


def names(run: Run) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    """The number of ranks, the hosts and the groups that can be asked for."""
    known, rows = places(run), standings(run)
    ranks = {*known.ranks, *rows["rank"].drop_nulls()}
    return len(ranks), tuple(sorted(known.machines)), tuple(rows["group"].drop_nulls().unique().sort())


def _who(run: Run, kind: str, name: str, ranks: tuple[int, ...], rows: pl.DataFrame) -> Who:
    known = places(run)
    pids = tuple(sorted(pid for (_, pid), rank in known.rank_of_process.items() if rank in ranks))
    far = rows.with_columns(furthest=pl.col("enqueued").max().over("source", "group", "op")).filter(
        pl.col("rank").is_in(list(ranks)) & ~pl.all_horizontal(pl.col("enqueued", "started", "completed").is_null())
    )
    columns = ("source", "group", "op", "rank", "enqueued", "started", "completed", "furthest")
    stands = tuple(
        Standing(str(source), group or "", op or "", rank, *numbers)
        for source, group, op, rank, *numbers in far.select(columns).sort("rank", "source", "group").iter_rows()
    )
    return Who(kind, name, ranks, known.hosts(ranks), pids, stands, _last_lines(run, ranks) if kind == "rank" else ())


def _last_lines(run: Run, ranks: tuple[int, ...]) -> tuple[Evidence, ...]:
    """The end of the file of a rank, where it has one of its own."""
    own = [i for i, rank in places(run).rank_of_input.items() if rank in ranks]
    sizes = dict(run.table("inputs").select("input_id", "lines").drop_nulls().iter_rows())
    last = [(i, n) for i in own for n in range(max(1, int(sizes.get(i, 0)) - _LAST + 1), int(sizes.get(i, 0)) + 1)]
    paths, texts = paths_of(run), run.reader.lines(last)
    return tuple(Evidence(paths.get(i, ""), n, texts[i, n]) for i, n in last if texts.get((i, n), "").strip())
