"""RDMA ports, their counters, GIDs, interfaces and bandwidth tests, as host tools show them."""

import re
from collections import Counter as Count
from collections.abc import Iterator, Mapping
from typing import Final

import polars as pl

from nccl_insight.base import toml
from nccl_insight.base.grouping import grouped
from nccl_insight.base.natures import shown_by
from nccl_insight.base.units import listed
from nccl_insight.facts.said.errors import present
from nccl_insight.facts.said.host_facts import Counter, Fact, by_device, counters, named
from nccl_insight.facts.setup.settings import setting
from nccl_insight.rules._host_tools import Beside, Judge, Said, refs, tools
from nccl_insight.tables.run import Run

# Of the packets of a port: more pauses or congestion notices than this are no passing burst.
_SHARE: Final = 1e-3
_LOST: Final = 1000
_LOST_SHARE: Final = 1e-6
_FLAPS: Final = 3
_WIRE: Final = 0.75
_LARGE: Final = 65536
# What has an MTU, and interfaces that lead nowhere but into the host.
_CARRIERS: Final = {"port.active_mtu": "RDMA port", "net.mtu": "interface"}
_INNER: Final = re.compile(r"lo$|docker|veth|br-|virbr|cni|flannel|cali|tun")
# What a status of a completion means.
_STATUS: Final = {"12": "ib-completion-retry-exceeded", "4": "ib-completion-local-prot", "5": "ib-completion-flush"}


def _ports(run: Run) -> Mapping[tuple[int, str | None, str], dict[str, Fact]]:
    """Facts of ports by (input, host, port); what describes the device stands with each of its ports."""
    found = by_device(named(run, r"(?:port|device)\..*"))
    ports = {key: own for key, own in found.items() if any(n.startswith("port.") for n in own)}
    return {(i, h, name): {**found.get((i, h, name.split("/")[0]), {}), **own} for (i, h, name), own in ports.items()}


def _kin(own: Mapping[str, Fact]) -> tuple[object, ...]:
    """What the ports of a host have in common that should be of one rate."""
    told = (own[n].value if n in own else "" for n in ("device.model", "port.link_layer"))
    return (*own["port.state"].home, *told)


def _fault(own: Mapping[str, Fact], best: float) -> tuple[str, tuple[Fact, str]] | None:
    """Why a port is not as it should be: it is down, waits to be set up, or is slow beside the best of its kind."""
    state, physical = own["port.state"], own.get("port.physical_state")
    said = f"{state.device} {state.value}" + (f" ({physical.value})" if physical else "")
    if state.value in ("Initializing", "Armed"):
        return "waiting", (state, said)
    if state.value == "Down" and not (physical and "disabled" in physical.value):
        return "down", (state, said)
    if state.value == "Active" and 0 < _rate(own) < best:
        return "slow", (own.get("port.rate", state), f"{state.device} {_rate(own):g} Gb/s, its like {best:g}")
    return None


def ports(run: Run) -> Iterator[Said | Beside]:
    """Ports that are not up, and those that came up slower than their like."""
    ports = _ports(run)
    every = [own for own in ports.values() if "port.state" in own]
    up = grouped((_kin(own), _rate(own)) for own in every if own["port.state"].value == "Active")
    found = grouped(told for own in every if (told := _fault(own, max(up.get(_kin(own), (0.0,))))))
    used = {str(n) for n in run.table("net_devices")["name"].drop_nulls().unique()}
    of_job = any(f.device.split("/")[0] in used for f, _ in found.get("down", ()))
    if "down" in found:
        facts, texts = zip(*found["down"], strict=True)
        alike = all(_kin(ports[f.input_id, f.host, f.device]) in up for f in facts)
        some = (alike or len(ports) == len(facts) <= 2) and not len(facts) * 2 > len(ports) > 2
        counted = sum(map(len, up.values()))
        yield tools("ib-port-error.ports", facts, up=counted, of_job=of_job, some=some, texts=texts)
    if "waiting" in found:
        facts, texts = zip(*found["waiting"], strict=True)
        yield tools("ib-port-error.ports-rdma-port", facts, waiting=listed(texts), lost=of_job or not up)
    if "slow" in found:
        facts, texts = zip(*found["slow"], strict=True)
        yield tools("nic-speed-mismatch.ports", facts, slow=listed(texts))


def _rate(own: Mapping[str, Fact]) -> float:
    fact = own.get("port.rate") or own.get("port.effective_rate")
    return fact.amount if fact else 0.0


# Patterns of names of counters: what is lost, pauses, notices, all traffic, what arrives broken, links that went down.
_COUNTERS: Final = toml.beside(__file__)
_LOSS, _PAUSE, _NOTICE, _TRAFFIC, _BROKEN, _FLAP = (
    "|".join(_COUNTERS[kind]) for kind in ("loss", "pause", "notice", "traffic", "broken", "flap")
)


def _over(own: Mapping[str, Counter], pattern: str, least: float, grown: float = 0) -> list[tuple[Fact, str]]:
    """Counters whose name matches and that are so large, in words; one that was read twice counts by how much it grew,
    ``grown`` being enough there."""
    named = (c for n, c in own.items() if re.fullmatch(pattern, n))
    reached = ((c, c.value >= least if c.grew is None else c.grew >= (grown or least)) for c in named)
    return [(c.last, _counted(c)) for c, enough in reached if enough]


def _counted(counter: Counter) -> str:
    """``mlx5_0/1 on node1 symbol_error 12 (+3 between two readings)``."""
    fact, grew = counter.last, "" if counter.grew is None else f" (+{counter.grew:,} between two readings)"
    name = fact.name.removeprefix("counter.")
    return " ".join(filter(None, (fact.device, fact.host and f"on {fact.host}", name, f"{counter.value:,}{grew}")))


def network(run: Run) -> Iterator[Said | Beside]:
    """Counters that tell of a congested fabric, of a bad cable, of a link that went down."""
    crowded, broken, flaps = list[tuple[Fact, str]](), list[tuple[Fact, str]](), list[tuple[Fact, str]]()
    for own in counters(run).values():
        traffic = max((c.value for n, c in own.items() if re.fullmatch(_TRAFFIC, n)), default=0)
        crowded += _over(own, _LOSS, max(_LOST, _LOST_SHARE * traffic))
        crowded += _over(own, f"{_PAUSE}|{_NOTICE}", max(_LOST, _SHARE * traffic if traffic else 1e6))
        broken += _over(own, _BROKEN, 10)
        flaps += _over(own, _FLAP, _FLAPS, grown=1)
    since = "Counters run since the driver was loaded: read them twice, some minutes apart, to see what grows."
    crowded += [(f, f"{f.device} PFC storm on {f.value}") for f in named(run, r"switch\.pfc_storm")]
    if crowded:
        facts, grows = [f for f, _ in crowded], any("+" in text for _, text in crowded)
        yield tools("network-congestion.network", facts, crowded=crowded, since=since, share=_SHARE, grows=grows)
    if broken:
        yield tools("link-errors.network", [f for f, _ in broken], broken=broken, since=since)
    if flaps:
        yield tools("link-flap.network", [f for f, _ in flaps], flaps=flaps, since=since)


def fabric_checks(run: Run) -> Iterator[Said | Beside]:
    """Links below what they can, by iblinkinfo; no provider, by fi_info."""
    below = [f for f in named(run, r"link\.could_be") if "ould be" in f.value]
    if below:
        said = listed(f"{f.device}: {f.value}" for f in below)
        yield tools("nic-speed-mismatch.fabric-checks", below, said=said)
    for fact in named(run, r"fi\.fi_getinfo"):
        yield tools("efa-provider-missing.fabric-checks", [fact], fact=fact)


def gids(run: Run) -> Iterator[Said | Beside]:
    """No GID, or none of RoCE v2 at the index that is set."""
    if none := [f for f in named(run, r"gid\.count") if f.value == "0"]:
        yield tools("ib-gid-index.gids", none)
    if none := [f for f in named(run, r"rdma\.devices") if f.value == "0"]:
        yield tools("ib-no-device.gids", none)
    pinned = setting(run, "NCCL_IB_GID_INDEX")
    index = str(pinned.item(0, "value")) if pinned.height else ""
    if index.isdecimal() and (wrong := _without_gid(run, int(index))) is not None:
        yield wrong


def _without_gid(run: Run, index: int) -> Said | None:
    """The first port that has no GID of RoCE v2 at this index."""
    tables = grouped(((f.host, f.device), (int(f.name[4:]), f)) for f in named(run, r"gid\.[0-9]+"))
    for (_, port), cells in tables.items():
        rows = dict(cells)
        routable = (i for i, row in rows.items() if "v2" in row.value and not row.value.startswith("fe80"))
        own, good = rows.get(index), sorted(routable)
        if own is None or (good and re.search(r"\bv1\b|RoCE v1|fe80", own.value)):
            shown = [own or cells[0][1], *(rows[i] for i in good[:1])]
            said = own.value if own else f"no GID at index {index}"
            return tools("ib-gid-index.gids-nccl-gid", shown, index=index, port=port, good=good, index_said=said)
    return None


def mtus(run: Run) -> Iterator[Said | Beside]:
    """Ports or interfaces of one name with different MTUs."""
    layers = {(f.home, f.device): f.value for f in named(run, r"port\.link_layer")}
    every = (f for f in named(run, r"port\.active_mtu|net\.mtu") if f.name in _CARRIERS)
    told = (f for f in every if f.name != "net.mtu" or not _INNER.match(f.device))
    alike = grouped(((_CARRIERS[f.name], f.device, layers.get((f.home, f.device), "")), f) for f in told)
    for (carrier, device, _), facts in alike.items():
        latest = {f.home: f.value for f in facts}
        votes = Count(latest.values())
        if len(votes) > 1:
            usual = votes.most_common(1)[0][0]
            odd = [f for f in facts if f.value != usual]
            yield tools(
                "mtu-mismatch.mtus",
                [*odd[:4], next(f for f in facts if f.value == usual)],
                observed=listed(f"{f.at} {f.value}" for f in odd),
                what=f"{carrier} {device}",
                odd=listed(f"{f.value} on {f.host or f.device}" for f in odd),
                usual=usual,
            )


def wires(run: Run) -> Iterator[Said | Beside]:
    """Bandwidth tests against the rate of the port; tests that failed."""
    rates = {f.device.split("/")[0]: f.amount for f in named(run, r"port\.rate")}
    for name, speed in run.table("net_devices").select("name", "speed_gbit").drop_nulls().iter_rows():
        rates.setdefault(str(name), float(speed))
    sizes = {(f.input_id, f.line): f.amount for f in named(run, r"perftest\.size")}
    large = (f for f in named(run, r"perftest\.bandwidth") if sizes.get((f.input_id, f.line), 0) >= _LARGE)
    for device, facts in grouped((f.device, f) for f in large).items():
        best = max(facts, key=lambda f: f.amount)
        rate = rates.get(device, 0.0)
        if rate and best.amount < _WIRE * rate:
            yield tools("low-bandwidth.wires", [best], device=device, best=best, rate=rate, enough=_WIRE * rate)
    for fact in named(run, r"perftest\.error"):
        status = re.search(r"status ([0-9]+)", fact.value)
        name = _STATUS.get(status[1] if status else "", "")
        if name or re.search(r"to RTR|to RTS", fact.value):
            yield tools("ib-qp-timeout.perftest", [fact], of=name, fact=fact)


def peermem(run: Run) -> Iterator[Said | Beside]:
    """Why GPUDirect RDMA is not used: the module that NVIDIA's driver needs for it is not loaded."""
    net = run.table("connections").filter(pl.col("transport").cast(pl.String) == "NET")
    if net["gdr"].fill_null(False).all() and present(run).isdisjoint(shown_by("peermem")):
        return
    loaded = grouped((f.home, f.device) for f in named(run, r"module\.size"))
    for key, fact in {f.home: f for f in named(run, r"module\.count")}.items():
        own = loaded.get(key, [])
        if "nvidia" in own and not any(re.match(r"nvidia_peermem|nv_peer_mem", name) for name in own):
            yield Beside(
                "peermem",
                "lsmod shows the nvidia driver without nvidia_peermem: sudo modprobe nvidia-peermem (or a kernel "
                "and driver with DMA-BUF).",
                refs([fact]),
            )


def interfaces(run: Run) -> Iterator[Said | Beside]:
    """NCCL_SOCKET_IFNAME against the interfaces that there are."""
    chosen = setting(run, "NCCL_SOCKET_IFNAME")
    text = "" if chosen.is_empty() else str(chosen.item(0, "value"))
    names = [] if text.startswith("^") else [n for n in text.removeprefix("=").split(",") if n]
    for facts in grouped((f.home, f) for f in named(run, r"net\.state")).values() if names else ():
        devices = {f.device for f in facts}
        fits = any(d == n or (not text.startswith("=") and d.startswith(n)) for d in devices for n in names)
        if not fits and len(devices) > 1:
            yield tools("ifname-not-found.interfaces", facts, text=text, devices_said=sorted(devices))


JUDGES: Final[tuple[Judge, ...]] = (ports, network, fabric_checks, gids, mtus, wires, peermem, interfaces)
