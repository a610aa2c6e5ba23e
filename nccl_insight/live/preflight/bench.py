"""The levels that run a collective: correctness, bandwidth, and the verdict on the log it leaves."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import polars as pl

from nccl_insight.base import natures
from nccl_insight.base.data import dataclass, replace
from nccl_insight.base.model import Severity
from nccl_insight.base.units import listed, plural, rank_words
from nccl_insight.live.capture.parent import Captured, Launch, capture, describe
from nccl_insight.live.capture.plan import OPS, Plan
from nccl_insight.live.capture.processes import Output
from nccl_insight.live.preflight.bandwidth import KEYS, Surroundings, bandwidth_checks, best
from nccl_insight.live.preflight.model import Check, Status, check_of
from nccl_insight.share import api
from nccl_insight.tables.run import Run

OPERATIONS = tuple(name for name in OPS if name != "broadcast")
_DCGM_S = 40.0
#: Diagnoses that the checks of bandwidths give in their own words.
_JUDGED_HERE = ("benchmark-below-expected",)


@dataclass(frozen=True)
class Measured:
    """What the run gave. ``facts`` feed the expectations."""

    checks: tuple[Check, ...]
    facts: Mapping[str, str | float | None]
    timed_out: bool
    judged: bool = True


def plan_for(
    backend: str,
    together: bool = False,
    verdict: Sequence[str] = (),
    ops: Sequence[str] = (),
    sizes: Sequence[int] = (),
) -> Plan:
    """A short sweep of each operation without traces; ``together`` adds the rounds of nodes two by two.

    ``ops`` and ``sizes`` take the place of the usual ones.
    """
    usual = (8, 1 << 20, 256 << 20) if backend == "nccl" else (8, 1 << 16, 1 << 20)
    return Plan(
        backend=backend,
        ops=tuple(ops) or OPERATIONS,
        sizes=tuple(sizes) or usual,
        iterations=10,
        warmup=3,
        profile_steps=0,
        pair_bytes=usual[-1] // 4 if together else 0,
        verdict=tuple(verdict) or (("",) if together else ()),
    )


def measure(plan: Plan, launch: Launch, around: Surroundings | None = None, given: Collection[str] = ()) -> Measured:
    """Runs the plan and judges the processes, their results, and what their logs say (also after a hang).

    ``around`` and ``given`` as in :func:`bandwidth_checks`.
    """
    done = capture(replace(plan, nvlink_domain=around.domain if around else ""), launch, diagnostics=True)
    other = launch.world is not None and launch.world.rank != 0  # rank 0 reads what all ranks left
    ended = _ended(done, other)
    judged, hung = ended.status is not Status.SKIP, done.hung and ended.status is Status.FAIL
    if other or done.unusable:
        return Measured((ended,), {}, hung, judged)
    run = api.load([launch.directory])
    checks = [*_absent(done), ended, *_results(run, done)]
    # Ranks that are killed at the deadline leave the others, which say so.
    quiet = (*_JUDGED_HERE, *(natures.names("leaving") if done.hung else ()))
    for f in (f for f in api.analyze(run).loud if f.name not in quiet):
        status = Status.FAIL if f.severity is Severity.ERROR else Status.WARN
        checks.append(Check(f.name, status, f.title, f.expected, f.next_step, f.code, f.action))
    checks += bandwidth_checks(run, around or Surroundings(), given)
    return Measured(tuple(checks), _facts(run, done), hung, judged)


def _absent(done: Captured) -> Iterator[Check]:
    missing, hosts = done.absent
    if late := done.late:
        came = "came when the others had begun without them: a longer --deadline waits for them"
        yield Check("ranks", Status.SKIP, f"not judged: {rank_words(late)} {came}")
    ranks = [r for r in missing if r not in late]
    if ranks:
        shown = listed(map(str, ranks), 8)
        where = f", on {', '.join(hosts[:8])}" if hosts else ""
        node, every = hosts[0] if len(hosts) == 1 else "", done.ranks + len(missing)
        yield check_of("ranks", node=node, shown=shown, where=where, done=done, all_ranks=every)


def _ended(done: Captured, other: bool) -> Check:
    if done.unusable:
        return Check("all-reduce", Status.SKIP, done.unusable)
    if done.outcome.stuck:
        return check_of("all-reduce", describe=describe(done))
    if done.hung:
        what, code = ("hang: ", "NI506") if done.started else ("", "-")
        node, said = done.behind()[1], describe(done)
        if done.unfinished or (other and node != socket.gethostname()):
            return Check("all-reduce", Status.SKIP, f"not judged, this node went on: {said}")
        return check_of("all-reduce-end-within", code=code, node=node, what=what, describe=said, done=done)
    if not done.outcome.ok:
        return check_of("all-reduce-all-processes", describe=describe(done), done=done)
    return Check("all-reduce", Status.PASS, describe(done))


def _results(run: Run, done: Captured) -> list[Check]:
    rows = run.table("benchmarks")
    if rows.is_empty():
        return [Check("correctness", Status.FAIL if done.outcome.ok else Status.SKIP, "no measurement was finished")]
    wrong = rows.filter(pl.col("wrong") > 0)
    right = Check("correctness", Status.PASS, f"{rows.height} results right on {plural(done.ranks, 'rank')}")
    rates = ", ".join(f"{op} {rate:.3g}" for op in KEYS if (rate := best(rows, op)) is not None)
    none = "no large message was finished" if done.ranks > 1 else "one rank has no bus bandwidth"
    return [
        right if wrong.is_empty() else check_of("correctness", wrong=wrong, rows=rows),
        Check("bandwidth", *((Status.PASS, f"busbw {rates} GB/s") if rates else (Status.SKIP, none))),
    ]


def diagnostics(tool: Callable[..., Output]) -> list[Check]:
    """NVIDIA's own short diagnosis, where DCGM is installed and its service answers."""
    done = tool("dcgmi", "diag", "-r", "1", timeout_s=_DCGM_S)
    if done.state == "missing":
        return []
    if done.state == "hung":
        return [Check("dcgm", Status.SKIP, f"dcgmi diag -r 1 did not return within {_DCGM_S:.0f} s")]
    rows = re.findall(r"^\|\s*([^|]+?)\s*\|\s*(Pass|Fail|Warn|Skip)\b([^|\n]*)", done.text, re.M)
    failed = [f"{name}{detail.rstrip()}" for name, status, detail in rows if status == "Fail"]
    if failed:
        return [check_of("dcgm", failed=", ".join(failed[:3]))]
    if not rows:
        return [Check("dcgm", Status.SKIP, "dcgmi gave no result (is nv-hostengine running?)")]
    return [Check("dcgm", Status.PASS, f"dcgmi diag -r 1: {sum(s == 'Pass' for _, s, _ in rows)} tests passed")]


def _facts(run: Run, done: Captured) -> dict[str, str | float | None]:
    ranks = run.table("capture_ranks")
    versions = {name: next((v for v in ranks[name].to_list() if v), None) for name in ("nccl", "cuda", "torch")}
    in_log = run.table("processes")["nccl_version"].drop_nulls().to_list()
    connections = run.table("connections")
    networks = sorted(set(connections.filter(pl.col("transport") == "NET")["network"].drop_nulls().to_list()))
    networks = networks or sorted(set(run.table("processes")["network"].drop_nulls().to_list()))
    inside = sorted({str(t) for t in connections["transport"].drop_nulls().to_list()} - {"NET", "self"})
    hosts = set(ranks["host"].to_list())
    copies = run.table("host_bandwidth")
    pinned = copies.filter("pinned") if copies.height else copies
    peers = run.table("peer_bandwidth")

    def least(rows: pl.DataFrame, direction: str | None = None) -> float | None:
        if not rows.height:
            return None
        chosen = rows if direction is None else rows.filter(pl.col("direction") == direction)
        return min(chosen["gbps"].drop_nulls().to_list(), default=None)

    return {
        "h2d_gbps": least(pinned, "h2d"), "d2h_gbps": least(pinned, "d2h"), "p2p_gbps": least(peers),
        **{key: best(run.table("benchmarks"), op) for op, key in KEYS.items()}, "ranks": float(done.ranks),
        "nodes": float(len(hosts)) if hosts else None,
        "transport": ",".join(networks or inside) or None,
        "nccl": in_log[0] if in_log else versions["nccl"], "cuda": versions["cuda"], "torch": versions["torch"],
    }  # fmt: skip
