"""RDMA ports, their counters, GIDs, interfaces and bandwidth tests, as host tools show them."""

import re
from collections import Counter as Count
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import polars as pl

from nccl_insight.base import toml
from nccl_insight.base.model import Action, Confidence, Severity
from nccl_insight.base.units import plural
from nccl_insight.facts.errors import present
from nccl_insight.facts.host_facts import Counter, Fact, by_device, counters, named
from nccl_insight.facts.settings import setting
from nccl_insight.rules._host_words import Beside, Judge, Said, by_facts, listed, refs
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
    return tuple(own[n].value if n in own else "" for n in ("device.model", "port.link_layer"))  # type: ignore[return-value]


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
        kind = (input_id, host, _kin(own))
        label = f"{name} {state.value}" + (f" ({physical.value})" if physical else "") if state else name
        if state is None:
            continue
        if state.value in ("Initializing", "Armed"):
            waiting.append((state, label))
        elif state.value == "Down" and not (physical and "disabled" in physical.value):
            down.append((state, label))
            of_job = of_job or name.split("/")[0] in used
        elif state.value == "Active" and 0 < _rate(own) < best[kind]:
            slow.append((own.get("port.rate", state), f"{name} {_rate(own):g} Gb/s, its like {best[kind]:g}"))
    if down:
        few = (
            all(up[(f.input_id, f.host, _kin(every[(f.input_id, f.host, f.device)]))] > 0 for f, _ in down)
            or len(every) == len(down) <= 2
        )
        most = len(down) * 2 > len(every) and len(every) > 2
        yield by_facts(
            "ib-port-error",
            f"RDMA port is down: {listed(t for _, t in down)}"
            + (f"; {plural(sum(up.values()), 'other')} active" if up else ""),
            [f for f, _ in down],
            "ibstat <device>; mlxlink -d <device> -m   # on that host: polling = no signal from the other end; "
            "then reseat or replace cable and "
            "transceiver, look at the switch port, or leave the device out: NCCL_IB_HCA=^<device>",
            Severity.ERROR if of_job else Severity.WARNING if few and not most else Severity.INFO,
            explanation="NCCL leaves out ports that are not active: the GPU next to it shares another NIC, or "
            "its rail is missing.",
            observed=listed(t for _, t in down),
            expected="State: Active, Physical state: LinkUp",
            confidence=Confidence.HIGH,
            action=Action.TRIAGE,
        )
    if waiting:
        yield by_facts(
            "ib-port-error",
            f"RDMA port is not configured by a subnet manager: {listed(t for _, t in waiting)}",
            [f for f, _ in waiting],
            "sminfo; systemctl status opensm   # where the subnet manager runs; the link is up, so no cable is "
            "to be replaced",
            Severity.ERROR if of_job or not up else Severity.WARNING,
            explanation="The link is up, but no subnet manager has given the port its address; it carries no "
            "traffic until then.",
            observed=listed(t for _, t in waiting),
            expected="State: Active",
        )
    if slow:
        yield by_facts(
            "nic-speed-mismatch",
            f"RDMA port is slower than its like: {listed(t for _, t in slow)}",
            [f for f, _ in slow],
            "mlxlink -d <device>; ethtool <interface>   # on that host; then reseat the cable, compare cable and "
            "switch port with a good one",
            Severity.WARNING,
            explanation="A port that came up at a lower rate slows the rail it is on, and with it every "
            "collective across nodes.",
            observed=listed(t for _, t in slow),
            expected="the same rate on ports of one model",
            action=Action.TRIAGE,
        )


def _rate(own: Mapping[str, Fact]) -> float:
    fact = own.get("port.rate") or own.get("port.effective_rate")
    return fact.number or 0.0 if fact else 0.0


def _over(own: Mapping[str, Counter], pattern: str) -> list[tuple[str, Counter]]:
    """Counters whose name matches and that are not zero; one that was read twice counts by how much it grew."""
    return [(n, c) for n, c in own.items() if re.fullmatch(pattern, n) and (c.value if c.grew is None else c.grew) > 0]


def _worth(counter: Counter) -> int:
    return counter.value if counter.grew is None else counter.grew


# Patterns of names of counters: what is lost, pauses, notices, all traffic, what arrives broken, links that went down.
_COUNTERS: Final = toml.read(Path(__file__).with_suffix(".toml"))
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
        yield by_facts(
            "network-congestion",
            f"The network is congested or loses packets: {listed((t for _, t in crowded), 3)}",
            [f for f, _ in crowded],
            "ethtool -S <interface> | grep -E 'pause|discard|cnp|ecn'; rdma statistic show   # on these hosts, "
            "twice while the job runs; then check PFC and ECN on "
            "hosts and switches (mlnx_qos -i <interface>), NCCL_IB_TC, and what else uses these links",
            Severity.WARNING,
            explanation="Pause frames and congestion notices slow senders down, lost packets are sent again after a "
            f"time-out. RDMA needs a lossless path; one congested port slows every rank that talks over it. {since}",
            observed=listed((t for _, t in crowded), 6),
            expected=f"pauses and notices below {_SHARE:.1%} of the packets, no loss",
            confidence=Confidence.HIGH if any("+" in t for _, t in crowded) else Confidence.MEDIUM,
        )
    if broken:
        yield by_facts(
            "link-errors",
            f"A link has physical errors: {listed((t for _, t in broken), 1)}",
            [f for f, _ in broken],
            "mlxlink -d <device> -m -c   # on that host: bit error rate and module; then clean or replace cable "
            "and transceiver, or leave the device out",
            Severity.WARNING,
            explanation=f"Symbols arrive damaged: a bad cable, transceiver or port. The link retrains or packets "
            f"are sent again. {since}",
            observed=listed((t for _, t in broken), 6),
            expected="0, or not growing",
            action=Action.TRIAGE,
        )
    if flaps:
        yield by_facts(
            "link-flap",
            f"A link went down again and again: {listed((t for _, t in flaps), 3)}",
            [f for f, _ in flaps],
            "dmesg -T | grep -iE 'link (is )?(down|up)'; mlxlink -d <device> -m   # on that host: when; then "
            "replace cable or transceiver",
            Severity.WARNING,
            explanation=f"Each time the traffic stops until the link is up; beyond the retry time of the RDMA "
            f"transport the job ends. {since}",
            observed=listed((t for _, t in flaps), 6),
            expected="0 while the job runs",
            confidence=Confidence.MEDIUM,
        )


def fabric_checks(run: Run) -> Iterator[Said | Beside]:
    """Links below what they can, by iblinkinfo; no provider, by fi_info."""
    below = [f for f in named(run, r"link\.could_be") if "ould be" in f.value]
    if below:
        said = listed(f"{f.device}: {f.value}" for f in below)
        yield by_facts("nic-speed-mismatch", f"InfiniBand links are slower than both ends can: {said}", below,
            "mlxlink -d <device> -m -c   # at both ends; then reseat or replace the cable", Severity.WARNING,
            explanation="A link that came up at a lower rate slows every collective over it.", observed=said,
            expected="the rate that both ends support", action=Action.TRIAGE)  # fmt: skip
    for fact in named(run, r"fi\.fi_getinfo"):
        yield by_facts("efa-provider-missing", f"libfabric finds no provider: {fact.value}", [fact],
            "fi_info -l; ls /dev/infiniband /sys/class/infiniband   # where the ranks run, in the container; then "
            "install the EFA driver and libfabric, and pass the devices into the container", Severity.WARNING,
            explanation="Without a provider of libfabric the OFI plugin cannot use the NICs, and NCCL uses sockets.",
            observed=fact.value, expected="provider: efa")  # fmt: skip


def gids(run: Run) -> Iterator[Said | Beside]:
    """No GID, or none of RoCE v2 at the index that is set."""
    none = [f for f in named(run, r"gid\.count") if f.value == "0"]
    devices = [f for f in named(run, r"rdma\.devices") if f.value == "0"]
    if none:
        yield by_facts(
            "ib-gid-index",
            "show_gids finds no GID: RoCE cannot be used from here",
            none,
            "rdma link; ip addr; ls /sys/class/infiniband/*/ports/*/gid_attrs/ndevs/   # where the ranks run, in "
            "the container; then bring up the "
            "interfaces of the NICs with an address, or start the container in the host's network",
            Severity.WARNING,
            explanation="A RoCE port gets its GIDs from the addresses of its interface. In a network namespace "
            "without these interfaces the table is empty.",
            observed="n_gids_found=0",
            expected="a GID of type RoCE v2 with an IPv4 address on each port",
        )
    if devices:
        yield by_facts(
            "ib-no-device",
            "There is no RDMA device here",
            devices,
            "ls /dev/infiniband; lspci | grep -iE 'mellanox|infiniband|ethernet'   # on the host and in the container",
            Severity.INFO,
            explanation="Without a device NCCL uses sockets between hosts.",
            observed="no device",
            expected="one device per NIC",
        )
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
            yield by_facts(
                "ib-gid-index",
                f"NCCL_IB_GID_INDEX={index} is not a RoCE v2 address on {port}"
                + (f"; index {good[0]} is" if good else ""),
                [rows.get(index, next(iter(rows.values()))), *(rows[i] for i in good[:1])],
                f"export NCCL_IB_GID_INDEX={good[0]}   # or unset it: NCCL 2.21 and later find the GID"
                if good
                else "unset NCCL_IB_GID_INDEX   # NCCL 2.21 and later find the GID",
                Severity.WARNING,
                observed=rows[index].value if index in rows else f"no GID at index {index}",
                expected="a RoCE v2 GID with an IPv4 address at the same index on all hosts",
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
        kinds: dict[str, list[Fact]] = {}
        for fact in every:
            kinds.setdefault(layers.get((fact.input_id, fact.host, fact.device), ""), []).append(fact)
        for facts in kinds.values():
            votes = Count(f.value for f in {(f.input_id, f.host): f for f in facts}.values())
            if len(votes) < 2 or len({(f.input_id, f.host) for f in facts}) < 2:
                continue
            usual = votes.most_common(1)[0][0]
            odd = [f for f in facts if f.value != usual]
            yield by_facts(
                "mtu-mismatch",
                f"MTUs differ on {what}: {listed(f'{f.value} on {f.host or f.device}' for f in odd)}, others {usual}",
                [*odd[:4], next(f for f in facts if f.value == usual)],
                "ip link set <interface> mtu <value>   # the same on all hosts, at most what the switches pass",
                Severity.WARNING,
                explanation="RoCE takes its MTU from the interface. Where two ends differ, large packets are dropped "
                "on the way or connections come up at the smaller size: some pairs hang or are slow.",
                observed=listed(f"{f.at} {f.value}" for f in odd),
                expected=f"{usual} everywhere",
            )


def wires(run: Run) -> Iterator[Said | Beside]:
    """Bandwidth tests against the rate of the port; tests that failed."""
    rates = {f.device.split("/")[0]: f.number or 0.0 for f in named(run, r"port\.rate")}
    for name, speed in run.table("net_devices").select("name", "speed_gbit").drop_nulls().iter_rows():
        rates.setdefault(str(name), float(speed))
    tested: dict[str, list[Fact]] = {}
    sizes = {(f.input_id, f.line): f.number or 0.0 for f in named(run, r"perftest\.size")}
    for fact in named(run, r"perftest\.bandwidth"):
        if sizes.get((fact.input_id, fact.line), 0) >= _LARGE:
            tested.setdefault(fact.device, []).append(fact)
    for device, facts in tested.items():
        best = max(facts, key=lambda f: f.number or 0.0)
        rate = rates.get(device, 0.0)
        if rate and (best.number or 0.0) < _WIRE * rate:
            yield by_facts(
                "low-bandwidth",
                f"The bandwidth test over {device} reaches {best.number:g} of {rate:g} Gb/s",
                [best],
                "ib_write_bw -d <device> -q 4 -x <GID index> --report_gbits   # with the server and the NIC's "
                "own NUMA node (numactl -N <node>); then check its PCIe link and congestion",
                Severity.WARNING,
                explanation="This is the wire without NCCL: what it lacks here no setting of NCCL gives.",
                observed=f"{best.number:g} Gb/s",
                expected=f"at least {_WIRE * rate:g} Gb/s of {rate:g}",
                confidence=Confidence.MEDIUM,
            )
    for fact in named(run, r"perftest\.error"):
        status = re.search(r"status ([0-9]+)", fact.value)
        name = {"12": "ib-completion-retry-exceeded", "4": "ib-completion-local-prot", "5": "ib-completion-flush"}.get(
            status[1] if status else "", ""
        )
        if name or re.search(r"to RTR|to RTS", fact.value):
            yield by_facts(
                name or "ib-qp-timeout",
                f"The bandwidth test itself fails: {fact.value[:100]}",
                [fact],
                "show_gids; ibstat; ib_write_bw -d <device> -x <GID index>   # on both hosts: the same GID "
                "index, MTU and port state",
                Severity.ERROR,
                explanation="RDMA between these two hosts does not work without NCCL either.",
                observed=fact.value,
                expected="the test ends with a bandwidth",
            )


def peermem(run: Run) -> Iterator[Said | Beside]:
    """Why GPUDirect RDMA is not used: the module that NVIDIA's driver needs for it is not loaded."""
    if not {"gdr-not-used", "gdr-broken"} & (present(run) | _without_gdr(run)):
        return
    modules = {(f.input_id, f.host): f for f in named(run, r"module\.count")}
    loaded = {
        (f.input_id, f.host) for f in named(run, r"module\.size") if re.match(r"nvidia_peermem|nv_peer_mem", f.device)
    }
    nvidia = {(f.input_id, f.host) for f in named(run, r"module\.size") if f.device == "nvidia"}
    for key, fact in modules.items():
        if key in nvidia and key not in loaded:
            yield Beside(
                ("gdr-not-used", "gdr-broken"),
                "lsmod shows the nvidia driver without nvidia_peermem: sudo modprobe nvidia-peermem (or a kernel "
                "and driver with DMA-BUF).",
                refs([fact]),
            )


def _without_gdr(run: Run) -> set[str]:
    rows = run.table("connections").filter(
        (pl.col("transport").cast(pl.String) == "NET") & ~pl.col("gdr").fill_null(False)
    )
    return {"gdr-not-used"} if rows.height else set()


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
            yield by_facts(
                "ifname-not-found",
                f"NCCL_SOCKET_IFNAME={text}: there is no such interface among {listed(sorted(devices), 6)}",
                facts,
                "ip -br addr   # on that host; fix: NCCL_SOCKET_IFNAME to the interface that all hosts reach "
                "each other over",
                Severity.WARNING,
                observed=listed(sorted(devices), 6),
                expected=f"an interface that {text} names",
            )


JUDGES: Final[tuple[Judge, ...]] = (ports, network, fabric_checks, gids, mtus, wires, peermem, interfaces)
