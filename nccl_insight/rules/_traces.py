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
    info, members, known = run.table("trace_info"), set(ranks), places(run)
    hosts = known.hosts(members)
    nodes = run.table("communicators").select("nranks", "n_nodes").drop_nulls("n_nodes")
    same = nodes.filter(pl.col("nranks") == group_size)["n_nodes"].to_list()
    if len(hosts) > 1 or min(same, default=0) > 1:  # containers may share one host name
        return False
    worlds, gpus = info["world_size"].drop_nulls().unique().to_list(), info["visible_gpus"].drop_nulls().to_list()
    by_trace = len(members) == group_size and members <= set(known.ranks) and len(hosts) == 1
    by_log = max(nodes["n_nodes"].to_list(), default=0) == 1
    return by_trace or by_log or (worlds == [group_size] and group_size <= min(gpus, default=0))
