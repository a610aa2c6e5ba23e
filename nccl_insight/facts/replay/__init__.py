"""What would the job take if a rank, host, link or step were as its peers?

The recorded job of all ranks is run again on its own dependencies (kernels, streams, collectives, transfers) with
some durations replaced; the difference is what mending them gains. After Lin et al., "Understanding Stragglers in
Large Model Training Using What-if Analysis", OSDI 2025.
"""

import itertools
from collections.abc import Mapping
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass, field, replace
from nccl_insight.facts.replay.barriers import with_barriers
from nccl_insight.facts.replay.order import order
from nccl_insight.facts.replay.passes import Change, Replay
from nccl_insight.facts.replay.peers import compared, excess_of, places, roles
from nccl_insight.facts.replay.recorded import recorded
from nccl_insight.facts.replay.scenarios import (
    IDLE,
    TRANSFERS,
    Scenario,
    evenly,
    ideal,
    of_ranks,
    of_stages,
    of_steps,
    of_transfers,
)
from nccl_insight.facts.replay.timeline import Timeline, gpu_work, timeline
from nccl_insight.tables.run import Run, Tables, fact

__all__ = ["BASE_ERROR", "IDLE", "LATE", "TRANSFERS", "WIRE", "Gain", "Scenario", "WhatIf", "what_if"]

BASE_ERROR: Final = 0.02
LATE: Final = frozenset({"rank", "ranks", "host", "compute"})
WIRE: Final = frozenset({"group", "pair", "rail"})
"""Kinds of scenarios: ranks, hosts and stages by their own work, and transfers."""
_LEAST: Final = 0.01
_LEAST_COARSE: Final = 0.03
_LEAST_ON_CPU: Final = 0.05
_EQUAL: Final = 0.01
_UNEVEN: Final = 0.1
_UNEVENLY: Final = 0.05
_SCATTERED: Final = 0.03
_WORK: Final = 0.02
_MUCH: Final = 0.1
_MUCH_ON_CPU: Final = 0.5
_ROUNDS: Final = 6
_UNIONS: Final = ("ranks", "rail")


@dataclass(frozen=True)
class Gain:
    """A scenario with what it gains over the recorded time.

    ``alone_ns``: mended alone; ``gain_ns``: together with everything before it in the list; ``step_ns``: the time of a
    step then.
    """

    scenario: Scenario
    alone_ns: int
    gain_ns: int
    gain_share: float
    step_ns: int


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
    """The scenarios in the order in which to mend."""
    return what_if(run).gains


def _part(run: Run, inputs: pl.Series) -> Run:
    names = ("gpu_work", "collectives", "trace_info")
    kept = {n: run.table(n).filter(pl.col("input_id").is_in(inputs.implode())) for n in names if run.has(n)}
    return Run(Tables(kept, {}))


def _of_job(run: Run) -> WhatIf:
    if run.has("gpu_work"):
        found = _of_work(run, gpu_work(run))
        if not found.refused:
            return found
    # Where the GPUs' work says too little, what ranks do between their collectives counts as theirs.
    return replace(_of_work(run, recorded(run), coarse=True), coarse=True)


def _of_work(run: Run, work: pl.DataFrame | str, coarse: bool = False) -> WhatIf:
    line = work if isinstance(work, str) else timeline(run, work, coarse)
    if isinstance(line, str):
        return WhatIf(refused=line)
    role = roles(line)
    line = with_barriers(line, role)
    dependencies = order(line)
    window = float(line.end.max())
    try:
        replay = Replay(line, dependencies, lone_wait=False)
        if abs(float(replay.spans([Change.none()])[0]) / window - 1) > BASE_ERROR:
            replay = Replay(line, dependencies)
    except ValueError as error:
        return WhatIf(ranks=len(line.ranks), refused=str(error))
    rows = places(line, dependencies, role)
    each, alone_in_role = compared(line, rows)
    candidates = [
        *of_ranks(line, each, alone_in_role, window),
        *of_stages(line, rows, window),
        *of_transfers(line, replay, window),
        *of_steps(line, rows, replay, window),
    ]
    on_cpu = coarse and _on_cpu(run)
    candidates = [c for c in candidates if not (on_cpu and c.uneven)]
    spans = replay.spans([Change.none(), ideal(line, rows, replay), *(c.change for c in candidates)])
    base = float(spans[0])
    off = base / window - 1
    found = WhatIf(
        window_ns=round(window),
        ideal_ns=round(float(spans[1])),
        base_error=off,
        ranks=len(line.ranks),
        steps=line.steps,
        excess=excess_of(line, each),
    )
    if abs(off) > BASE_ERROR:
        return replace(found, refused=f"the replay differs from the recording by {abs(off):.0%}")
    met = len(line.groups)
    if line.unmatched > met * 2:
        return replace(found, refused="most collectives have no partners in the other traces")
    tried = [(c, base - float(span)) for c, span in zip(candidates, spans[2:], strict=True)]
    tried = [
        (c, saved) for c, saved in tried if saved >= window * (_UNEVENLY if c.uneven else _here_and_there(c.steps))
    ]
    candidates, alone = [c for c, _ in tried], [saved for _, saved in tried]
    worked = float((line.end - line.start)[~line.comm].sum())
    if worked < _WORK * window * len(line.ranks):
        return replace(found, refused="the traces hold next to no compute, only communication")
    least, much = (_LEAST_ON_CPU, _MUCH_ON_CPU) if on_cpu else (_LEAST, _MUCH)
    replayed = _Replayed(replay, line, base, window)
    both = [_greedy(replayed, candidates, alone, least, unions=unions) for unions in (False, True)]
    # Several at once only where none of them gains by itself.
    single, several = (_in_all(gains) for gains in both)
    best = both[several > single + max(least * window, much * several)]
    # Uneven work without a guilty rank: only what no rank, link or step explains.
    rest = [] if on_cpu else evenly(line, rows)
    saved = [base - float(s) for s in replay.spans([s.change for s in rest])] if rest else []
    if max(saved, default=0.0) >= max(_UNEVEN * window, 2 * _in_all(best)):
        steady = tuple(g for g in best if g.scenario.kind in LATE and not g.scenario.steps)[:1]
        best = _greedy(replayed, rest, saved, least, unions=True, ahead_of=steady)
    return replace(found, gains=_from_on(best, _LEAST_COARSE * window) if coarse else best)


def _from_on(gains: tuple[Gain, ...], least: float) -> tuple[Gain, ...]:
    """The gains up to the first that adds less than that to those before it."""
    before = (0, *(g.gain_ns for g in gains))
    own = zip(gains, before, strict=False)
    return tuple(g for g, _ in itertools.takewhile(lambda part: part[0].gain_ns - part[1] >= least, own))


def _here_and_there(steps: tuple[int, ...]) -> float:
    """The least share that a scenario has to gain: more where it is in some steps without any order."""
    apart = {b - a for a, b in itertools.pairwise(steps)}
    return _SCATTERED if len(apart) > 1 else 0.0


def _on_cpu(run: Run) -> bool:
    """Whether CPUs communicate, whose scheduling makes work uneven anyhow."""
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

    def gain(self, scenario: Scenario, alone: float, ahead: float) -> Gain:
        """What a scenario gains by itself and with those before it."""
        left = round((self.base_ns - ahead) / self.line.steps)
        return Gain(scenario, round(alone), round(ahead), ahead / self.window_ns, left)


def _greedy(
    job: _Replayed,
    candidates: list[Scenario],
    alone: list[float],
    least: float,
    *,
    unions: bool,
    ahead_of: tuple[Gain, ...] = (),
) -> tuple[Gain, ...]:
    """What gains most first, then what gains most beside it, until less than the share ``least`` is left.

    ``ahead_of``: what is mended before.
    """
    chosen = list(ahead_of)
    change = Change.none()
    for gain in chosen:
        change = change.joined(gain.scenario.change)
    left = [i for i, c in enumerate(candidates) if unions or c.kind not in _UNIONS]
    before = float(_in_all(ahead_of))
    ahead = alone
    for turn in range(_ROUNDS):
        if turn or chosen:
            spans = job.replay.spans([candidates[i].change.joined(change) for i in left])
            ahead = [0.0] * len(candidates)
            for i, span in zip(left, spans, strict=True):
                ahead[i] = job.base_ns - float(span)
        best = max((ahead[i] for i in left), default=0.0)
        if best - before < least * job.window_ns:
            break
        equal = [i for i in left if ahead[i] >= best - _EQUAL * job.window_ns]
        pick = min(equal, key=lambda i: (len(candidates[i].ranks or job.line.ranks), -ahead[i]))
        chosen.append(job.gain(candidates[pick], alone[pick], ahead[pick]))
        change = change.joined(candidates[pick].change)
        before = ahead[pick]
        left = [i for i in left if i != pick and not _within(candidates[i], candidates[pick])]
    return tuple(chosen)


def _within(part: Scenario, whole: Scenario) -> bool:
    """Whether a scenario mends nothing that another one does not."""
    if part.kind == "step" or whole.kind == "step":
        return False
    return (part.kind in WIRE) == (whole.kind in WIRE) and set(part.ranks) <= set(whole.ranks)
