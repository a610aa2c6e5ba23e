"""What would the job take if a rank, host, link or step were as its peers?

The recorded job of all ranks is run again on its own dependencies (kernels, streams, collectives, transfers) with
some durations replaced; the difference is what mending them gains. After Lin et al., "Understanding Stragglers in
Large Model Training Using What-if Analysis", OSDI 2025.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nccl_insight.facts.replay.barriers import with_barriers
from nccl_insight.facts.replay.order import order
from nccl_insight.facts.replay.passes import Change, Replay
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
    places,
    roles,
)
from nccl_insight.facts.replay.timeline import Timeline, timeline
from nccl_insight.tables.run import Run, fact

__all__ = ["BASE_ERROR", "IDLE", "TRANSFERS", "Gain", "Scenario", "WhatIf", "what_if"]

BASE_ERROR: Final = 0.02
_LEAST: Final = 0.01
_EQUAL: Final = 0.01
_UNEVEN: Final = 0.1
_WORK: Final = 0.02
_MUCH: Final = 0.1
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
    scenario is given.
    """

    gains: tuple[Gain, ...] = ()
    window_ns: int = 0
    ideal_ns: int | None = None
    base_error: float | None = None
    ranks: int = 0
    steps: int = 0
    refused: str = ""


@fact
def what_if(run: Run) -> WhatIf:
    """What mending would gain in the traces of a run."""
    line = timeline(run)
    if isinstance(line, str):
        return WhatIf(refused=line)
    role = roles(line)
    line = with_barriers(line, role)
    dependencies = order(line)
    try:
        replay = Replay(line, dependencies)
    except ValueError as error:
        return WhatIf(ranks=len(line.ranks), refused=str(error))
    window = float(line.end.max())
    rows = places(line, dependencies, replay, role)
    candidates = [
        *of_ranks(line, rows, window),
        *of_stages(line, rows, window),
        *of_transfers(line, replay, window),
        *of_steps(line, rows, replay, window),
    ]
    spans = replay.spans([Change.none(), ideal(line, rows, replay), *(c.change for c in candidates)])
    base = float(spans[0])
    off = base / window - 1
    found = WhatIf(
        window_ns=round(window),
        ideal_ns=round(float(spans[1])),
        base_error=off,
        ranks=len(line.ranks),
        steps=line.steps,
    )
    if abs(off) > BASE_ERROR:
        return _replaced(found, refused=f"the replay differs from the recording by {abs(off):.0%}")
    met = len(line.groups)
    if line.unmatched > met * 2:
        return _replaced(found, refused="most collectives have no partners in the other traces")
    alone = [base - float(span) for span in spans[2:]]
    worked = float((line.end - line.start)[~line.comm].sum())
    if worked < _WORK * window * len(line.ranks):
        return _replaced(found, refused="the traces hold next to no compute, only communication")
    both = [_greedy(replay, candidates, alone, base, window, line, unions=unions) for unions in (False, True)]
    # Several at once only where none of them gains by itself.
    single, several = (_in_all(gains) for gains in both)
    best = both[several > single + max(_EQUAL * window, _MUCH * several)]
    # Uneven work without a guilty rank: only what no rank, link or step explains.
    rest = evenly(line, rows)
    saved = [base - float(s) for s in replay.spans([s.change for s in rest])] if rest else []
    if max(saved, default=0.0) >= max(_UNEVEN * window, 2 * _in_all(best)):
        best = _greedy(replay, rest, saved, base, window, line, unions=True)
    return _replaced(found, gains=best)


def _in_all(gains: tuple[Gain, ...]) -> int:
    return gains[-1].gain_ns if gains else 0


def _replaced(found: WhatIf, *, gains: tuple[Gain, ...] = (), refused: str = "") -> WhatIf:
    return WhatIf(gains, found.window_ns, found.ideal_ns, found.base_error, found.ranks, found.steps, refused)


def _greedy(
    replay: Replay,
    candidates: list[Scenario],
    alone: list[float],
    base: float,
    window: float,
    line: Timeline,
    *,
    unions: bool,
) -> tuple[Gain, ...]:
    """What gains most first, then what gains most beside it, until less than one percent is left."""
    chosen: list[Gain] = []
    change = Change.none()
    left = [i for i, c in enumerate(candidates) if unions or c.kind not in _UNIONS]
    before = 0.0
    ahead = alone
    for turn in range(_ROUNDS):
        if turn:
            spans = replay.spans([candidates[i].change.joined(change) for i in left])
            ahead = [0.0] * len(candidates)
            for i, span in zip(left, spans, strict=True):
                ahead[i] = base - float(span)
        best = max((ahead[i] for i in left), default=0.0)
        if best - before < _LEAST * window:
            break
        equal = [i for i in left if ahead[i] >= best - _EQUAL * window]
        pick = min(equal, key=lambda i: (_people(candidates[i], line), -ahead[i]))
        chosen.append(_gain(candidates[pick], alone[pick], ahead[pick], base, window, line))
        change = change.joined(candidates[pick].change)
        before = ahead[pick]
        left = [i for i in left if i != pick and not _within(candidates[i], candidates[pick])]
    return tuple(chosen)


def _people(scenario: Scenario, line: Timeline) -> int:
    return len(scenario.ranks) if scenario.ranks else len(line.ranks)


def _within(part: Scenario, whole: Scenario) -> bool:
    """Whether a scenario mends nothing that another one does not."""
    if part.kind == "step" or whole.kind == "step":
        return False
    wire = ("group", "pair", "rail")
    return (part.kind in wire) == (whole.kind in wire) and set(part.ranks) <= set(whole.ranks)


def _gain(scenario: Scenario, alone: float, ahead: float, base: float, window: float, line: Timeline) -> Gain:
    return Gain(scenario, round(alone), round(ahead), ahead / window, round((base - ahead) / line.steps))
