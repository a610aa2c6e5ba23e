"""Rates of links and algorithms: what a machine moves per second once pipelines are full."""

from __future__ import annotations

import math
from typing import Final

from nccl_insight.advise.expect.hardware import Gpu
from nccl_insight.advise.expect.machine import Machine, direct_memory
from nccl_insight.base.data import dataclass, replace

_TREE_SHARE: Final = 0.92
# What the rings of a job move between two NVLink domains of several nodes: 16 channels of half a 400 Gbit/s NIC. NVL72
# with 72 NICs each: 399 GB/s a direction with two domains, 381 with twenty (coreweave/nccl-tests 43, 2025).
_CROSSING_GBPS: Final = 410.0


_BRIDGED_GROUPS: Final = 1.85
# Below so many GPUs the ring is as fast: NVLS gains 1.00, 1.14, 1.19, 1.26 and 1.29 with 4 to 8 (published nccl-tests).
_NVLS_LEAST: Final = 5


@dataclass(frozen=True)
class Rate:
    """A bus bandwidth with its range, in GB/s, what bounds it and where the figure is from."""

    typical: float
    low: float
    high: float
    bound_by: str
    algorithm: str
    source: str

    def scaled(self, factor: float) -> Rate:
        """The same bound with other figures."""
        return Rate(
            self.typical * factor, self.low * factor, self.high * factor, self.bound_by, self.algorithm, self.source
        )


def inside(machine: Machine, ranks: int) -> Rate:
    """Ring busbw of ``ranks`` GPUs of one domain."""
    gpu = machine.gpu
    if machine.fabric == "bridge" and ranks <= gpu.bridge_gpus:
        return _bridge(gpu, ranks)
    nvlink = gpu.get("nvlink_gbps")
    if machine.fabric in {"pcie", "bridge"} or not nvlink:
        # Rings go through the bridges of each group, so every GPU has only one neighbor over PCIe: two rings fit.
        grouped = machine.fabric == "bridge" and gpu.bridge_gpus > 1 and ranks % gpu.bridge_gpus == 0
        return _pcie(gpu, ranks).scaled(_BRIDGED_GROUPS if grouped else 1.0)
    share = gpu.get("ring_share")
    name = "xGMI" if gpu.vendor == "amd" else "NVLink"
    if machine.fabric == "mesh" and gpu.mesh_links and gpu.links:
        usable = gpu.mesh_links[min(ranks, len(gpu.mesh_links) - 1)]
        typical = nvlink * usable / gpu.links * share
        return Rate(
            typical,
            typical * 0.78,
            typical * 1.12,
            f"{name} ({usable} of {gpu.links} links)",
            "Ring",
            gpu.source("ring_share"),
        )
    typical = nvlink * share
    if ranks == 2:
        # "2 GPUs performance always tends to be a bit under" (NVIDIA/nccl-tests 331, 2025): 483 GB/s on two B200.
        return Rate(
            typical * 0.8, typical * 0.65, typical * 1.0, f"{name} through NVSwitch", "Ring", gpu.source("ring_share")
        )
    return Rate(typical, typical * 0.88, typical * 1.06, f"{name} through NVSwitch", "Ring", gpu.source("ring_share"))


def _bridge(gpu: Gpu, ranks: int) -> Rate:
    usable = gpu.mesh_links[min(ranks, len(gpu.mesh_links) - 1)] / gpu.links if gpu.mesh_links and gpu.links else 1.0
    typical = gpu.get("bridge_gbps") * usable * gpu.get("bridge_share")
    return Rate(typical, typical * 0.8, typical * 1.15, "NVLink bridge", "Ring", gpu.source("bridge_share"))


def _pcie(gpu: Gpu, ranks: int) -> Rate:
    """PCIe: direct between GPUs under one root, or through host memory, where all GPUs share the CPU's."""
    raw = gpu.get("pcie_gbps")
    if gpu.p2p:
        share = 0.64 if ranks <= 2 else 0.6 if ranks <= 4 else 0.56
        return Rate(
            raw * share, raw * share * 0.66, raw * share * 1.36, "PCIe between GPUs", "Ring", gpu.source("pcie_gbps")
        )
    share = 0.52 if ranks <= 4 else 0.45
    return Rate(
        raw * share,
        raw * share * 0.62,
        raw * share * 1.4,
        "PCIe through host memory (no peer access)",
        "Ring",
        gpu.source("pcie_gbps"),
    )


def _nvls(machine: Machine, ranks: int) -> float | None:
    """algbw of a large all-reduce in the switch; None where NVLS is not possible."""
    share = machine.gpu.get("nvls_share")
    old = machine.nccl_version is not None and machine.nccl_version < (2, 17)
    if not share or machine.nvls is False or old or machine.fabric != "nvswitch" or ranks < _NVLS_LEAST:
        return None
    return machine.gpu.get("nvlink_gbps") * share


def can_reduce_in_switch(machine: Machine) -> bool:
    """Whether NVLS is possible on the machine."""
    return _nvls(machine, machine.domain_ranks) is not None


def outside(machine: Machine) -> Rate:
    """What one domain moves to the others in one direction, all its NICs together."""
    net, gpu = machine.network, machine.gpu
    line = machine.nic_gbit / 8
    slow = "slow_" if machine.nic_gbit <= net.get("slow_gbit") else ""
    share = net.get(f"{slow}share")
    capped = min(line, net.get("nic_cap", line) / max(share, 0.01))
    rate = machine.nics * capped * machine.domain_nodes
    bound = f"{machine.nics} x {machine.nic_gbit:g} Gbit/s NICs per node"
    slots = machine.gpus_per_node * gpu.get("pcie_gbps") * 0.85 * machine.domain_nodes
    if slots < rate and not gpu.unified:
        rate, bound = slots, "PCIe between GPU and NIC"
    factor = 1.0
    if not direct_memory(machine) and net.gdr:
        factor, bound = net.get("no_gdr"), f"{bound}, staged in host memory"
    if net.name == "tcp":
        bound = f"{bound}, sockets"
    spread = max(1 - 0.03 * max(0.0, math.log2(machine.domains / 16)), 0.7)
    rate *= factor
    if machine.domain_nodes > 1 and rate > _CROSSING_GBPS:
        rate, bound = _CROSSING_GBPS, "channels between NVLink domains"
    return Rate(
        rate * share * spread,
        rate * net.get(f"{slow}low") * spread,
        # Well-built fabrics lose little: 358 of 400 GB/s on 64 nodes (Azure ND H100 v5, 2025).
        rate * net.get(f"{slow}high") * (1 + spread) / 2,
        bound,
        "Ring",
        net.source(f"{slow}share"),
    )


def rate_of(machine: Machine, op: str) -> Rate:
    """The bus bandwidth of an operation on a machine."""
    if op == "AllToAll":
        return _all_to_all(machine)
    if op == "SendRecv":
        return _send_recv(machine)
    local = inside(machine, machine.domain_ranks) if machine.domain_ranks > 1 else None
    if machine.domains == 1:
        assert local is not None
        return _with_switch(machine, local) if op == "AllReduce" else local
    net = outside(machine)
    ring = net if local is None else _slower(local, net)
    return _across(machine, local, net, ring) if op == "AllReduce" else ring


def _slower(a: Rate, b: Rate) -> Rate:
    least = a if a.typical <= b.typical else b
    return Rate(least.typical, min(a.low, b.low), min(a.high, b.high), least.bound_by, least.algorithm, least.source)


def _with_switch(machine: Machine, ring: Rate) -> Rate:
    n = machine.domain_ranks
    if machine.algorithm == "Tree":
        tree = ring.scaled(_TREE_SHARE)
        return Rate(tree.typical, tree.low * 0.9, tree.high, tree.bound_by, "Tree", tree.source)
    nvls = _nvls(machine, n)
    if nvls is None or machine.algorithm == "Ring":
        return ring
    busbw = nvls * 2 * (n - 1) / n
    if machine.algorithm == "NVLS":
        return Rate(busbw, busbw * 0.85, busbw * 1.06, "NVSwitch with NVLS", "NVLS", machine.gpu.source("nvls_share"))
    if busbw <= ring.typical:
        return Rate(ring.typical, ring.low, max(ring.high, busbw * 1.05), ring.bound_by, ring.algorithm, ring.source)
    # Where NVLS is off (virtual machines, old drivers, no Fabric Manager) the ring runs; both are healthy.
    low = max(min(ring.typical * 0.95, busbw * 0.85), busbw / 1.5)
    return Rate(busbw, low, busbw * 1.06, "NVSwitch with NVLS", "NVLS", machine.gpu.source("nvls_share"))


def _across(machine: Machine, local: Rate | None, net: Rate, ring: Rate) -> Rate:
    """All-reduce over several domains: the ring, the double tree and the tree over NVLS; the fastest counts.

    Every domain of a ring sends 2(n-1)/n of the data; of a double tree all of it with two domains, twice with more.
    So two domains reach up to twice their NICs' rate.
    """
    n, d = machine.ranks, machine.domains
    factor = 2 * (n - 1) / n
    sent = 1.0 if d == 2 else 1.5 if d == 3 else 2.0
    tree = net.scaled(factor / sent)
    within = None if local is None else replace(local.scaled(_TREE_SHARE), high=local.high)
    tree = tree if within is None else _slower(within, tree)
    options = [ring, Rate(tree.typical * 0.9, tree.low * 0.8, tree.high, tree.bound_by, "Tree", tree.source)]
    nvls = _nvls(machine, machine.domain_ranks)
    if nvls is not None:
        top = nvls * factor
        inner = Rate(
            top * 0.95, top * 0.8, top * 1.03, "NVSwitch with NVLS", "NVLSTree", machine.gpu.source("nvls_share")
        )
        both = _slower(inner, net.scaled(factor / sent))
        options.append(Rate(both.typical, both.low, both.high, both.bound_by, "NVLSTree", both.source))
    if machine.algorithm is not None:
        return next(o for o in options if o.algorithm.removesuffix("Tree") == machine.algorithm.removesuffix("Tree"))
    best = max(options, key=lambda rate: rate.typical)
    return Rate(
        best.typical,
        ring.low if best is ring or nvls is None else max(ring.low, best.low * 0.88),
        max(rate.high for rate in options),
        best.bound_by,
        best.algorithm,
        best.source,
    )


def _all_to_all(machine: Machine) -> Rate:
    n, g = machine.ranks, machine.domain_ranks
    local = _peers(machine, g) if g > 1 else None
    if machine.domains == 1:
        assert local is not None
        return local
    net = outside(machine)
    # Of each GPU's data (n - g) / n leave the domain, over its share of the NICs.
    shared = net.scaled((n - 1) / (n - g) / g)
    shared = Rate(shared.typical * 0.85, shared.low * 0.7, shared.high, shared.bound_by, "pairwise", shared.source)
    return shared if local is None else _slower(local, shared)


def _peers(machine: Machine, ranks: int) -> Rate:
    """Every GPU of a domain to every other at once."""
    rate = inside(machine, ranks)
    if machine.fabric in {"pcie", "bridge"} and ranks > 2:
        rate = rate.scaled(0.7)
    return Rate(rate.typical * 0.95, rate.low * 0.85, rate.high, rate.bound_by, "pairwise", rate.source)


def _send_recv(machine: Machine) -> Rate:
    if machine.domains > 1:
        net = outside(machine)
        one = net.scaled(1 / min(machine.domain_ranks, max(machine.nics * machine.domain_nodes, 1)))
        one = Rate(one.typical * 0.95, one.low * 0.8, one.high, one.bound_by, "pairwise", one.source)
        if machine.domain_ranks == 1:
            return one
        return _slower(_pair(machine), one)
    return _pair(machine)


def _pair(machine: Machine) -> Rate:
    rate = inside(machine, 2 if machine.fabric == "mesh" else machine.domain_ranks)
    return Rate(rate.typical * 0.95, rate.low * 0.85, rate.high, rate.bound_by, "pairwise", rate.source)
