"""What the rules about traces share: evidence that points at a trace file, and where a group of ranks runs."""

from collections.abc import Iterable

import polars as pl

from nccl_insight.base import texts
from nccl_insight.base.model import Ref
from nccl_insight.loading.assemble.places import places
from nccl_insight.tables.run import Run


def trace_refs(rows: Iterable[tuple[int | None, str]], limit: int = 5) -> tuple[Ref, ...]:
    """Evidence without a line: (input_id, what was measured there)."""
    return tuple(Ref(input_id, 0, text) for input_id, text in list(rows)[:limit] if input_id is not None)


def refs_of(rows: pl.DataFrame, text: str) -> tuple[Ref, ...]:
    """Evidence of rows with ``input_id`` and ``rank``: a text with the values of the other columns."""
    named = f"rank [[known?{{rank}}||?]]: {text}"
    given = ({**row, "known": row["rank"] is not None} for row in rows.head(5).iter_rows(named=True))
    return trace_refs((row["input_id"], texts.filled(named, row)) for row in given)


def ranks_of(rows: pl.DataFrame) -> tuple[int, ...]:
    """Sorted distinct ranks of the column ``rank``, nulls left out."""
    return tuple(sorted(set(rows["rank"].drop_nulls().to_list())))


def traced_ranks(run: Run) -> tuple[int, ...]:
    """Sorted ranks whose collectives met."""
    return ranks_of(run.table("trace_clocks"))


def input_of_rank(run: Run) -> dict[int, int]:
    """First input that holds collectives of each rank."""
    rows = run.table("collectives").filter(pl.col("rank").is_not_null() & pl.col("input_id").is_not_null())
    return dict(rows.group_by("rank").agg(pl.col("input_id").min()).iter_rows())


def nodes_of_ranks(run: Run) -> dict[int, str]:
    """A name for the node of each rank: its host, else its place among the GPUs that each machine shows."""
    known = places(run)
    info = run.table("trace_info")
    gpus, ranks = info["visible_gpus"].drop_nulls().unique().to_list(), info["rank"].drop_nulls().to_list()
    if len(gpus) == 1 and gpus[0] > 0 and not known.ranks:
        return {r: f"node {r // gpus[0]}" for r in ranks}
    return {rank: known.hosts([rank])[0] for rank in known.ranks}


def with_hosts(run: Run, ranks: Iterable[int]) -> tuple[int | str, ...]:
    """Ranks with their hosts, as far as known: whom a finding is about."""
    named = tuple(ranks)
    return (*named, *places(run).hosts(named))


def on_one_node(run: Run, ranks: Iterable[int], group_size: int) -> bool:
    """Whether the whole group is proven to sit on one node.

    Proof: the traces name one host for every rank of the group, or the log shows one node, or the group is the
    whole job and has no more ranks than the trace's machine has GPUs.
    """
    info = run.table("trace_info")
    members = set(ranks)
    known = places(run)
    hosts = known.hosts(members)
    by_trace = len(members) == group_size and members <= set(known.ranks) and len(hosts) == 1
    if len(hosts) > 1:
        return False
    same = run.table("communicators").filter(pl.col("nranks") == group_size)["n_nodes"].drop_nulls()
    if same.len() and int(same.min() or 0) > 1:  # type: ignore[arg-type]  # containers may share one host name
        return False
    nodes = run.table("communicators")["n_nodes"].drop_nulls()
    by_log = nodes.len() > 0 and int(nodes.max() or 0) == 1  # type: ignore[arg-type]
    worlds, gpus = info["world_size"].drop_nulls(), info["visible_gpus"].drop_nulls()
    by_size = (
        worlds.len() > 0
        and gpus.len() > 0
        and worlds.n_unique() == 1
        and int(worlds[0]) == group_size
        and group_size <= int(gpus.min() or 0)  # type: ignore[arg-type]
    )
    return by_trace or by_log or by_size
