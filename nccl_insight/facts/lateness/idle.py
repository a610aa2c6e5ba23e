"""Why a GPU stood idle: what its launching threads did meanwhile, more than those of its peers or of other steps.

After Guan et al., "PerfTracker: Online Performance Troubleshooting for Large-scale Model Training in Production":
functions whose behavior differs from that of other workers name the cause.
"""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from nccl_insight.base.data import dataclass, field
from nccl_insight.tables.run import Run, fact

if TYPE_CHECKING:
    from nccl_insight.readers.kineto.host import HostTrace

_GAP_NS: Final = 100_000
_TINY_NS: Final = 2_000
_PEERS: Final = 2
_MOST_BYTES: Final = 512 << 20
_MOSTLY: Final = 0.5
_AS_OFTEN: Final = 0.75
_NAMES: Final = 3
_WORTH: Final = 0.15
_DRAIN_NS: Final = 60_000
_DRAINS: Final = ("Synchronize", "Memcpy", "EventQuery")
_FOREIGN: Final = re.compile(r"torch/|<|.{0,200}site-packages")
_OF_TORCH: Final = re.compile(r"nccl:|c10d::|record_param_comms|ProfilerStep")
_ALLOCATES: Final = re.compile(r"(?:cuda|hip)(?:Malloc|Free)")
_PYTHON: Final = "python_function"
_MODULE: Final = "nn.Module: "
_TINY_SHARE: Final = 0.6
_SLOWER: Final = 1.5


@dataclass(frozen=True)
class Why:
    """``names``: calls and functions that stand in ``named_ns`` of the ``idle_ns`` that are more than usual.

    ``kind``: ``calls``, ``launches`` (each operation takes the CPU ``per_ns``, elsewhere ``others_ns``) or ``nothing``.
    ``drains``: they wait until the GPU has nothing left to do, which is idle afterwards. ``steps``: how many of those
    looked at have it. ``line``: the Python function of the user around it.
    """

    kind: str
    idle_ns: int
    named_ns: int = 0
    names: tuple[str, ...] = ()
    drains: bool = False
    steps: int = 0
    of_steps: int = 0
    line: str = ""
    per_ns: int = 0
    others_ns: int = 0


@dataclass(frozen=True)
class _Idle:
    """Idle time of one rank by step and by what its threads did: ``(name, drains) -> ns``.

    ``drained``: how often each call that waits for the GPU was made in a step, whether it stood idle behind it or not.
    """

    tiny_ns: int
    all_ns: int
    interval_ns: int
    by_step: dict[int, Counter[tuple[str, bool]]] = field(default_factory=dict)
    idle_ns: Counter[int] = field(default_factory=Counter)
    lines: dict[str, str] = field(default_factory=dict)
    drained: Counter[tuple[int, str]] = field(default_factory=Counter)


@fact
def why_idle(run: Run, ranks: tuple[int, ...], steps: tuple[int, ...] = ()) -> Why | None:
    """Why the GPUs of some ranks, or of all, wait for their CPUs; in ``steps`` against the others where given.

    None where the traces cannot be read again, hold no CPU events, or no GPU waits longer than usual.
    """
    files = _files(run)
    everyone = len(set(files) - set(ranks)) == 0
    late = next((r for r in ranks if r in files), None)
    if late is None:
        return None
    own = _idle_of(run, files[late])
    if own is None:
        return None
    if everyone:
        return _against_steps(own, steps) if steps else _as_it_is(own)
    others = [files[r] for r in sorted(files, key=lambda r: (abs(r - late), r)) if r not in ranks]
    peers = [p for p in (_idle_of(run, f) for f in others[:_PEERS]) if p is not None]
    return _against_peers(own, peers, steps) if peers else None


def _files(run: Run) -> dict[int, int]:
    """The input of each rank that is a Kineto trace of its own."""
    rows = run.table("gpu_work").select("rank", "input_id").drop_nulls().unique()
    alone = rows.filter(pl.len().over("input_id") == 1, pl.len().over("rank") == 1)
    kind = dict(run.table("inputs").select("input_id", pl.col("kind").cast(pl.String)).iter_rows())
    small = {i.input_id for i in run.inputs if i.size_bytes <= _MOST_BYTES and kind.get(i.input_id) == "torch_trace"}
    return {int(r): int(i) for r, i in alone.iter_rows() if i in small}


@fact
def _host_of(run: Run, input_id: int) -> HostTrace | None:
    """What the CPU did in a trace that is one of :func:`_files`."""
    from nccl_insight.readers.kineto.host import read_host

    return read_host(next(i for i in run.inputs if i.input_id == input_id))


def asked_from(run: Run, input_id: int, launched: Sequence[int]) -> list[str]:
    """The code around calls that launched something at ``launched`` (ns on the trace's clock), empty where the trace
    does not tell: a module, a function of the user, an annotation or the outermost operation, as far as recorded."""
    trace = _host_of(run, input_id) if input_id in _files(run).values() else None
    if trace is None or trace.launches.is_empty():
        return [""] * len(launched)
    work = run.table("gpu_work").filter(pl.col("input_id") == input_id)
    ahead: int = work["start_ns"].min() - trace.gpu["start_ns"].min()  # type: ignore[operator, assignment]
    thread = dict(trace.launches.select("at_ns", "tid").iter_rows())
    parts = {t: _self_times(trace.cpu.filter(pl.col("tid") == t)) for t in set(thread.values())}
    of = [(at - ahead, thread.get(at - ahead)) for at in launched]
    return ["" if tid is None else parts[tid].asked(at) for at, tid in of]


@fact
def _idle_of(run: Run, input_id: int) -> _Idle | None:
    trace = _host_of(run, input_id)
    if trace is None or trace.launches.is_empty():
        return None
    gaps = trace.gpu.select(begin=pl.col("end_ns").cum_max().shift(1), end="start_ns")
    gaps = gaps.with_columns(length=pl.col("end") - pl.col("begin")).filter(pl.col("length") > 0)
    tiny = gaps.filter(pl.col("length").is_between(_TINY_NS, _GAP_NS, closed="none"))["length"].sum()
    threads = trace.launches.group_by("tid").len().sort("len", descending=True)["tid"].head(4).to_list()
    parts = [_self_times(trace.cpu.filter(pl.col("tid") == t)) for t in threads]
    apart = trace.launches.select(pl.col("at_ns").diff().over("tid").median()).item()
    found = _Idle(int(tiny), int(gaps["length"].sum()), round(apart or 0))
    begun = trace.steps.select("step", end="start_ns")
    found.by_step.update((n, Counter()) for n in begun["step"].to_list() or [-1])
    long = gaps.filter(pl.col("length") >= _GAP_NS).join_asof(begun, on="end", check_sortedness=False)
    for first, last, number in long.select("begin", "end", pl.col("step").fill_null(-1)).iter_rows():
        found.idle_ns[number] += last - first
        took: Counter[tuple[str, bool]] = Counter()
        for part in parts:
            took.update(part.within(first, last, found.lines))
        drain = max((d for p in parts if (d := p.drained(first, found.lines))), default=None, key=lambda d: d[0])
        if drain is not None and sum(took.values()) < _MOSTLY * (last - first):
            took = Counter({(drain[1], True): last - first})
        found.by_step.setdefault(number, Counter()).update(took)
    drains = pl.DataFrame(
        [drain for part in parts for drain in part.drains()], {"end": pl.Int64, "label": pl.String}, orient="row"
    )
    within = drains.sort("end").join_asof(begun, on="end", check_sortedness=False)
    found.drained.update(within.select(pl.col("step").fill_null(-1), "label").iter_rows())
    return found


@dataclass(frozen=True)
class _Part:
    """One thread: pieces of time in which an event is the innermost one, and the chain of events around it."""

    start: np.ndarray
    end: np.ndarray
    event: np.ndarray
    around: list[int]
    names: list[str]
    cats: list[str]
    begins: np.ndarray
    ends: np.ndarray

    def within(self, first: int, last: int, lines: dict[str, str]) -> Counter[tuple[str, bool]]:
        """What stands in a gap, innermost."""
        found: Counter[tuple[str, bool]] = Counter()
        at = int(np.searchsorted(self.end, first, side="right"))
        while at < self.start.size and self.start[at] < last:
            share = min(int(self.end[at]), last) - max(int(self.start[at]), first)
            event = int(self.event[at])
            # What spans far more than the gap is where the program stands, not what it does.
            if share > 0 and self.ends[event] - self.begins[event] < 4 * (last - first):
                found[self._label(event, lines), False] += share
            at += 1
        return found

    def drained(self, first: int, lines: dict[str, str]) -> tuple[int, str] | None:
        """The call that ended as the gap began and waited for the GPU: its length and name."""
        at = int(np.searchsorted(self.begins, first + _DRAIN_NS, side="right")) - 1
        for event in range(at, max(at - 40, -1), -1):
            near = -5_000 <= self.ends[event] - first <= _DRAIN_NS
            if near and self._drains(event) and self.begins[event] < first:
                return int(self.ends[event] - self.begins[event]), self._label(event, lines)
        return None

    def asked(self, at: int) -> str:
        """Who stands around what runs at a time."""
        piece = int(np.searchsorted(self.end, at, side="right"))
        inside = piece < self.start.size and self.start[piece] <= at
        chain = list(self._chain(int(self.event[piece]) if inside else -1))
        module = next((n for n, cat in chain if cat == _PYTHON and n.startswith(_MODULE)), "")
        if code := [n.removeprefix(_MODULE) for n in (module, _first(chain, _PYTHON, _FOREIGN, module)) if n]:
            return ", ".join(code)
        outermost = _first(chain[::-1], "cpu_op", _OF_TORCH)
        if outermost.startswith("autograd::engine"):
            outermost = f"backward of {outermost.rpartition(':')[2].strip()}"
        return _first(chain, "user_annotation", _OF_TORCH) or outermost

    def _chain(self, event: int) -> Iterator[tuple[str, str]]:
        """Name and category of an event and of those around it."""
        while event >= 0:
            yield self.names[event], self.cats[event]
            event = self.around[event]

    def drains(self) -> list[tuple[int, str]]:
        """The end and the name of each call that waits for the GPU."""
        of = (event for event in range(len(self.names)) if self._drains(event))
        return [(int(self.ends[event]), self._label(event, {})) for event in of]

    def _drains(self, event: int) -> bool:
        call = self.cats[event].endswith(("runtime", "driver"))
        return call and any(d in self.names[event] for d in _DRAINS)

    def _label(self, event: int, lines: dict[str, str]) -> str:
        name, call = self.names[event], self.cats[event].endswith(("runtime", "driver"))
        chain = list(self._chain(self.around[event]))
        op, annotation, own = (
            _first(chain, "cpu_op"),
            _first(chain, "user_annotation"),
            _first(chain, _PYTHON, _FOREIGN),
        )
        label = f"{name} in {op or annotation}" if call and (op or annotation) and not _ALLOCATES.match(name) else name
        lines.setdefault(label, ", ".join(filter(None, (annotation if annotation not in label else "", own))))
        return label


def _first(chain: list[tuple[str, str]], cat: str, but: re.Pattern[str] | None = None, known: str = "") -> str:
    """The first name of a category that is not one of others' code, nor ``known``; empty where there is none."""
    return next((n for n, c in chain if c == cat and n != known and not (but and but.match(n))), "")


def _self_times(cpu: pl.DataFrame) -> _Part:
    begins, ends = cpu["start_ns"].to_numpy(), cpu["end_ns"].to_numpy()
    around: list[int] = []
    pieces: list[tuple[int, int, int]] = []
    stack: list[int] = []
    at = 0
    for event, start in enumerate([*begins.tolist(), math.inf]):
        while stack and ends[stack[-1]] <= start:
            done = stack.pop()
            if ends[done] > at:
                pieces.append((at, int(ends[done]), done))
                at = int(ends[done])
        if event == begins.size:
            break
        if stack and start > at:
            pieces.append((at, int(start), stack[-1]))
        around.append(stack[-1] if stack else -1)
        stack.append(event)
        at = int(start)
    made = np.array(pieces, np.int64).reshape(-1, 3)
    return _Part(made[:, 0], made[:, 1], made[:, 2], around, cpu["name"].to_list(), cpu["cat"].to_list(), begins, ends)


def _against_peers(own: _Idle, peers: list[_Idle], steps: Sequence[int]) -> Why | None:
    chosen = [s for s in own.by_step if not steps or s in steps]
    usual = {s: [p.idle_ns[s] for p in peers] for s in chosen}
    excess = {s: own.idle_ns[s] - statistics.median(usual[s]) for s in chosen}
    total = sum(excess.values())
    others = statistics.median(p.all_ns for p in peers)
    if own.all_ns < _SLOWER * others and total < _WORTH * own.all_ns:
        return None
    apart = statistics.median(p.interval_ns for p in peers)
    if own.interval_ns >= _SLOWER * apart and own.interval_ns >= _TINY_NS:
        return Why("launches", own.all_ns - round(others), per_ns=own.interval_ns, others_ns=round(apart))

    def usually(step: int, key: tuple[str, bool]) -> float:
        often = key[1] and _as_often(own, peers, step, key[0])
        return math.inf if often else statistics.median(p.by_step.get(step, Counter()).get(key, 0) for p in peers)

    return _named(own, chosen, round(total), usually)


def _as_often(own: _Idle, peers: list[_Idle], step: int, call: str) -> bool:
    """Whether the peers wait for their GPUs in a step as often, so that it is not why this one is idle."""
    # The idle time at the start of a step is behind the last call of the one before.
    times = [max(idle.drained[step, call], idle.drained[step - 1, call]) for idle in (own, *peers)]
    return statistics.median(times[1:]) >= _AS_OFTEN * times[0]


def _against_steps(own: _Idle, steps: Sequence[int]) -> Why | None:
    rest = [s for s in own.by_step if s not in steps and s >= 0]
    chosen = [s for s in own.by_step if s in steps]
    if not rest or not chosen:
        return None
    usual = statistics.median(own.idle_ns[s] for s in rest)
    total = sum(own.idle_ns[s] - usual for s in chosen)
    return _named(own, chosen, round(total), lambda _, key: statistics.median(own.by_step[r].get(key, 0) for r in rest))


def _as_it_is(own: _Idle) -> Why | None:
    """All ranks alike, in all steps."""
    if own.tiny_ns >= _TINY_SHARE * own.all_ns:
        return Why("launches", own.tiny_ns, per_ns=own.interval_ns)
    return _named(own, list(own.by_step), sum(own.idle_ns.values()), lambda _, key: 0)


def _named(
    own: _Idle, steps: Sequence[int], total: int, usually: Callable[[int, tuple[str, bool]], float]
) -> Why | None:
    """What takes more than ``usually`` (ns of a call in a step), where that is most of the ``total`` idle time."""
    more: Counter[tuple[str, bool]] = Counter()
    seen: Counter[tuple[str, bool]] = Counter()
    for step in steps:
        for key, ns in own.by_step[step].items():
            if (extra := ns - usually(step, key)) > 0:
                more[key] += round(extra)
                seen[key] += 1
    if total <= 0:
        return None
    top = more.most_common(_NAMES)
    kept = list(itertools.takewhile(lambda one: one[1] >= _WORTH * total and one[0][1] == top[0][0][1], top[1:]))
    kept = top[:1] + kept
    named = sum(ns for _, ns in kept)
    if not kept or named < _MOSTLY * total:
        return Why("nothing", total, of_steps=len(steps))
    first = kept[0][0]
    names, line = tuple(key[0] for key, _ in kept), own.lines.get(first[0], "")
    return Why("calls", total, min(named, total), names, first[1], seen[first], len(steps), line)
