"""Ranks never started init while the others wait for them."""

from collections.abc import Iterator
from typing import Final

import polars as pl

from nccl_insight.base.model import CannotJudge, Hit
from nccl_insight.base.units import rank_words
from nccl_insight.facts.progress.journey import last_of_input
from nccl_insight.facts.said.errors import causes
from nccl_insight.facts.said.topics import plays
from nccl_insight.facts.setup.settings import refs
from nccl_insight.language.load import playing
from nccl_insight.loading.assemble.places import places, task_numbers
from nccl_insight.rules._errors import Trouble
from nccl_insight.rules._init import waiting
from nccl_insight.rules.context import Context, Hits

# initialize clique for rank 3; clique=devices=[0,1,2,3]; ...
_CLIQUE: Final = r"for rank ([0-9]{1,7}); clique=devices=\[([0-9, ]+)\]"
# cuda:local_topology/cuda/3: what process 3 leaves for the others.
_TOPOLOGY: Final = r"local_topology/(?:\w+/)?([0-9]+)$"


# What only ranks that met make.
_LATER: Final = ("ranks", "connections", "watchdog", "collectives", "progress")


def check(ctx: Context) -> Hits:
    """One finding per communicator that waits for ranks, and one for ranks that wait for another's unique id."""
    run = ctx.run
    yield from _no_id(ctx)
    yield from _not_in_clique(ctx)
    if ctx.lines() is None and not any(map(run.has, _LATER)):
        yield from _announced(ctx)
        yield from _no_name(ctx)
    for stuck in waiting(run):
        if not stuck.missing:
            continue
        if stuck.doubt:
            yield CannotJudge(stuck.doubt, "collect the logs of all ranks: NCCL_DEBUG_FILE=nccl.%h.%p on every host")
            continue
        started, alone = stuck.ranks, len(stuck.missing) == 1
        yield ctx.says(
            "found",
            refs(started),
            whom=(*stuck.missing, *places(run).hosts_of_absent(stuck.missing)),
            comm_id=stuck.comm_id,
            stuck=stuck,
            started=started,
            alone=alone,
        )


# More ranks than any job has: a number that is not one.
_RANKS_MOST: Final = 1 << 17


def _announced(ctx: Context) -> Hits:
    """Ranks that said that they come to the start of the job, and nothing after it: the others did not come."""
    run = ctx.run
    rows = run.table("arrivals")
    if rows.is_empty():
        return
    last = rows.group_by("input_id").agg(pl.col("line").max())
    size = max(rows["n_expected"].drop_nulls().to_list(), default=0)
    came = rows.drop_nulls("rank")
    met = came.height < rows.height or last_of_input(run, last).height < last.height
    numbers = {int(r) for r in came["rank"]}
    if met or not 1 < size <= _RANKS_MOST or not numbers <= set(range(size)):
        return
    once = came.filter(pl.col("n_joined").is_null())["rank"]
    twice = tuple(sorted(int(r) for r in once.filter(once.is_duplicated()).unique()))
    late = tuple(sorted(set(range(size)) - numbers))
    if not late or (len(numbers) == 1 and not twice):
        if late:
            yield CannotJudge("one rank alone says that it starts", "add the output of the other processes of the job")
        return
    yield ctx.says(
        "announced",
        refs(came),
        whom=late,
        absence=f"no line of {rank_words(late, 4)} in any input",
        late=late,
        size=size,
        twice=twice,
        numbers=numbers,
    )


def _no_name(ctx: Context) -> Iterator[Hit]:
    """Ranks for which the name of the first host resolves in no address family, and which say nothing after that."""
    run = ctx.run
    rows = causes(run).filter(pl.col("message").is_in(playing("no-name")) & (pl.col("c10d_family") == 4))
    rows = last_of_input(run, rows)
    if rows.is_empty():
        return
    said = Trouble(rows)
    yield from ctx.tells("no-name", rows=said, name=said.value("c10d_host"), why=said.value("error_text"))


def _not_in_clique(ctx: Context) -> Iterator[Hit]:
    """XLA: devices of a clique whose threads did not come to the rendezvous that gave the others up."""
    run = ctx.run
    rows = causes(run).filter(pl.col("xla_what").is_not_null())
    if rows.filter(pl.col("message").is_in(playing("given-up"))).is_empty():
        return  # those that only warn mostly go on
    parts = rows.with_columns(
        _came=pl.col("xla_what").str.extract(_CLIQUE, 1).cast(pl.Int64), _all=pl.col("xla_what").str.extract(_CLIQUE, 2)
    ).drop_nulls(["_came", "_all"])
    for (devices,), part in parts.group_by("_all", maintain_order=True):
        came = {int(rank) for rank in part["_came"]}
        size = len(str(devices).split(","))
        late = tuple(sorted(set(range(size)) - came))
        if not late or 2 * len(late) > size:
            continue
        waiting_ = Trouble(part.drop("_came", "_all"))
        yield ctx.says(
            "not-in-clique",
            waiting_.evidence,
            whom=(*late, *places(run).hosts(late)),
            first_s=waiting_.first_s,
            last_s=waiting_.last_s,
            late=late,
            size=size,
            came=came,
        )


def _no_id(ctx: Context) -> Iterator[Hit]:
    """torch: ranks that did not get NCCL's unique id from the rank that makes it."""
    run = ctx.run
    found = ctx.lines()
    if found is None:
        return
    met = found.rows.filter(pl.col("message").is_in(playing("meeting")))
    if met.height:
        yield from _not_met(ctx, Trouble(met))
        return
    named_ids = found.rows["other_rank"].drop_nulls()
    keys = found.rows.filter(pl.col("message").is_in(playing("no-key")))
    if keys.height and named_ids.is_empty():
        yield from _no_key(ctx, Trouble(keys))
        return
    late = tuple(sorted({int(r) for r in named_ids})) or (0,)
    yield from ctx.tells("no-id", whom=(*late, *places(run).hosts(late)), rows=found, late=late)


# What gloo's ranks leave in the store is their address, under their number.
_GLOO_KEY: Final = r"/[0-9]+//([0-9]{1,7})$"


def _no_key(ctx: Context, found: Trouble) -> Iterator[Hit]:
    """torch: a key of the store that another rank should have set."""
    run = ctx.run
    keys = found.rows["rest_of_text"].drop_nulls().unique(maintain_order=True)
    numbers = keys.str.extract(_GLOO_KEY).drop_nulls().cast(pl.Int64)
    late = tuple(sorted({int(r) for r in numbers}))
    yield from ctx.tells(
        "no-key", whom=(*late, *places(run).hosts(late)), rows=found, n_keys=len(keys), keys=keys, late=late
    )


def _not_met(ctx: Context, found: Trouble) -> Iterator[Hit]:
    """Processes that did not come to the store of torch or to JAX's coordination service."""
    run = ctx.run
    named = found.rows.filter(plays(found.rows, "jax"))
    late = {int(r) for r in named["other_rank"].drop_nulls()}
    late |= {n for tasks in named["further_tasks"].drop_nulls() for n in task_numbers(tasks)}
    keys = found.rows["xla_key"].drop_nulls()
    late |= set(keys.str.extract(_TOPOLOGY).cast(pl.Int64, strict=False).drop_nulls().to_list())
    ranks = tuple(sorted(late))
    first = found.rows.row(0, named=True)
    came, all_ = first.get("n_joined"), first.get("n_expected")
    if came and all_ and came > all_:
        # The store counts past the size of the job: processes of another start used it as well.
        yield from ctx.tells("too-many", rows=found, came=came, all_=all_)
        return
    counted = f": {came} of {all_} came" if came and all_ else ""
    yield from ctx.tells("not-met", whom=(*ranks, *places(run).hosts(ranks)), rows=found, late=ranks, counted=counted)
