"""The levels that run a collective: correctness, bandwidth, and the verdict on the log it leaves."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from nccl_insight import api
from nccl_insight.expect import hardware
from nccl_insight.expect.machine import build
from nccl_insight.expect.model import expectations
from nccl_insight.live.capture.environment import World
from nccl_insight.live.capture.parent import Captured, capture, describe
from nccl_insight.live.capture.plan import Plan
from nccl_insight.live.capture.processes import Output
from nccl_insight.live.capture.schedule import Measurement, suspects
from nccl_insight.live.preflight.model import Check, Status
from nccl_insight.model import Action, Finding, Severity
from nccl_insight.tables.run import Run
from nccl_insight.units import format_ranks, plural

_LARGE_BYTES = 1 << 20
_DCGM_S = 40.0


@dataclass(frozen=True)
class Measured:
    """What the run gave. ``facts`` feed the expectations."""

    checks: tuple[Check, ...]
    facts: Mapping[str, str | float | None]
    timed_out: bool
    judged: bool = True


def plan_for(backend: str, together: bool = False, verdict: Sequence[str] = ()) -> Plan:
    """A short all-reduce sweep without traces; ``together`` adds the rounds of nodes two by two."""
    sizes = (8, 1 << 20, 256 << 20) if backend == "nccl" else (8, 1 << 16, 1 << 20)
    return Plan(
        backend=backend, sizes=sizes, iterations=10, warmup=3, profile_steps=0,
        pair_bytes=sizes[-1] // 4 if together else 0, verdict=tuple(verdict) or (("",) if together else ()),
    )  # fmt: skip


def measure(
    plan: Plan, directory: Path, nproc: int, deadline_s: float, environ: Mapping[str, str], world: World | None = None,
    child: Sequence[str] = (),
) -> Measured:  # fmt: skip
    """Runs the plan and judges the processes, their results, and what their logs say (also after a hang)."""
    done = capture(plan, directory, nproc, deadline_s, environ, world, child, diagnostics=True)
    if world is not None and world.rank != 0:  # rank 0 reads what all ranks left
        return Measured((_ended(done),), {}, done.hung, judged=not done.unusable)
    if done.unusable:
        return Measured((_ended(done),), {}, timed_out=False, judged=False)
    run = api.load([directory])
    checks = [_ended(done), *_results(run, done)]
    checks += [_finding(f) for f in api.analyze(run).findings if f.severity is not Severity.INFO]
    checks += [*_siblings(run), *_pairwise(run), *_expected(run)]
    return Measured(tuple(checks), _facts(run, done), done.hung)


def _ended(done: Captured) -> Check:
    if done.unusable:
        return Check("all-reduce", Status.SKIP, done.unusable)
    if done.outcome.stuck:
        return Check(
            "all-reduce", Status.FAIL, describe(done), "processes that end when they are killed",
            "drain the node and reset the GPUs or reboot it", "NI506", Action.ISOLATE,
        )  # fmt: skip
    if done.hung:
        what = "hang: " if done.started else ""
        return Check(
            "all-reduce", Status.FAIL, f"{what}{describe(done)}", "an end within the deadline",
            f"nccl-insight analyze {done.directory}" if done.started else "raise --deadline; see why the start is slow",
            "NI506" if done.started else "-", Action.TRIAGE,
        )  # fmt: skip
    if not done.outcome.ok:
        return Check(
            "all-reduce", Status.FAIL, describe(done), "all processes exit cleanly",
            f"nccl-insight analyze {done.directory}", "-", Action.TRIAGE,
        )  # fmt: skip
    return Check("all-reduce", Status.PASS, describe(done))


def _results(run: Run, done: Captured) -> list[Check]:
    rows = run.table("benchmarks")
    if rows.is_empty():
        return [
            Check(
                "correctness", Status.FAIL if done.outcome.ok else Status.SKIP, "no measurement was finished"
            )
        ]
    wrong = rows.filter(pl.col("wrong") > 0)
    best = _best(rows)
    checks = [
        Check("correctness", Status.PASS, f"{rows.height} results right on {done.ranks} ranks")
        if wrong.is_empty()
        else Check(
            "correctness", Status.FAIL, f"{wrong.height} of {rows.height} results wrong", "every element right",
            "take the node out and run dcgmi diag -r 3", "-", Action.ISOLATE,
        )
    ]  # fmt: skip
    if best is not None:
        checks.append(Check("bandwidth", Status.PASS, f"all-reduce busbw {best:.3g} GB/s"))
    else:
        checks.append(Check("bandwidth", Status.SKIP, "one rank has no bus bandwidth"))
    return checks


def _siblings(run: Run) -> list[Check]:
    """GPUs and pairs whose copies are clearly slower than those of their siblings on the same node."""
    checks = []
    copies, peers = run.table("host_bandwidth"), run.table("peer_bandwidth")
    if copies.height:
        pinned = copies.filter("pinned")
        slow = _odd(pinned, ["host", "direction"])
        if slow.height:
            named = ", ".join(
                f"rank {r['rank']} {r['direction']} {r['gbps']:.1f} GB/s (median {r['typical']:.1f})"
                for r in slow.iter_rows(named=True)
            )
            checks.append(Check("host copies", Status.WARN, named, "like the other GPUs of the node",
                                "nvidia-smi -q -d PCIE; sudo lspci -vv | grep -i lnksta", "NI601",
                                Action.TRIAGE))  # fmt: skip
        elif pinned.height:
            rates = pinned["gbps"].to_list()
            checks.append(
                Check("host copies", Status.PASS, f"{min(rates):.1f} to {max(rates):.1f} GB/s pinned")
            )
    if peers.height:
        slow = _odd(peers, ["host", "peer_access"])
        if slow.height:
            named = ", ".join(
                f"{r['src']}->{r['dst']} {r['gbps']:.1f} GB/s (median {r['typical']:.1f})"
                for r in slow.head(4).iter_rows(named=True)
            )
            checks.append(Check("peer copies", Status.WARN, named, "like the other pairs of the node",
                                "nvidia-smi nvlink -s; nvidia-smi topo -p2p n", "NI313", Action.TRIAGE))  # fmt: skip
        else:
            checks.append(
                Check("peer copies", Status.PASS, f"{min(peers['gbps'].to_list()):.1f} GB/s or more per pair")
            )
    return checks


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
        return [
            Check("dcgm", Status.FAIL, f"dcgmi diag -r 1: {', '.join(failed[:3])}", "every test passes",
                  "dcgmi diag -r 3 on the idle node", "-", Action.ISOLATE)
        ]  # fmt: skip
    if not rows:
        return [Check("dcgm", Status.SKIP, "dcgmi gave no result (is nv-hostengine running?)")]
    return [
        Check("dcgm", Status.PASS, f"dcgmi diag -r 1: {sum(s == 'Pass' for _, s, _ in rows)} tests passed")
    ]


def _pairwise(run: Run) -> list[Check]:
    """What the other nodes' own checks said, and nodes or pairs that were slow in the rounds two by two."""
    nodes, rows = run.table("capture_nodes"), run.table("node_pairs")
    hosts = dict(nodes.select("node", "host").iter_rows()) if nodes.height else {}
    checks = []
    for index, host, verdict in nodes.select("node", "host", "verdict").iter_rows() if nodes.height else ():
        for text in verdict if index else ():
            if text:
                checks.append(Check(f"node {host}", Status.FAIL, text, "", "see that node's own output", "-",
                                    Action.TRIAGE, node=host))  # fmt: skip
    if not rows.height:
        return checks
    measured = [
        Measurement(*row)
        for row in rows.drop_nulls("busbw_gbps").select("round", "first", "second", "busbw_gbps").iter_rows()
    ]
    found = suspects(measured)
    typical = f"about {found.typical_gbps:.3g} GB/s, the median of all pairs"
    for index, rate in found.nodes:
        status = Status.FAIL if rate < 0.5 * found.typical_gbps else Status.WARN
        checks.append(
            Check(f"node {hosts.get(index, index)}", status,
                  f"{rate:.3g} GB/s with every partner (node {index}, ranks {_ranks(nodes, index)})", typical,
                  "check its NICs, cables and switch ports before the job uses it", "NI608", Action.ISOLATE,
                  node=str(hosts.get(index, "")))
        )  # fmt: skip
    for m in found.pairs:
        checks.append(
            Check("node pair", Status.WARN,
                  f"{hosts.get(m.first, m.first)} and {hosts.get(m.second, m.second)}: {m.busbw_gbps:.3g} GB/s; "
                  "each is fine with others", typical, "check the path between the two (switch, routing)", "NI608",
                  Action.TRIAGE)
        )  # fmt: skip
    if not found.nodes and not found.pairs:
        checks.append(Check("node pairs", Status.PASS, f"{plural(len(measured), 'pair')}, {typical}"))
    return checks


def _ranks(nodes: pl.DataFrame, index: int) -> str:
    return format_ranks(nodes.filter(pl.col("node") == index)["ranks"].to_list()[0])


def _expected(run: Run) -> list[Check]:
    """The largest all-reduce against what this machine type should give."""
    table = run.table("benchmarks")
    if not {"gpu", "n_hosts"} <= set(table.columns):
        return []
    rows = table.filter(
        (pl.col("op") == "AllReduce") & pl.col("busbw_gbps").is_not_null() & pl.col("gpu").is_not_null()
    )
    if rows.is_empty():
        return []
    best = rows.sort("size_bytes").row(-1, named=True)
    ranks, hosts = int(best["nranks"]), int(best["n_hosts"] or 1)
    if hosts != 1 or ranks < 2 or hardware.find_gpu(best["gpu"]) is None:
        return []
    machine = build(best["gpu"], gpus_per_node=ranks)
    expected = next(iter(expectations(machine, ("AllReduce",), (int(best["size_bytes"]),))), None)
    if expected is None:
        return []
    low, value = expected.busbw_low_gbps, float(best["busbw_gbps"])
    if value >= low:
        return [
            Check(
                "expected busbw", Status.PASS, f"{value:.0f} GB/s of {expected.busbw_gbps:.0f} GB/s expected"
            )
        ]
    return [
        Check("expected busbw", Status.WARN, f"{value:.0f} GB/s", f"{low:.0f} GB/s or more on {ranks} x {best['gpu']}",
              "nvidia-smi nvlink -s; nvidia-smi topo -m; nccl-insight analyze the logs with --output", "NI601",
              Action.TRIAGE)
    ]  # fmt: skip


def _odd(rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
    """Rows below 70 % of the median of at least three of their kind."""
    kinds = rows.with_columns(
        pl.col("gbps").median().over(group).alias("typical"), pl.len().over(group).alias("n")
    )
    return kinds.filter((pl.col("n") >= 3) & (pl.col("gbps") < 0.7 * pl.col("typical")))


def _best(rows: pl.DataFrame) -> float | None:
    large = rows.filter((pl.col("size_bytes") >= _LARGE_BYTES) & pl.col("busbw_gbps").is_not_null())
    return max(large["busbw_gbps"].to_list(), default=None)


def _finding(finding: Finding) -> Check:
    status = Status.FAIL if finding.severity is Severity.ERROR else Status.WARN
    return Check(
        finding.name, status, finding.title, finding.expected, finding.next_step, finding.code, finding.action
    )


def _facts(run: Run, done: Captured) -> dict[str, str | float | None]:
    ranks = run.table("capture_ranks")
    versions = {
        name: next((v for v in ranks[name].to_list() if v), None) if name in ranks.columns else None
        for name in ("nccl", "cuda", "torch")
    }
    in_log = run.table("processes")["nccl_version"].drop_nulls().to_list()
    connections = run.table("connections")
    networks = sorted(set(connections.filter(pl.col("transport") == "NET")["network"].drop_nulls().to_list()))
    networks = networks or sorted(set(run.table("processes")["network"].drop_nulls().to_list()))
    inside = sorted({str(t) for t in connections["transport"].drop_nulls().to_list()} - {"NET", "self"})
    hosts = set(ranks["host"].to_list()) if "host" in ranks.columns else set()
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
        "busbw": _best(run.table("benchmarks")), "ranks": float(done.ranks),
        "nodes": float(len(hosts)) if hosts else None,
        "transport": ",".join(networks or inside) or None,
        "nccl": in_log[0] if in_log else versions["nccl"], "cuda": versions["cuda"], "torch": versions["torch"],
    }  # fmt: skip
