"""What would the job take if a rank, host, link or step were like its peers?

The recorded job of all ranks is run again on its own dependencies (kernels, streams, collectives, transfers) with
some durations replaced; the difference is what mending them gains. After Lin et al., "Understanding Stragglers in
Large Model Training Using What-if Analysis", OSDI 2025.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from nccl_insight.base import texts
from nccl_insight.base.data import dataclass, field, replace
from nccl_insight.facts.lateness.replay.barriers import with_barriers
from nccl_insight.facts.lateness.replay.order import Order, order
from nccl_insight.facts.lateness.replay.passes import Change, Replay
from nccl_insight.facts.lateness.replay.peers import compared, excess_of, nodes_of, roles
from nccl_insight.facts.lateness.replay.recorded import recorded
from nccl_insight.facts.lateness.replay.scenarios import (
    IDLE,
    TRANSFERS,
    WORDS,
    Scenario,
    evenly,
    ideal,
    of_ranks,
    of_stages,
    of_steps,
    of_transfers,
)
from nccl_insight.facts.lateness.replay.timeline import Refused, Timeline, gpu_work, timeline
from nccl_insight.facts.lateness.wire import missing_members
from nccl_insight.tables.run import Run, Tables, fact

__all__ = ["BASE_ERROR", "IDLE", "LATE", "TRANSFERS", "WIRE", "Gain", "Scenario", "WhatIf", "what_if"]

BASE_ERROR: Final = 0.02
LATE: Final = frozenset({"rank", "ranks", "host", "compute"})
WIRE: Final = frozenset({"group", "pair", "rail"})
"""Kinds of scenarios: ranks, hosts and stages by their own work, and transfers."""
_EQUAL: Final = 0.01
_UNEVEN: Final = 0.1
_UNEVENLY: Final = 0.05
_WORK: Final = 0.02
_ROUNDS: Final = 6
_UNIONS: Final = ("ranks", "rail")


@dataclass(frozen=True)
class _Limits:
    """Shares of the recorded time: the ``least`` that a mend gains beside those before it, and how ``much`` more
    several at once; ``uneven``: whether work can be uneven without a guilty rank."""

    least: float = 0.01
    much: float = 0.1
    uneven: bool = True


_WHOLE: Final = _Limits()
# Of collectives alone, without and with those of CPUs, whose scheduling makes work uneven anyhow.
_COARSE: Final = (_Limits(0.03), _Limits(0.05, 0.5, uneven=False))


@dataclass(frozen=True)
class Gain:
    """A scenario with what it gains over the recorded time.

    ``alone_ns``: mended alone; ``gain_ns``: together with everything before it in the list; ``own_ns``: beside it;
    ``step_ns, before_ns``: the time of a step (of all, without steps) with it and without it.
    """

    scenario: Scenario
    alone_ns: int
    gain_ns: int
    gain_share: float
    step_ns: int
    own_ns: int
    before_ns: int

    @property
    def share(self) -> float:
        """What it saves of the time before."""
        return 1 - self.step_ns / self.before_ns if self.before_ns else 0.0


@dataclass(frozen=True)
class WhatIf:
    """The scenarios in the order in which to mend, and how far the replay can be trusted.

    ``base_error``: difference of the replayed to the recorded time when nothing is changed; ``refused``: why no
    scenario is given; ``coarse``: of collectives alone. ``excess``: what each rank takes more than its
    peers in each step, nanoseconds.
    """

    gains: tuple[Gain, ...] = ()
    window_ns: int = 0
    ideal_ns: int | None = None
    base_error: float | None = None
    ranks: int = 0
    steps: int = 0
    refused: str = ""
    coarse: bool = False
    excess: Mapping[tuple[int, int], int] = field(default_factory=dict)

    @property
    def late(self) -> tuple[Gain, ...]:
        """What is late by its own work or pauses, not by transfers."""
        return tuple(g for g in self.gains if g.scenario.kind in LATE)


@fact
def what_if(run: Run) -> WhatIf:
    """What mending would gain in the traces of a run."""
    jobs = run.table("trace_info").drop_nulls("job").group_by("job").agg(pl.col("input_id")).sort("job")
    found = [_of_job(_part(run, inputs)) for inputs in jobs["input_id"]] if jobs.height > 1 else [_of_job(run)]
    # Of several jobs the one in which most is to be mended.
    return max(found, key=lambda w: (not w.refused, _in_all(w.gains) / max(w.window_ns, 1)))


@fact
def gains(run: Run) -> tuple[Gain, ...]:
    """The scenarios in the order in which to mend: the relation ``fact_what_if``."""
    return what_if(run).gains


def _part(run: Run, inputs: pl.Series) -> Run:
    names = ("gpu_work", "collectives", "trace_info", "steps")
    kept = {n: run.table(n).filter(pl.col("input_id").is_in(inputs.implode())) for n in names if run.has(n)}
    return Run(Tables(kept, {}))


def _of_job(run: Run) -> WhatIf:
    found = _mended(run) if run.has("gpu_work") else None
    # Where the GPUs' work says too little, what ranks do between their collectives counts as theirs.
    return _mended(run, coarse=True) if found is None or found.refused else found


def _mended(run: Run, *, coarse: bool = False) -> WhatIf:
    limits, found = _WHOLE, WhatIf(coarse=coarse)
    try:
        if coarse:
            limits = _COARSE[_on_cpu(run)]
            if _on_cpu(run) and missing_members(run):
                raise Refused("last")
        line = timeline(run, recorded(run) if coarse else gpu_work(run), coarse)
        found = replace(found, ranks=len(line.ranks), steps=line.steps, window_ns=round(line.end.max()))
        role = roles(line)
        line = with_barriers(line, role)
        dependencies = order(line)
        replay, base = _again(line, dependencies)
        rows = nodes_of(line, dependencies, role)
        each, alone_in_role = compared(line, rows)
        window = float(line.end.max())
        stages = of_stages(line, rows, window)
        whole = {s.ranks for s in stages if len(s.ranks) > 1}
        candidates = [
            *(c for c in of_ranks(line, each, alone_in_role, window) if c.kind != "ranks" or c.ranks not in whole),
            *stages,
            *of_transfers(line, replay, window),
            *of_steps(line, rows, replay, window),
        ]
        candidates = [c for c in candidates if limits.uneven or not c.uneven]
        even, *spans = replay.spans([ideal(line, rows, replay), *(c.change for c in candidates)]).tolist()
        job = _Replayed(replay, line, base, window)
        error = base / window - 1
        found = replace(found, ideal_ns=round(even), base_error=error, excess=excess_of(line, each))
        _trust(job)
        tried = [(c, base - span) for c, span in zip(candidates, spans, strict=True)]
        return replace(found, gains=_best(job, tried, rows, limits))
    except Refused as refused:
        return replace(found, refused=texts.filled(WORDS["refused"][refused.args[0]], refused.args[-1]))


def _again(line: Timeline, dependencies: Order) -> tuple[Replay, float]:
    """The replay, the one of two that reproduces the recording, and the time that it takes, ns."""
    for lone_wait in (False, True):
        replay = Replay(line, dependencies, lone_wait=lone_wait)
        base = float(replay.spans([Change()])[0])
        if abs(base / float(line.end.max()) - 1) <= BASE_ERROR:
            break
    return replay, base


def _trust(job: _Replayed) -> None:
    """Raises :class:`Refused` where a replay is not to be trusted."""
    line, off = job.line, abs(job.base_ns / job.window_ns - 1)
    if off > BASE_ERROR:
        raise Refused("differs", {"off": off})
    if line.unmatched > 2 * len(line.groups):
        raise Refused("unmatched")
    if float((line.end - line.start)[~line.comm].sum()) < _WORK * job.window_ns * len(line.ranks):
        raise Refused("no-compute")


def _best(job: _Replayed, tried: list[tuple[Scenario, float]], rows: pl.DataFrame, limits: _Limits) -> tuple[Gain, ...]:
    """What to mend, in order, of scenarios that save so much each."""
    tried = [(c, own) for c, own in tried if own >= (_UNEVENLY * job.window_ns if c.uneven else 0.0)]
    both = [_greedy(job, tried, limits.least, unions=unions) for unions in (False, True)]
    # Several at once only where none of them gains by itself.
    single, several = (_in_all(gains) for gains in both)
    best = both[several > single + max(limits.least * job.window_ns, limits.much * several)]
    # Uneven work without a guilty rank: only what no rank, link or step explains.
    rest = evenly(job.line, rows) if limits.uneven else []
    even = job.saved(rest)
    if max(even, default=0.0) >= max(_UNEVEN * job.window_ns, 2 * _in_all(best)):
        steady = tuple(g for g in best if g.scenario.kind in LATE and not g.scenario.steps)[:1]
        return _greedy(job, list(zip(rest, even, strict=True)), limits.least, ahead_of=steady)
    return best


def _on_cpu(run: Run) -> bool:
    """Whether CPUs communicate."""
    sources = run.table("collectives")["source"].cast(pl.String)
    return not sources.is_in(["kernel", "inspector"]).any()


def _in_all(gains: tuple[Gain, ...]) -> int:
    return gains[-1].gain_ns if gains else 0


@dataclass(frozen=True)
class _Replayed:
    """A recording and its replay: as long as ``base_ns`` where nothing is mended, ``window_ns`` as recorded."""

    replay: Replay
    line: Timeline
    base_ns: float
    window_ns: float

    def saved(self, scenarios: list[Scenario], beside: Change | None = None) -> list[float]:
        """What each saves, with what is mended ``beside`` it, ns."""
        changes = [s.change.joined(beside) if beside else s.change for s in scenarios]
        return [self.base_ns - float(span) for span in self.replay.spans(changes)]

    def gain(self, scenario: Scenario, alone: float, ahead: float, before: float) -> Gain:
        """What a scenario gains by itself and with those before it, which gain so much."""
        steps, own = self.line.steps, round(ahead) - round(before)
        left = round((self.base_ns - ahead) / steps)
        share = ahead / self.window_ns
        return Gain(scenario, round(alone), round(ahead), share, left, own, left + round(own / steps))


def _greedy(
    job: _Replayed,
    tried: list[tuple[Scenario, float]],
    least: float,
    *,
    unions: bool = True,
    ahead_of: tuple[Gain, ...] = (),
) -> tuple[Gain, ...]:
    """What gains most first, then what gains most beside it, until less than the share ``least`` is left.

    ``ahead_of``: what is mended before.
    """
    chosen = list(ahead_of)
    change = Change()
    for gain in chosen:
        change = change.joined(gain.scenario.change)
    left = [(c, own) for c, own in tried if unions or c.kind not in _UNIONS]
    before = float(_in_all(ahead_of))
    for _ in range(_ROUNDS):
        ahead = job.saved([c for c, _ in left], change) if chosen else [own for _, own in left]
        best = max(ahead, default=0.0)
        if best - before < least * job.window_ns:
            break
        equal = [i for i, gained in enumerate(ahead) if gained >= best - _EQUAL * job.window_ns]
        pick = min(equal, key=lambda i: (len(left[i][0].ranks or job.line.ranks), -ahead[i]))
        scenario, alone = left.pop(pick)
        chosen.append(job.gain(scenario, alone, ahead[pick], before))
        change = change.joined(scenario.change)
        before = ahead[pick]
    return tuple(chosen)
