"""Which jobs, and which attempts of a job, the inputs hold.

Communicators tie processes together; what no communicator ties together can still be one job. Another job, or another
attempt, is only assumed where something says so: in one input a rank that begins anew in another process while none
of the earlier processes goes on, in several inputs communicators of other sizes, other releases or on the same GPUs.
An earlier part of one input is an attempt where the launcher says that it starts the workers again, or where it failed;
else it is a job of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import polars as pl

from nccl_insight.base import late
from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Ref
from nccl_insight.facts.who.parts.rows import PartTables, Span
from nccl_insight.facts.who.parts.worlds import World, worlds_of
from nccl_insight.tables.run import Run, fact

MOST_PARTS: Final = 16
_ATTEMPT: Final = late.compiled(r"(?i)(?:^|[/\\])(?:attempt|restart)[_-]?([0-9]+)(?=[/\\.]|$)")


@dataclass(frozen=True)
class Part:
    """One attempt of one job; both are counted from 1. ``judged``: the last attempt of its job."""

    job: int
    attempt: int
    spans: tuple[Span, ...]
    judged: bool
    begins: Ref | None = None


@fact
def parts(run: Run) -> tuple[Part, ...]:
    """The attempts of all jobs in order; one part, without spans, where the inputs are one attempt of one job."""
    whole = (Part(1, 1, (), True),)
    worlds = worlds_of(run)
    if not 1 < len(worlds) <= MOST_PARTS:
        return whole
    return tuple(_numbered(run, worlds))


@fact
def part_run(run: Run, part: Part) -> Run:
    """The run with the rows of one part only."""
    if not part.spans:
        return run
    return Run(PartTables(run, part.spans), run.reader, run.inputs, run.asked)


def _place_in_path(paths: Mapping[int, str], world: World) -> int | None:
    """The number of the attempt that the launcher's folder names, where all inputs agree."""
    found = {int(m[-1]) for s in world.spans if (m := _ATTEMPT.findall(paths.get(s.input_id, "")))}
    return found.pop() if len(found) == 1 else None


def _numbered(run: Run, worlds: Sequence[World]) -> Iterator[Part]:
    paths = {int(i): str(p) for i, p in run.table("inputs").select("input_id", "path").iter_rows()}
    named = [_place_in_path(paths, w) for w in worlds]
    if None not in named and len(set(named)) == len(named):
        order = sorted(range(len(worlds)), key=lambda n: named[n] or 0)
        chains = [[worlds[n] for n in order]]
    else:
        chains = []
        for world in worlds:
            for chain in chains:
                last = chain[-1]
                alike = last.size == world.size or not last.size or bool(last.gpus & world.gpus)
                if last.inputs & world.inputs and (last.restarted or (last.failed and alike)):
                    chain.append(world)
                    break
            else:
                chains.append([world])
    for job, chain in enumerate(chains, start=1):
        for attempt, world in enumerate(chain, start=1):
            yield Part(job, attempt, world.spans, attempt == len(chain), _first_line(run, world))


def _first_line(run: Run, world: World) -> Ref | None:
    ranks = run.table("ranks").filter(pl.col("comm_id").is_in(sorted(world.comms))).drop_nulls("line")
    for input_id, line in ranks.sort("input_id", "line").select("input_id", "line").head(1).iter_rows():
        return Ref(int(input_id), int(line))
    span = world.spans[0]
    return Ref(span.input_id, max(span.first, 1))
