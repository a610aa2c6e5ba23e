"""Verdicts on measured bandwidths: against what the machine type gives, against siblings, node against node."""

from collections.abc import Collection, Iterator
from typing import Any, Final

import polars as pl

from nccl_insight.advise.expect import hardware
from nccl_insight.advise.expect.machine import Machine, build
from nccl_insight.advise.expect.model import expectations
from nccl_insight.base.data import dataclass
from nccl_insight.base.units import plural
from nccl_insight.base.words import pairs
from nccl_insight.live.capture.schedule import RAIL, Measurement, Suspects, suspects
from nccl_insight.live.preflight.model import Check, Status, check_of
from nccl_insight.tables.run import Run

#: Operation -> key of the expectation about its bus bandwidth.
KEYS: Final = pairs("""AllReduce=busbw AllGather=allgather_busbw ReduceScatter=reducescatter_busbw
    AllToAll=alltoall_busbw SendRecv=sendrecv_busbw""")
LARGE_BYTES: Final = 1 << 20
_EXPECTED_BYTES = 64 << 20
_LINK_LAYERS = {"InfiniBand": "ib", "Ethernet": "roce", "Unspecified": "efa"}
#: PCIe generation -> raw rate of 16 lanes in GB/s and direction.
_PCIE = {3: 16.0, 4: 32.0, 5: 64.0, 6: 128.0}
_SLOW_NODE = 0.7


@dataclass(frozen=True)
class Surroundings:
    """What is known of the node without a measurement. ``nics`` count those for the job, ``nic_gbit`` is their rate.

    ``layer`` is the link layer of its RDMA ports, ``pcie_generation`` what the GPUs' slots give; None is not known.
    ``domain`` names the NVLink domain of several nodes that the GPUs belong to.
    """

    nics: int | None = None
    nic_gbit: float | None = None
    layer: str | None = None
    pcie_generation: int | None = None
    domain: str = ""


def best(rows: pl.DataFrame, op: str) -> float | None:
    """The best bus bandwidth (GB/s) of an operation at large sizes."""
    large = rows.filter(
        (pl.col("op") == op) & (pl.col("size_bytes") >= LARGE_BYTES) & pl.col("busbw_gbps").is_not_null()
    )
    return max(large["busbw_gbps"].to_list(), default=None)


def bandwidth_checks(run: Run, around: Surroundings, given: Collection[str] = ()) -> Iterator[Check]:
    """All verdicts on bandwidths. ``given``: keys of expectations that the user has, which take the place of ours."""
    yield from _copies(run, around, given)
    yield from _peers(run, given)
    yield from _pairwise(run)
    yield from _collectives(run, around, given)


# Copies


def _gpu_of(run: Run) -> hardware.Gpu | None:
    ranks = run.table("capture_ranks")
    names = {str(n) for n in ranks["gpu"].drop_nulls().to_list()}
    return hardware.find_gpu(names.pop()) if len(names) == 1 else None


def _copies(run: Run, around: Surroundings, given: Collection[str]) -> Iterator[Check]:
    table = run.table("host_bandwidth")
    pinned = table.filter("pinned") if table.height else table
    if not pinned.height:
        return
    slow = _odd(pinned, ["host", "direction"])
    if slow.height:
        named = ", ".join(
            f"GPU of rank {r['rank']} {r['direction']} {r['gbps']:.1f} GB/s (median {r['typical']:.1f})"
            for r in slow.head(4).iter_rows(named=True)
        )
        yield check_of("host-copies-like-other", named=named)
        return
    rates = [float(rate) for rate in pinned["gbps"].to_list()]
    shown = f"{min(rates):.1f} to {max(rates):.1f} GB/s, pinned, one GPU at a time"
    gpu = _gpu_of(run)
    if gpu is None or gpu.unified or {"h2d_gbps", "d2h_gbps"} & set(given):
        yield Check("host copies", Status.PASS, shown)
        return
    raw = gpu.get("pcie_gbps")
    slot = _PCIE.get(around.pcie_generation or 0)
    link = min(raw, slot) if slot else raw
    low = hardware.copies()["host"].get("low")
    wanted = f"{low * link:.0f} GB/s or more of {link:.0f} GB/s raw (PCIe x16 of {'the slot' if slot else gpu.name})"
    if min(rates) >= low * link:
        yield Check("host copies", Status.PASS, f"{shown}; expected {wanted}")
    elif slot is None and min(rates) >= low * link / 2:  # a host of the generation before is no fault
        yield check_of("host-copies", shown=shown)
    else:
        yield check_of("host-copies-slow", shown=shown, wanted=wanted)


def _peers(run: Run, given: Collection[str]) -> Iterator[Check]:
    """Pairs of GPUs: a GPU that is slow with most others, a single slow pair, or all below what NVSwitch gives."""
    table = run.table("peer_bandwidth")
    gpu = _gpu_of(run)
    for (host, access), rows in table.group_by("host", "peer_access", maintain_order=True) if table.height else ():
        every = rows.select("src", "dst", "gbps").iter_rows()
        measured = [Measurement(0, int(src), int(dst), float(gbps)) for src, dst, gbps in every]
        found = suspects(measured)
        where = f" on {host}" if table["host"].n_unique() > 1 else ""
        look = "nvidia-smi nvlink -s; nvidia-smi nvlink -e; nvidia-smi topo -p2p n"
        typical = f"about {found.typical_gbps:.0f} GB/s, the rate of good nodes"
        for index, rate in found.nodes:
            yield check_of("peer-copies-gpu-other", index=index, where=where, rate=rate, typical=typical, look=look)
        for m in found.pairs[:4]:
            yield check_of("peer-copies-gpu", m=m, where=where, typical=typical, look=look)
        if found.nodes or found.pairs:
            continue
        least = min(m.busbw_gbps for m in measured)
        through = "" if access else " through host memory (no peer access)"
        shown = f"{plural(len(measured), 'pair')}{where}, {least:.1f} GB/s or more{through}"
        switched = gpu is not None and gpu.fabric == "nvswitch" and access and "p2p_gbps" not in given
        low = hardware.copies()["peer"].get("low") * gpu.get("nvlink_gbps") if gpu is not None else 0.0
        if switched and gpu is not None and least < low:
            yield check_of("peer-copies", shown=shown, low=low, nvlink_gbps=gpu.get("nvlink_gbps"), gpu=gpu, look=look)
        else:
            yield Check("peer copies", Status.PASS, shown)


def _odd(rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
    """Rows below 70% of the median of at least three of their kind."""
    kinds = rows.with_columns(pl.col("gbps").median().over(group).alias("typical"), pl.len().over(group).alias("n"))
    return kinds.filter((pl.col("n") >= 3) & (pl.col("gbps") < 0.7 * pl.col("typical")))


# Nodes


def _pairwise(run: Run) -> list[Check]:
    """What the other nodes' own checks said, and nodes or pairs that were slow in the rounds two by two."""
    nodes, rows = run.table("capture_nodes"), run.table("node_pairs")
    hosts = dict(nodes.select("node", "host").iter_rows())
    checks = []

    def of(index: int) -> dict[str, Any]:
        return {"of": f"node {hosts.get(index, index)}", "node": str(hosts.get(index, ""))}

    for index, host, verdict in nodes.select("node", "host", "verdict").iter_rows():
        for text in verdict if index else ():
            if text:
                checks.append(check_of("told-by-another-node", of=f"node {host}", node=host, text=text))
    if not rows.height:
        return checks
    whole = rows.filter(pl.col("local_rank").is_null())
    found, count = _suspects(whole)
    slow, rail_pairs, rail_typical = _rails(rows)
    typical = f"about {found.typical_gbps:.3g} GB/s, the rate of good nodes"
    for index, rate in found.nodes:
        status = Status.FAIL if rate < 0.5 * found.typical_gbps else Status.WARN
        ranks = nodes.filter(pl.col("node") == index)["ranks"].to_list()[0]
        if 0 < len(slow.get(index, [])) < len(ranks) and rate >= _SLOW_NODE * found.typical_gbps:
            continue  # no more than the share of the ranks that are named below
        locals_ = slow.pop(index, [])
        only = f"; by itself, {_locals(locals_)} is slow" if 0 < len(locals_) < len(ranks) else ""
        check = check_of(
            "pairwise", **of(index), status=status, rate=rate, index=index, ranks=ranks, only=only, typical=typical
        )
        checks.append(check)
    for index, locals_ in sorted(slow.items()):
        shown = _locals(locals_)
        checks.append(check_of("pairwise-every-partner", **of(index), locals=shown, rail_typical=rail_typical))
    for m in found.pairs:
        first, second = (hosts.get(node, node) for node in (m.first, m.second))
        checks.append(check_of("node-pair", first_node=first, second_node=second, m=m, typical=typical))
    for m in rail_pairs if len(hosts) == 2 else ():
        names = " and ".join(str(hosts.get(number // RAIL, number // RAIL)) for number in (m.first, m.second))
        local = m.first % RAIL
        checks.append(check_of("node-pair-local-rank", first=local, names=names, m=m, rail_typical=rail_typical))
    if not found.nodes and not found.pairs and not slow:
        checks.append(Check("node pairs", Status.PASS, f"{plural(count, 'pair')}, {typical}"))
    return checks


def _suspects(rows: pl.DataFrame, per_node: int = 1) -> tuple[Suspects, int]:
    """Slow nodes among pairs, or slow ranks of nodes: numbered node x ``per_node`` + local rank."""
    numbers = (pl.col(of) * per_node + pl.col("local_rank").fill_null(0) for of in ("first", "second"))
    known = rows.drop_nulls("busbw_gbps").select("round", *numbers, "busbw_gbps")
    return suspects([Measurement(*row) for row in known.iter_rows()], closely=True), known.height


def _rails(rows: pl.DataFrame) -> tuple[dict[int, list[tuple[int, float]]], tuple[Measurement, ...], float]:
    """Ranks (node -> local rank and rate) whose own NIC is slow with every partner, slow pairs, and the usual rate."""
    single = rows.filter(pl.col("local_rank").is_not_null())
    if single.is_empty():
        return {}, (), 0.0
    found, count = _suspects(single, RAIL)
    slow: dict[int, list[tuple[int, float]]] = {}
    for number, rate in found.nodes:
        slow.setdefault(number // RAIL, []).append((number % RAIL, rate))
    # Of two, which one is odd cannot be told.
    return slow, found.pairs if count > 2 else (), found.typical_gbps


def _locals(found: list[tuple[int, float]]) -> str:
    return ", ".join(f"local rank {local} ({rate:.3g} GB/s)" for local, rate in found)


# Collectives


def machine_of(
    gpu: str, ranks: int, hosts: int, networks: Collection[str], around: Surroundings, domains: int | None = None
) -> Machine | None:
    """The machine that ran, as far as it is known well enough to expect something of it."""
    if ranks < 2 or hardware.find_gpu(gpu) is None or ranks % max(1, hosts):
        return None
    if hosts == 1:
        return build(gpu, gpus_per_node=ranks)
    if domains == 1:
        return build(gpu, nodes=hosts, gpus_per_node=ranks // hosts, domains=1)
    kind = _LINK_LAYERS.get(around.layer or "")
    if not around.nics or not around.nic_gbit or kind is None or "Socket" in networks:
        return None
    nics = f"{around.nics}x{around.nic_gbit:.0f}"
    return build(gpu, nodes=hosts, gpus_per_node=ranks // hosts, nics=nics, network=kind, domains=domains)


def _collectives(run: Run, around: Surroundings, given: Collection[str]) -> Iterator[Check]:
    """The largest message of each operation against what this machine type should give."""
    table = run.table("benchmarks")
    networks = {str(n) for n in run.table("processes")["network"].drop_nulls().to_list()}
    told = run.table("capture_ranks")["nvlink_domain"]
    domains = None if told.null_count() else told.n_unique() or None
    fine = []
    for op, key in KEYS.items():
        rows = table.drop_nulls(["busbw_gbps", "gpu"])
        rows = rows.filter((pl.col("op") == op) & (pl.col("size_bytes") >= _EXPECTED_BYTES))
        if key in given or rows.is_empty():
            continue
        row = rows.sort("size_bytes").row(-1, named=True)
        machine = machine_of(row["gpu"], int(row["nranks"]), int(row["n_hosts"] or 1), networks, around, domains)
        expected = next(iter(expectations(machine, (op,), (int(row["size_bytes"]),))), None) if machine else None
        if machine is None or expected is None:
            continue
        value, low = float(row["busbw_gbps"]), expected.busbw_low_gbps
        if value >= low:
            fine.append(f"{op} {value:.0f} of {expected.busbw_gbps:.0f}")
            continue
        said = machine.describe()
        yield check_of("expected-busbw", op=op, value=value, low=low, describe=said, expected_said=expected)
    if fine:
        yield Check("expected busbw", Status.PASS, f"{', '.join(fine)} GB/s expected")
