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
from nccl_insight.rules._host_words import Beside, Judge, Said, refs, tools
from nccl_insight.tables.run import Run

# Of the packets of a port: more pauses or congestion notices than this are no passing burst.
_SHARE: Final = 1e-3
_LOST: Final = 1000
_LOST_SHARE: Final = 1e-6
_FLAPS: Final = 3
_WIRE: Final = 0.75
_LARGE: Final = 65536


def _ports(run: Run) -> Mapping[tuple[int, str | None, str], dict[str, Fact]]:
    """Facts of ports by (input, host, port); what describes the device stands with each of its ports."""
    found = by_device(named(run, r"(?:port|device)\..*"))
    ports = {key: own for key, own in found.items() if any(n.startswith("port.") for n in own)}
    return {(i, h, name): {**found.get((i, h, name.split("/")[0]), {}), **own} for (i, h, name), own in ports.items()}


def _kin(own: Mapping[str, Fact]) -> tuple[str, str]:
    model, layer = (own[n].value if n in own else "" for n in ("device.model", "port.link_layer"))
    return model, layer


def ports(run: Run) -> Iterator[Said | Beside]:
    """Ports that are not up, and those that came up slower than their like."""
    every = _ports(run)
    up: Count[tuple[int, str | None, tuple[str, str]]] = Count()
    best: dict[tuple[int, str | None, tuple[str, str]], float] = {}
    for (input_id, host, _), own in every.items():
        kind = (input_id, host, _kin(own))
        if "port.state" in own and own["port.state"].value == "Active":
            up[kind] += 1
            best[kind] = max(best.get(kind, 0.0), _rate(own))
    used = {str(n) for n in run.table("net_devices")["name"].drop_nulls().unique()}
    down: list[tuple[Fact, str]] = []
    waiting: list[tuple[Fact, str]] = []
    slow: list[tuple[Fact, str]] = []
    of_job = False
    for (input_id, host, name), own in every.items():
        state, physical = own.get("port.state"), own.get("port.physical_state")
        if state is None:
            continue
        kind = (input_id, host, _kin(own))
        label = f"{name} {state.value}" + (f" ({physical.value})" if physical else "")
        if state.value in ("Initializing", "Armed"):
            waiting.append((state, label))
        elif state.value == "Down" and not (physical and "disabled" in physical.value):
            down.append((state, label))
            of_job |= name.split("/")[0] in used
        elif state.value == "Active" and 0 < _rate(own) < best[kind]:
            slow.append((own.get("port.rate", state), f"{name} {_rate(own):g} Gb/s, its like {best[kind]:g}"))
    if down:
        facts, texts = zip(*down, strict=True)
        alike = all(up[f.input_id, f.host, _kin(every[f.input_id, f.host, f.device])] > 0 for f in facts)
        few = alike or len(every) == len(down) <= 2
        most = len(down) * 2 > len(every) > 2
        yield tools(
            "ib-port-error.ports", facts, up=sum(up.values()), of_job=of_job, some=few and not most, texts=texts
        )
    if waiting:
        facts, texts = zip(*waiting, strict=True)
        yield tools("ib-port-error.ports-rdma-port", facts, waiting=listed(texts), lost=of_job or not up)
    if slow:
        facts, texts = zip(*slow, strict=True)
        yield tools("nic-speed-mismatch.ports", facts, slow=listed(texts))


def _rate(own: Mapping[str, Fact]) -> float:
    fact = own.get("port.rate") or own.get("port.effective_rate")
    return fact.number or 0.0 if fact else 0.0


def _over(own: Mapping[str, Counter], pattern: str) -> list[tuple[str, Counter]]:
    """Counters whose name matches and that are not zero; one that was read twice counts by how much it grew."""
    return [(n, c) for n, c in own.items() if re.fullmatch(pattern, n) and (c.value if c.grew is None else c.grew) > 0]


def _worth(counter: Counter) -> int:
    return counter.value if counter.grew is None else counter.grew


# Patterns of names of counters: what is lost, pauses, notices, all traffic, what arrives broken, links that went down.
_COUNTERS: Final = toml.beside(__file__)
_LOSS, _PAUSE, _NOTICE, _TRAFFIC, _BROKEN, _FLAP = (
    "|".join(_COUNTERS[kind]) for kind in ("loss", "pause", "notice", "traffic", "broken", "flap")
)


def network(run: Run) -> Iterator[Said | Beside]:
    """Counters that tell of a congested fabric, of a bad cable, of a link that went down."""
    crowded: list[tuple[Fact, str]] = []
    broken: list[tuple[Fact, str]] = []
    flaps: list[tuple[Fact, str]] = []
    for (host, device), own in counters(run).items():
        traffic = max((c.value for n, c in own.items() if re.fullmatch(_TRAFFIC, n)), default=0)

        def say(name: str, counter: Counter, device: str = device, host: str | None = host) -> tuple[Fact, str]:
            grew = f" (+{counter.grew:,} between two readings)" if counter.grew is not None else ""
            where = " ".join(filter(None, (device, f"on {host}" if host else "")))
            return counter.last, f"{where + ' ' if where else ''}{name} {counter.value:,}{grew}"

        for name, counter in _over(own, _LOSS):
            if _worth(counter) >= _LOST and _worth(counter) >= _LOST_SHARE * traffic:
                crowded.append(say(name, counter))
        for name, counter in _over(own, f"{_PAUSE}|{_NOTICE}"):
            share = _SHARE * traffic if traffic else 1e6
            if _worth(counter) >= max(share, _LOST):
                crowded.append(say(name, counter))
        broken += [say(n, c) for n, c in _over(own, _BROKEN) if _worth(c) >= 10]
        flaps += [say(n, c) for n, c in _over(own, _FLAP) if _worth(c) >= (1 if c.grew else _FLAPS)]
    since = "Counters run since the driver was loaded: read them twice, some minutes apart, to see what grows."
    crowded += [(f, f"{f.device} PFC storm on {f.value}") for f in named(run, r"switch\.pfc_storm")]
    if crowded:
        yield tools(
            "network-congestion.network",
            [f for f, _ in crowded],
            crowded=crowded,
            since=since,
            share=_SHARE,
            grows=any("+" in t for _, t in crowded),
        )
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
    none = [f for f in named(run, r"gid\.count") if f.value == "0"]
    devices = [f for f in named(run, r"rdma\.devices") if f.value == "0"]
    if none:
        yield tools("ib-gid-index.gids", none)
    if devices:
        yield tools("ib-no-device.gids", devices)
    pinned = setting(run, "NCCL_IB_GID_INDEX")
    tables: dict[tuple[str | None, str], dict[int, Fact]] = {}
    for fact in named(run, r"gid\.[0-9]+"):
        tables.setdefault((fact.host, fact.device), {})[int(fact.name[4:])] = fact
    if tables and pinned.height and str(pinned.item(0, "value")).isdecimal():
        index = int(pinned.item(0, "value"))
        wrong = {
            port: rows
            for port, rows in tables.items()
            if index not in rows
            or (re.search(r"\bv1\b|RoCE v1|fe80", rows[index].value) and any(_routable(r) for r in rows.values()))
        }
        if wrong:
            (_, port), rows = next(iter(wrong.items()))
            good = sorted(i for i, r in rows.items() if _routable(r))
            yield tools(
                "ib-gid-index.gids-nccl-gid",
                [rows.get(index, next(iter(rows.values()))), *(rows[i] for i in good[:1])],
                index=index,
                port=port,
                good=good,
                index_said=rows[index].value if index in rows else f"no GID at index {index}",
            )


def _routable(fact: Fact) -> bool:
    return bool(re.search(r"v2", fact.value)) and not fact.value.startswith("fe80")


def mtus(run: Run) -> Iterator[Said | Beside]:
    """Ports or interfaces of one name with different MTUs."""
    rows: dict[str, list[Fact]] = {}
    for fact in named(run, r"port\.active_mtu|net\.mtu"):
        if fact.name == "port.active_mtu":
            rows.setdefault(f"RDMA port {fact.device}", []).append(fact)
        elif not re.match(r"lo$|docker|veth|br-|virbr|cni|flannel|cali|tun", fact.device):
            rows.setdefault(f"interface {fact.device}", []).append(fact)
    layers = {(f.input_id, f.host, f.device): f.value for f in named(run, r"port\.link_layer")}
    for what, every in rows.items():
        for facts in grouped((layers.get((f.input_id, f.host, f.device), ""), f) for f in every).values():
            votes = Count(f.value for f in {(f.input_id, f.host): f for f in facts}.values())
            if len(votes) < 2 or len({(f.input_id, f.host) for f in facts}) < 2:
                continue
            usual = votes.most_common(1)[0][0]
            odd = [f for f in facts if f.value != usual]
            yield tools(
                "mtu-mismatch.mtus",
                [*odd[:4], next(f for f in facts if f.value == usual)],
                observed=listed(f"{f.at} {f.value}" for f in odd),
                what=what,
                odd=listed(f"{f.value} on {f.host or f.device}" for f in odd),
                usual=usual,
            )


def wires(run: Run) -> Iterator[Said | Beside]:
    """Bandwidth tests against the rate of the port; tests that failed."""
    rates = {f.device.split("/")[0]: f.number or 0.0 for f in named(run, r"port\.rate")}
    for name, speed in run.table("net_devices").select("name", "speed_gbit").drop_nulls().iter_rows():
        rates.setdefault(str(name), float(speed))
    sizes = {(f.input_id, f.line): f.number or 0.0 for f in named(run, r"perftest\.size")}
    large = (f for f in named(run, r"perftest\.bandwidth") if sizes.get((f.input_id, f.line), 0) >= _LARGE)
    for device, facts in grouped((f.device, f) for f in large).items():
        best = max(facts, key=lambda f: f.number or 0.0)
        rate = rates.get(device, 0.0)
        if rate and (best.number or 0.0) < _WIRE * rate:
            yield tools("low-bandwidth.wires", [best], device=device, best=best, rate=rate, enough=_WIRE * rate)
    for fact in named(run, r"perftest\.error"):
        status = re.search(r"status ([0-9]+)", fact.value)
        name = {"12": "ib-completion-retry-exceeded", "4": "ib-completion-local-prot", "5": "ib-completion-flush"}.get(
            status[1] if status else "", ""
        )
        if name or re.search(r"to RTR|to RTS", fact.value):
            yield tools("ib-qp-timeout.perftest", [fact], of=name, fact=fact)


def peermem(run: Run) -> Iterator[Said | Beside]:
    """Why GPUDirect RDMA is not used: the module that NVIDIA's driver needs for it is not loaded."""
    if not _without_gdr(run) and present(run).isdisjoint(shown_by("peermem")):
        return
    modules = {(f.input_id, f.host): f for f in named(run, r"module\.count")}
    loaded = {
        (f.input_id, f.host) for f in named(run, r"module\.size") if re.match(r"nvidia_peermem|nv_peer_mem", f.device)
    }
    nvidia = {(f.input_id, f.host) for f in named(run, r"module\.size") if f.device == "nvidia"}
    for key, fact in modules.items():
        if key in nvidia and key not in loaded:
            yield Beside(
                "peermem",
                "lsmod shows the nvidia driver without nvidia_peermem: sudo modprobe nvidia-peermem (or a kernel "
                "and driver with DMA-BUF).",
                refs([fact]),
            )


def _without_gdr(run: Run) -> bool:
    net = run.table("connections").filter(pl.col("transport").cast(pl.String) == "NET")
    return not net["gdr"].fill_null(False).all()


def interfaces(run: Run) -> Iterator[Said | Beside]:
    """NCCL_SOCKET_IFNAME against the interfaces that there are."""
    known = {(f.input_id, f.host): set[str]() for f in named(run, r"net\.state")}
    for fact in named(run, r"net\.state"):
        known[(fact.input_id, fact.host)].add(fact.device)
    chosen = setting(run, "NCCL_SOCKET_IFNAME")
    if not known or chosen.is_empty():
        return
    text = str(chosen.item(0, "value"))
    if text.startswith("^"):
        return
    exact = text.startswith("=")
    names = [n for n in text.removeprefix("=").split(",") if n]
    for (input_id, host), devices in known.items():
        fits = any(d == n or (not exact and d.startswith(n)) for d in devices for n in names)
        if names and not fits and len(devices) > 1:
            facts = [f for f in named(run, r"net\.state") if (f.input_id, f.host) == (input_id, host)]
            yield tools("ifname-not-found.interfaces", facts, text=text, devices_said=sorted(devices))


JUDGES: Final[tuple[Judge, ...]] = (ports, network, fabric_checks, gids, mtus, wires, peermem, interfaces)
