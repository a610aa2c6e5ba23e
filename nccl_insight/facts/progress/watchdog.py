"""Where each rank stands in its collectives, from the lines of torch's watchdog: who waits, and who did not come.

The numbers count the operations of a process group, alike on all its ranks. A rank that times out in operation n
issued it and waits; one whose last issued operation is below n never came to it. The oldest unfinished operation
of the group decides, so a gap of one is enough."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.grouping import grouped
from nccl_insight.base.model import Ref
from nccl_insight.base.units import format_ranks
from nccl_insight.base.words import words
from nccl_insight.facts.progress.instances import UNNAMED, Instance
from nccl_insight.facts.said.clock import SKEW_S, with_time
from nccl_insight.facts.said.errors import causes
from nccl_insight.facts.said.topics import plays
from nccl_insight.facts.setup.settings import refs
from nccl_insight.facts.who.layout import Grid, grid
from nccl_insight.loading.assemble.places import places
from nccl_insight.readers.embedded.endings import STEP
from nccl_insight.readers.embedded.tags import read_tag
from nccl_insight.tables.run import Run, fact

DEFAULT: Final = "default"
GLOO: Final = "of Gloo"
"""The name of the group of those that waited in Gloo."""
BLOCK: Final = 8
"""Ranks of a host, by whose multiples jobs are large."""
WHO: Final = pl.coalesce("global_rank", "rank")
"""The rank in the job, else that in the group."""
# Of the tags of a flood, all of other times, few differ in these: what may tell a local rank.
_LABELS: Final = pl.col("launcher").str.extract_all(r"\[[a-z]+[0-9]{1,4}\]:").list.join("")
# So many ranks that are as far from their numbers in groups are of one; two may be of two.
_NEIGHBORS: Final = 3
# Waits of one limit differ by less than this share of it: the watchdog looks at its operations now and then.
_ONE_LIMIT: Final = 0.1
# Where lines name no group, numbers this close count the operations of one.
_CLOSE: Final = 64
_AT: Final = "at "


@fact
def states(run: Run) -> pl.DataFrame:
    """The table ``watchdog`` with ``time_s``: one row per rank and process group that torch's watchdog reports; and one
    per rank that waited in Gloo, whose lines tell neither the group nor the number."""
    rows = _of_last(_behind_restart(run, with_time(run, run.table("watchdog"), "timestamp")))
    waits = causes(run).filter(pl.col("loud")).drop_nulls(["rank", "line"])
    waits = waits.filter(plays(waits, "gloo-wait"))
    if waits["timeout_ms"].drop_nulls().is_empty():
        return rows
    waits = waits.sort("input_id", "line").unique(["input_id", "rank"], keep="first", maintain_order=True)
    waits = waits.select(
        "input_id", "line", "time_s", group=pl.lit(GLOO), global_rank="rank", timed_out_seq=0, ran_ms="timeout_ms"
    )
    return pl.concat(
        [rows, waits.select(pl.col(name).cast(rows.schema[name]) for name in waits.schema)], how="diagonal"
    )


@fact
def given_up(run: Run) -> pl.DataFrame:
    """The rows of :func:`states` that gave up an operation, with ``timed``: whether its time was up. The watchdog gives
    up one in which NCCL reports an error, too, and tells no time that it ran."""
    rows, lines = states(run).drop_nulls("timed_out_seq"), causes(run)
    ran = pl.col("ran_ms").is_not_null() | pl.col("group").eq_missing(GLOO)
    told = rows.select(ran.any()).item() or not lines.select(plays(lines, "time-out").any()).item()
    return rows.with_columns(timed=ran if told else pl.lit(True))


def processes(run: Run) -> pl.DataFrame:
    """The processes that gave up an operation, by input and number (``input_id, rank``)."""
    return given_up(run).select("input_id", rank=WHO).unique()


def waited(run: Run, ranks: Collection[int]) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Which of the ranks waited until their time was up, and the shortest and the longest of their waits in seconds,
    where they had not one limit."""
    rank = WHO.alias("who")
    rows = given_up(run).select(rank, "timed", pl.col("ran_ms") / 1000).filter(pl.col("who").is_in(list(ranks)))
    took = rows["ran_ms"].drop_nulls().sort().to_list()
    apart = bool(took) and took[-1] - took[0] > _ONE_LIMIT * took[-1]
    return tuple(rows.filter("timed")["who"].unique().sort()), (took[0], took[-1]) if apart else ()


def apart(run: Run, ranks: Collection[int]) -> pl.DataFrame:
    """The rows of :func:`states` of these ranks in process groups in which nobody but them waits, in the order of
    their ranks: where they stand while others wait for them."""
    inside = [group.waits for group in groups(run) if group.name != UNNAMED and group.entered.issubset(ranks)]
    rows = pl.concat(inside, how="diagonal") if inside else states(run).clear()
    return rows.drop_nulls(["timed_out_seq", "op"]).sort(WHO)


def group_words(name: str) -> str:
    """``all ranks`` or ``process group 3``."""
    return "all ranks" if name == DEFAULT else f"process group {name}"


def _behind_restart(run: Run, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows without those in front of a restart in the same input, behind which a rank gave up once more."""
    if not run.has("restarts"):
        return rows
    again = run.table("restarts").group_by("input_id").agg(again=pl.col("line").max())
    rows = rows.join(again, on="input_id", how="left", maintain_order="left")
    behind, gave_up = pl.col("line") > pl.col("again"), pl.col("timed_out_seq").is_not_null()
    who = rows.filter(gave_up & pl.col("global_rank").is_not_null()).group_by("input_id", "global_rank")
    twice = who.agg(twice=behind.any() & ~behind.all()).filter("twice")["input_id"].unique()
    return rows.filter(behind.fill_null(True) | ~pl.col("input_id").is_in(twice.implode())).drop("again")


def _of_last(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of the last attempt: a rank that begins to wait after it had given up was started again."""
    since = pl.col("time_s") - pl.col("ran_ms").fill_null(pl.col("ran_ms").max()) / 1000
    waits = rows.with_columns(since=since).drop_nulls(["timed_out_seq", "global_rank", "since"]).sort("time_s")
    ended = pl.col("time_s").min().over("global_rank")
    again = waits.filter(pl.col("since") > ended + SKEW_S)
    if again.is_empty():
        return rows
    began = again["since"].to_list()
    ends = waits.join(again.group_by("global_rank").agg(last=pl.col("since").max()), on="global_rank")
    over = ends.filter(pl.col("time_s") + SKEW_S < pl.col("last"))["time_s"].max()
    first = min(s for s in began if s > over)
    return rows.filter((pl.col("time_s") >= first) | pl.col("time_s").is_null())


@fact
def groups(run: Run) -> tuple[Instance, ...]:
    """The process groups that the watchdog's lines speak of.

    Groups of one kind have one number in old lines; they are told apart by where their members are in the job.
    """
    return tuple(_groups(run))


@fact
def mixed(run: Run) -> bool:
    """Whether time-outs are of two attempts that nothing tells apart: a rank gave up two operations of one group, or
    many time-outs stand before a restart, and many behind it."""
    rows = states(run).drop_nulls("timed_out_seq")
    if _went_on(run):
        return True
    seq, own = (
        pl.col("timed_out_seq"),
        rows.drop_nulls("global_rank").group_by("input_id", "group", "rank", "global_rank"),
    )
    # Where lines name no group, numbers far apart are of two.
    one = (pl.col("group") != UNNAMED) | (seq.max() - seq.min() <= _CLOSE)
    twice = not own.agg(twice=(pl.len() > 1) & one.all()).filter("twice").is_empty()
    again = run.table("restarts").group_by("input_id").agg(again=pl.col("line").max()) if run.has("restarts") else None
    if twice or again is None:
        return twice
    behind = rows.join(again, on="input_id").select(pl.col("line") > pl.col("again")).to_series().to_list()
    return bool(behind) and len(behind) <= 4 * min(sum(behind), len(behind) - sum(behind))


def _went_on(run: Run) -> bool:
    """Whether a rank gave up, and gave up once more behind further steps of the program: it was started again."""
    steps = run.table("endings").filter(pl.col("kind") == STEP).group_by("input_id").agg(step=pl.col("line").max())
    if run.has("restarts") or steps.is_empty():
        return False
    lines = causes(run).filter(plays(causes(run), "time-out")).drop_nulls("rank").join(steps, on="input_id")
    behind = lines.group_by("input_id", "rank").agg(behind=pl.col("line") > pl.col("step"))["behind"]
    return bool((behind.list.any() & ~behind.list.all()).any())


def _groups(run: Run) -> Iterator[Instance]:
    if states(run).is_empty() or mixed(run):
        return
    placed = states(run).with_columns(
        # What ended nobody waits in any more.
        timed_out_seq=pl.when(
            (pl.col("timed_out_seq") > pl.col("last_completed")) | pl.col("last_completed").is_null()
        ).then("timed_out_seq")
    )
    # The line that names the group of a time-out follows it: it lacks where the input of one rank was cut there.
    nameless = pl.col("group") == UNNAMED
    if placed.select((~(nameless | (pl.col("group") == GLOO))).any()).item():
        cut = placed.filter(nameless & pl.col("global_rank").is_not_null())
        if cut.height:
            yield Instance(UNNAMED, cut, frozenset(), True, False)
        placed = placed.join(cut, on=["input_id", "line"], how="anti", maintain_order="left")
    # Torch before 2.3 names no groups: groups of one kind mostly stand at one number.
    of_kind = pl.lit(_AT) + pl.col("timed_out_seq").cast(pl.String)
    unnamed = nameless & pl.col("global_rank").is_not_null()
    apart = (pl.col("timed_out_seq").max() - pl.col("timed_out_seq").min()).over("group") > _CLOSE
    unnamed &= (pl.col("rank") != pl.col("global_rank")).any().over("group") | apart
    placed = placed.with_columns(group=pl.when(unnamed).then(pl.coalesce(of_kind, "group")).otherwise("group"))
    kind = pl.col("group").str.replace(r" \(.*$", "")
    kinds = placed.with_columns(kind=kind).partition_by("kind", maintain_order=True)
    fits = _fitting(run, {str(rows["kind"][0]): rows for rows in kinds})
    for rows in kinds:
        how = fits.get(str(rows["kind"][0]))
        rows = _with_reported(rows, how) if how is not None and rows["global_rank"].null_count() else rows
        for part in rows.drop("kind").partition_by("group", maintain_order=True):
            yield from _split(run, part, how)


def _with_reported(rows: pl.DataFrame, how: Grid) -> pl.DataFrame:
    """The rows with the ranks of the job of those that a report names, by where the rank above it is."""
    rows = rows.sort("input_id", "line")
    above = pl.col("global_rank").forward_fill().over("input_id")
    places = [
        place if place is None or not told else dict(enumerate(sorted(how.members(place)))).get(rank)
        for rank, place, told in rows.select("rank", above, told=pl.col("global_rank").is_null()).iter_rows()
    ]
    return rows.with_columns(global_rank=pl.Series(places, dtype=rows["global_rank"].dtype))


def _fitting(run: Run, kinds: Mapping[str, pl.DataFrame]) -> Mapping[str, Grid | None]:
    """How the groups of each kind lie in the job. Of a job whose size no line tells, the smallest size that all fit."""
    known = places(run)
    own = {name: rows for name, rows in kinds.items() if name not in (DEFAULT, UNNAMED)}
    pairs = {name: list(rows.select("global_rank", "rank").drop_nulls().iter_rows()) for name, rows in own.items()}
    most = max(least_world(run), max((*known.ranks, *known.rank_of_input.values()), default=-1) + 1)
    told = (_size(kinds[DEFAULT]) if DEFAULT in kinds else 0) or known.world
    # The last rank may be the silent one: jobs of odd sizes are rare.
    sizes = {most + most % 2, most + -most % BLOCK} if pairs else {most}
    worlds = (told,) if told >= most > 0 else sorted(sizes)
    found: list[dict[str, Grid | None]] = [
        {
            DEFAULT: Grid(1, world, only=told > 0 or world % 2 == 0),
            **{name: _grid(rows, pairs[name], world) for name, rows in own.items()},
        }
        for world in worlds
        if most > 1
    ]
    return _agreed(found, pairs) if found else {}


def _agreed(
    found: Sequence[Mapping[str, Grid | None]], pairs: Mapping[str, Collection[tuple[int, int]]]
) -> Mapping[str, Grid | None]:
    """Of the grids of kinds by sizes of the job those that explain most numbers, without those that differ by size."""
    told_by = [sum(len(pairs.get(name, ())) for name, how in grids.items() if how is not None) for grids in found]
    best = [grids for grids, count in zip(found, told_by, strict=True) if count == max(told_by)]
    # Where one rank alone has a number in groups of a kind, all sizes have to agree on its mates.
    sure = {name: found if len(pairs.get(name, ())) < 2 else best for name in best[0]}
    return {name: how for name, how in best[0].items() if _agree(pairs.get(name, ()), [f[name] for f in sure[name]])}


def _grid(rows: pl.DataFrame, pairs: Collection[tuple[int, int]], world: int) -> Grid | None:
    """The grid of a kind of groups in a job of so many ranks. One number alone tells no size."""
    size, told = _size(rows), rows.select("global_rank", "group").drop_nulls().iter_rows()
    named = [(rank, name) for rank, name in told if " (" in name]
    return grid(pairs, world, size, named) if len(pairs) > 1 or size else None


@fact
def least_world(run: Run) -> int:
    """How many ranks the job has at least: behind each that gave up stand the other members of its group, in order; and
    each host has as many as the highest local rank.

    Where one rank alone gave up nothing tells how many others there are. Groups of neighbors are all as large.
    """
    several = pl.lit(1 + (states(run)["global_rank"].drop_nulls().n_unique() > 1))
    members = pl.max_horizontal(several, pl.col("group_size"), pl.col("rank") + 1)
    least = pl.col("global_rank") + (members - pl.col("rank")).fill_null(1)
    known, tags = places(run), run.table("errors").select("input_id", _LABELS).drop_nulls().unique().iter_rows()
    local = {**known.local_of_input, **{i: n for i, tag in tags if (n := read_tag(tag).local_rank) is not None}}
    hosts = {known.host_of_input.get(i) for i in alike(run, local)} - {None}
    started = max(len(known.local_of_input), len(hosts) * (1 + max(local.values(), default=-1)))
    first = (pl.col("global_rank") - pl.col("rank")).alias("first")
    near = states(run).group_by("group", first).agg(pl.col("rank").max(), pl.col("rank").n_unique().alias("members"))
    near = near.filter(pl.col("members") >= _NEIGHBORS, pl.col("first") >= 0)
    ends = near.group_by("group").agg(pl.col("first").max() + pl.col("rank").max() + 1)["first"].to_list()
    return max([int(states(run).select(least.max().fill_null(0)).item()), started, *map(int, ends)])


def alike(run: Run, inputs: Iterable[int]) -> frozenset[int]:
    """The inputs whose paths are those of these but for numbers."""
    forms = run.table("inputs").select("input_id", form=pl.col("path").str.replace_all("[0-9]+", "#"))
    told = forms.filter(pl.col("input_id").is_in(list(inputs)))["form"]
    return frozenset(forms.filter(pl.col("form").is_in(told.implode()))["input_id"])


def _agree(pairs: Iterable[tuple[int, int]], grids: Sequence[Grid | None]) -> bool:
    """Whether all grids put these ranks into the same groups."""
    return len({tuple(g.members(rank) for rank, _ in pairs) if g is not None else None for g in grids}) < 2


def _size(rows: pl.DataFrame) -> int:
    """The number of members of each group of a kind, 0 where it is not told."""
    sizes = {size for size in rows["group_size"].to_list() if size is not None}
    return int(sizes.pop()) if len(sizes) == 1 else 0


def _split(run: Run, rows: pl.DataFrame, how: Grid | None) -> Iterator[Instance]:
    """The groups among the rows of one name."""
    group, own_places = str(rows["group"][0]), rows["global_rank"].to_list()
    if group == UNNAMED or how is None or None in own_places:
        yield _as_one(run, group, rows)
        return
    parts = grouped((how.first(place), at) for at, place in enumerate(own_places))
    for first, part in parts.items():
        own = how.members(first)
        name = group if len(parts) == 1 else f"{group} of ranks {format_ranks(sorted(own))}"
        sized = _size(rows) == len(own)
        sure, more = places(run).world > 0 or sized, not (how.even or sized)
        here = rows if len(parts) == 1 else rows[part]
        yield Instance(name, here, own, True, True, whole=how.only and sure, larger=more)


def _as_one(run: Run, group: str, rows: pl.DataFrame) -> Instance:
    """The rows of a name as one group, where nothing tells which ranks of the job its groups have."""
    own_places, own_ranks, unnamed = rows["global_rank"].to_list(), rows["rank"].drop_nulls(), group == UNNAMED
    tagged = None not in own_places
    alike = bool((rows["rank"].is_null() | rows["rank"].eq_missing(rows["global_rank"])).all())
    same = alike if tagged else _by_local(run, rows)
    twice = own_ranks.n_unique() < own_ranks.len() or (not tagged and (_twice(run) or _mingled(rows)))
    seqs = rows["timed_out_seq"].drop_nulls().to_list()
    apart = unnamed and max(seqs, default=0) - min(seqs, default=0) > _CLOSE
    world = tagged or ((group == DEFAULT or (unnamed and same and not twice)) and not apart)
    everyone = world and not apart and group in (DEFAULT, UNNAMED)
    # A bare number may be a counter of each process (torch 2.3), that of other groups on other ranks.
    one = alike or own_ranks.len() < 2 if group.isdigit() else same or not unnamed
    members = _everyone(run, own_places) if everyone else frozenset()
    whole = places(run).world > 0 or not unnamed
    return Instance(group, rows, members, world, one and not (twice or apart), whole)


def _everyone(run: Run, spoke: Collection[int | None]) -> frozenset[int]:
    """All ranks of the job, by its size, else where those that speak are numbered without a gap."""
    return frozenset(range(places(run).world or (len(spoke) if set(spoke) == set(range(len(spoke))) else 0)))


@fact
def _twice(run: Run) -> bool:
    """Whether two processes of one input give up under one number, so that numbers are those in groups: each tells its
    own time that an operation ran."""
    lines = causes(run).filter(plays(causes(run), "time-out") & pl.col("launcher_rank").is_null())
    told = lines.drop_nulls(["rank", "seq", "duration_ms"]).group_by("input_id", "rank")
    return bool((told.agg(pl.struct("work_op", "seq", "duration_ms").n_unique())["work_op"] > 1).any())


def _mingled(rows: pl.DataFrame) -> bool:
    """Whether ranks wait in several operations, and those of an input of several processes are among those of others,
    as numbers in groups are."""
    rank, at = pl.col("rank"), ("op", "timed_out_seq")
    ends = rows.filter((rank.n_unique().over("input_id", *at) > 1).any().over("input_id"))
    several = rows.select(at).n_unique() > 1
    return several and _overlap(ends.group_by("input_id").agg(low=rank.min(), high=rank.max()))


def _overlap(ends: pl.DataFrame) -> bool:
    """Whether the ranks of an input, from ``low`` to ``high``, reach among those of another one."""
    rows = ends.sort("low").select("low", "high").iter_rows()
    return any(high >= low for (_, high), (low, _) in pairwise(rows))


def _by_local(run: Run, rows: pl.DataFrame) -> bool:
    """Whether the numbers of ranks may be those of the job, by the ranks on their hosts in the tags of a launcher."""
    tags = run.table("errors").select("input_id", "line", "launcher").drop_nulls()
    told = tags.join(rows.select("input_id", "line", "rank").drop_nulls(), on=["input_id", "line"])
    local = ((rank, read_tag(tag).local_rank) for tag, rank in told.select(_LABELS, "rank").unique().iter_rows())
    return all(rank >= place for rank, place in local if place is not None)


@fact
def reported(run: Run) -> frozenset[tuple[int, int]]:
    """The lines, by input, in which ranks report that others did not come."""
    return frozenset(run.table("errors").drop_nulls("rank_list").select("input_id", "line").iter_rows())


@fact
def cut_short(run: Run) -> frozenset[int]:
    """The inputs that end among the time-outs of several ranks: their last line is one, or the last rank says less
    behind it than the others, or less stands behind its last line than behind the last one of each other rank."""
    own, loud = ("input_id", "line", "rank"), causes(run)
    begins = plays(loud, "time-out")
    said = loud.with_columns(_begins=begins).filter(begins | plays(loud, "watchdog"))
    said = said.select(*own, begins=pl.when("_begins").then("line"))
    placed = states(run).select("input_id", "line", rank="global_rank", begins="line")
    lines = pl.concat([placed, said], how="vertical_relaxed").drop_nulls("rank")
    lines = lines.sort("input_id", "line", "begins", nulls_last=True, maintain_order=True)
    lines = lines.filter(pl.any_horizontal(pl.col("input_id", "line").ne_missing(pl.col("input_id", "line").shift())))
    if lines.is_empty():
        return frozenset()
    lines = lines.join(run.table("inputs").select("input_id", "lines"), on="input_id", maintain_order="left")
    behind = pl.coalesce(pl.col("line").shift(-1).over("input_id") - 1, "lines") - pl.col("line")
    ends = (
        lines.with_columns(behind=behind)
        .group_by("input_id", "rank")
        .agg(pl.len(), pl.col("line", "behind", "lines").last(), pl.col("begins").max())
        .sort("line")
    )
    found = ends.group_by("input_id").agg(
        pl.col("len", "behind", "lines").last(), pl.col("begins").max(), usual=pl.col("len").median(),
        least=pl.col("behind").slice(0, pl.len() - 1).min(), ranks=pl.len(),
    )  # fmt: skip
    # The line behind a time-out tells where its rank stood.
    among, less = pl.col("lines") - pl.col("begins") < 2, (pl.col("behind") < 2) & (pl.col("len") < pl.col("usual"))
    cut = (pl.col("ranks") > 1) & (among | less | (pl.col("behind") < pl.col("least")))
    return frozenset(found.filter(cut)["input_id"])


def whole(run: Run, silent: int) -> bool:
    """Whether nothing lacks of the inputs that hold time-outs (:func:`_complete`), and another one of their kind would
    hold more ranks than these."""
    inputs, most = _complete(run)
    return inputs == 1 or (inputs > 1 and silent < most)


@fact
def uneven(run: Run) -> frozenset[int]:
    """The inputs that hold time-outs of at least two ranks fewer than another one that holds those of several: their
    end may be lost."""
    told = _of_inputs(run)
    return frozenset(told.filter(pl.col("ranks") + 1 < pl.col("ranks").max())["input_id"])


@fact
def within(run: Run) -> frozenset[int]:
    """The one rank that lacks among those of an input, where inputs hold ranks in a row: its output is in that input.
    None where that one may be cut, or an input does not hold the death of each process that gave up."""
    told = _of_inputs(run).filter(pl.col("ranks") > 1)
    if uneven(run) or not _complete(run)[0] or _overlap(told):
        return frozenset()
    gave_up = {*states(run).drop_nulls("timed_out_seq")["global_rank"].drop_nulls()}
    ends = told.select("input_id", "low", "high").iter_rows()
    lacks = {rank: i for i, low, high in ends for rank in range(low, high + 1) if rank not in gave_up}
    cut = cut_short(run).intersection(lacks.values())
    return frozenset(lacks if len(lacks) == 1 and told.height > 1 and not cut else ())


def _of_inputs(run: Run) -> pl.DataFrame:
    """How many ranks give up in each input, the lowest and the highest: ``input_id, ranks, low, high``."""
    rank, rows = pl.col("global_rank"), states(run).drop_nulls(["timed_out_seq", "global_rank"])
    return rows.group_by("input_id").agg(ranks=rank.n_unique(), low=rank.min(), high=rank.max())


@fact
def _complete(run: Run) -> tuple[int, int]:
    """How many inputs hold time-outs, and of how many ranks one at most; zeros where one of them does not hold the
    death of as many processes as gave up."""
    died = run.table("errors").drop_nulls("cpp_exception").group_by("input_id").agg(pl.col("repeats").sum())
    told = processes(run).group_by("input_id").agg(ranks=pl.len()).join(died, on="input_id", how="left")
    if told.is_empty() or not (told["repeats"].fill_null(0) >= told["ranks"]).all():
        return 0, 0
    return told.height, int(told.select(pl.col("ranks").max()).item())


def begun(run: Run) -> Mapping[tuple[int, int], float]:
    """When what the watchdog gave up was issued, in seconds since 1970, by input and line of the time-out: the wait
    begins there, not where the time was up. The same of a watchdog that was stuck itself."""
    rows = states(run).select("input_id", "line", "time_s", pl.col("ran_ms") / 1000)
    stuck = causes(run).select("input_id", "line", "time_s", pl.col("stuck_s").cast(pl.Float64).alias("ran_ms"))
    both = pl.concat([rows, stuck], how="vertical_relaxed").drop_nulls()
    return {(int(i), int(n)): float(t) - float(s) for i, n, t, s in both.iter_rows()}


@dataclass(frozen=True)
class Apart:
    """A rank whose number is far below that of all others (``others``, the first at ``others_seq``), where lines name
    no process group: it is behind, or of another group."""

    rank: int
    op: str
    seq: int
    others: tuple[int, ...]
    others_seq: int
    first_s: float | None
    evidence: tuple[Ref, ...]


@fact
def far_apart(run: Run) -> Apart | None:
    """The one rank that stands apart from all others in operations of one name, if there is one."""
    rows = states(run).filter(pl.col("group") == UNNAMED).drop_nulls(["rank", "timed_out_seq", "op"])
    oldest = rows.sort("timed_out_seq").unique("rank", keep="first", maintain_order=True)
    if oldest.height < 2 or oldest["op"].n_unique() > 1:
        return None
    low, high, *_ = seqs = oldest["timed_out_seq"].to_list()
    if high - low <= _CLOSE or seqs[-1] - high > _CLOSE:
        return None
    row, others = oldest.row(0, named=True), tuple(sorted(oldest["rank"].to_list()[1:]))
    return Apart(row["rank"], row["op"], low, others, high, row["time_s"], refs(oldest))


@dataclass(frozen=True)
class Odd:
    """Ranks of the job that time out in another operation, size or number than all others of their group.

    ``others``: those ranks, where they are as many, so that neither side is the odd one. ``numbers``: those that the
    collectives have in the group.
    """

    group: str
    numbers: tuple[int, ...]
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    called: str
    usual: str
    where: str
    others: tuple[int, ...]
    first_s: float | None
    evidence: tuple[Ref, ...]


# Operations that every rank of a group issues, and those of them in which all pass as many elements.
_OF_ALL: Final = words("""ALLREDUCE BROADCAST REDUCE ALLGATHER _ALLGATHER_BASE REDUCE_SCATTER _REDUCE_SCATTER_BASE
    ALLTOALL ALLTOALL_BASE BARRIER""")
_ONE_SIZE: Final = ("ALLREDUCE", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE")
# A rank finishes the last operation that a broken network lets through, and no second one.
_FINISHED: Final = 2


@fact
def odd_calls(run: Run) -> tuple[Odd, ...]:
    """Ranks that wait under the number of all others in another operation, or that finished what the others wait in."""
    return tuple(_odd_calls(run))


def _odd_calls(run: Run) -> Iterator[Odd]:
    size = pl.col("numel").cast(pl.String)
    sized = pl.when(pl.col("op").is_in(list(_ONE_SIZE)) & size.is_not_null()).then(
        pl.format("{} of {} elements", "op", size)
    )
    for group in groups(run):
        # Several groups of which no line tells the name may stand at one number.
        if group.name.startswith(_AT):
            continue
        part, named = group.waits, not group.name.startswith(UNNAMED)
        known = bool(part["op"].is_in(list(_OF_ALL)).fill_null(False).all())
        if part.height < 2 or not (known and group.world and (group.comparable or named)):
            continue
        numbers = part["timed_out_seq"].unique().sort().to_list()
        apart = len(numbers) == 2 and numbers[1] - numbers[0] >= _FINISHED and not group.behind.height
        calls = part.with_columns(call=pl.format("{} {}", "op", "timed_out_seq") if apart else pl.coalesce(sized, "op"))
        counted = calls.group_by("call").len().sort("len", "call", descending=True)
        if counted.height != 2 or not (len(numbers) == 1 or (apart and named)):
            continue
        usual, called = counted["call"].to_list()
        tied = counted["len"][0] == counted["len"][1]
        if tied and not named and _size(part) != part.height:
            continue
        late, most = calls.filter(pl.col("call") == called), calls.filter(pl.col("call") == usual)
        ranks = tuple(sorted(group.ranks(late)))
        place = "" if apart else f" (collective {numbers[0]})"
        hosts, peers = places(run).hosts(ranks), tuple(sorted(group.ranks(most))) if tied else ()
        seen = (*refs(late, 2), *refs(most, 2))
        yield Odd(group.name, tuple(numbers), ranks, hosts, str(called), str(usual), place, peers, group.first_s, seen)
