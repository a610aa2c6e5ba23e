"""Limits, kernel, versions, what schedulers say of the job, and where its processes stand, as host tools show them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from nccl_insight.base import toml
from nccl_insight.base.grouping import grouped
from nccl_insight.base.model import Ref
from nccl_insight.base.units import format_bytes, listed, plural
from nccl_insight.facts.said.errors import present
from nccl_insight.facts.said.host_facts import Fact, named, sidecars
from nccl_insight.facts.said.stands import Stand, stands
from nccl_insight.rules._host_tools import Beside, Judge, Said, refs, tools
from nccl_insight.tables.normalise.ends import CRASHED, KILLED, UNEXPLAINED
from nccl_insight.tables.run import Run

_MEMLOCK: Final = 64 << 20
_FILES: Final = 4096
_SHM: Final = 512 << 20
_SHM_FULL: Final = 95
# The first driver of each CUDA toolkit's minor-version compatibility (CUDA Toolkit release notes, table 2).
_DRIVER_OF_CUDA: Final = {11: (450, 80), 12: (525, 60), 13: (580, 0)}


def limits(run: Run) -> Iterator[Said | Beside]:
    """Locked memory and open files, by themselves a note."""
    for fact in named(run, r"limit\.memlock"):
        if fact.value.isdecimal() and int(fact.value) < _MEMLOCK:
            size = format_bytes(int(fact.value))
            yield tools("memlock-limit.limits", [fact], size=size)
    for fact in named(run, r"limit\.open_files"):
        if fact.value.isdecimal() and int(fact.value) < _FILES:
            yield Beside("files", f"The limit of open files is {fact.value}: raise it (ulimit -n 65536).", refs([fact]))


def shared_memory(run: Run) -> Iterator[Said | Beside]:
    """The size of /dev/shm."""
    told = {(f.home, f.name): f for f in named(run, r"filesystem\.(?:size|used)") if f.device == "/dev/shm"}
    for fact in (f for (_, name), f in told.items() if name == "filesystem.size"):
        full = told.get((fact.home, "filesystem.used"))
        share = full.amount if full else 0
        if fact.amount < _SHM or share >= _SHM_FULL:
            size, most = format_bytes(int(fact.amount)), share >= _SHM_FULL
            yield tools("shm-too-small.shared-memory", [fact], shm_full=most, share=share, size=size, full=full)


def kernel(run: Run) -> Iterator[Said | Beside]:
    """An IOMMU that translates."""
    options = grouped((f.home, (f.name, f)) for f in named(run, r"cmdline\.(?:intel_iommu|amd_iommu|iommu)"))
    for own in map(dict, options.values()):
        through, makers = own.get("cmdline.iommu"), (own.get(f"cmdline.{maker}_iommu") for maker in ("intel", "amd"))
        on = next((f for f in makers if f and f.value.startswith(("on", "force"))), None)
        if on is not None and (through is None or through.value not in ("pt", "off")):
            yield tools("host-tuning.kernel", [on], option=on.name.removeprefix("cmdline."), on=on)


def versions(run: Run) -> Iterator[Said | Beside]:
    """CUDA of the program against the driver; drivers of several hosts."""
    drivers = list(named(run, r"host\.driver_version"))
    for cuda in named(run, r"torch\.cuda_version"):
        driver = next((d for d in drivers if d.input_id == cuda.input_id), None)
        number = driver and re.match(r"([0-9]+)\.([0-9]+)", driver.value)
        least = _DRIVER_OF_CUDA.get(int(cuda.amount))
        if driver and number and least and (int(number[1]), int(number[2])) < least:
            usable = next((f.value for f in named(run, r"torch\.cuda_available") if f.input_id == cuda.input_id), "")
            pair = [driver, cuda]
            yield tools("cuda-driver-too-old.versions", pair, driver=driver, cuda=cuda, least=least, usable=usable)
    hosts = {d.host: d for d in drivers if d.host}
    if len({d.value for d in hosts.values()}) > 1:
        observed = listed(d.value for d in hosts.values())
        each = listed(f"{h} {d.value}" for h, d in sorted(hosts.items()))
        yield tools("driver-mix.versions", list(hosts.values()), observed=observed, drivers=each)


_TOLD: Final = toml.beside(__file__)
_BY_SCHEDULER: Final[Mapping[str, str]] = _TOLD["by_scheduler"]
_NODE_GONE: Final = re.compile(r"(?s)(?i:down|drain|fail|not_?respond|unk)|.*DRAIN|.*\*$")


def slurm(run: Run) -> Iterator[Said | Beside]:
    """How a job of Slurm ended; what its steps say follows from the job."""
    told = {(f.input_id, f.device, f.name): f for f in named(run, r"job\..*")}
    states = (f for f in named(run, r"job\..*") if f.name == "job.state")
    for (_, job), facts in grouped(
        ((f.input_id, re.sub(r"^job ([0-9_]+).*", r"\1", f.device)), f) for f in states
    ).items():
        fact = next((f for f in facts if f.device == f"job {job}"), facts[0])
        state, memory = _state(fact), [f for f in facts if _state(f).startswith("OUT_OF_ME")]

        def shown(*names: str, of: Fact = fact) -> list[Fact]:
            more = (told.get((of.input_id, of.device, f"job.{name}")) for name in names)
            return [of, *filter(None, more)]

        if memory:
            yield tools("process-killed.slurm", memory, observed=memory[0].value, job=job)
        elif why := next((w for s, w in _BY_SCHEDULER.items() if len(state) >= 5 and s.startswith(state)), ""):
            rows = shown("reason", *(["nodelist"] if state.startswith("NODE") else []))
            yield tools("job-ended-by-scheduler.slurm-slurm-job", rows, job=job, why=why, shown=rows)
        elif state.startswith("FAIL"):
            codes = [told.get((f.input_id, f.device, "job.exitcode")) for f in facts]
            name, how = _failure([code.value for code in codes if code is not None])
            known = name != UNEXPLAINED
            yield tools("unexplained-failure.slurm", shown("exitcode"), of=name, job=job, how=how, known=known)


def _state(fact: Fact) -> str:
    """The state of a job without what stands behind it: ``CANCELLED`` of ``CANCELLED by 1000``."""
    return re.sub(r"[+ ].*", "", fact.value).upper()


def _failure(codes: Sequence[str]) -> tuple[str, str]:
    """The diagnosis of a job that failed, and how it ended, by the exit codes and signals (``1:0``) of its steps."""
    signal = next((m[1] for code in codes if (m := re.fullmatch(r"[0-9]+:([1-9][0-9]*)", code))), "")
    number = next((m[1] for code in codes if (m := re.fullmatch(r"([1-9][0-9]*):[0-9]+", code))), "")
    crashed = CRASHED if signal or number in ("134", "136", "139") else UNEXPLAINED
    how = f"signal {signal}" if signal else f"exit code {number}" if number else "an error"
    return KILLED if signal == "9" or number == "137" else crashed, how


def slurm_nodes(run: Run) -> Iterator[Said | Beside]:
    """Nodes that Slurm gives no work to."""
    down = [f for f in named(run, r"node\.state") if _NODE_GONE.match(f.value)]
    if down:
        yield tools("job-ended-by-scheduler.slurm", down, down=down, shown=all(f.tool == "scontrol show" for f in down))


# What Kubernetes says of a container: diagnosis, reasons or exit codes, and the title.
_STATES: Final[Sequence[tuple[str, Sequence[str], str]]] = _TOLD["kubernetes"]["states"]


def kubernetes(run: Run) -> Iterator[Said | Beside]:
    """How containers ended, and warnings of Kubernetes that end a pod or keep it from starting, once a pod each."""
    found: dict[tuple[str, str], Said] = {}
    for at, said in (*_containers(run), *_events(run)):
        found.setdefault(at, said)
    yield from found.values()
    for fact in named(run, r"node\.(?:condition\.ready|status)"):
        if fact.value in ("False", "Unknown") or fact.value.startswith("NotReady"):
            yield tools("job-ended-by-scheduler.kubernetes", [fact], fact=fact)


def _containers(run: Run) -> Iterator[tuple[tuple[str, str], Said]]:
    """How containers ended, by pod and diagnosis."""
    codes = {(f.input_id, f.device, _of(f)): f for f in named(run, r"pod\.(?:last_state|state)\.exit_code")}
    for fact in named(run, r"pod\.(?:last_state|state|status)\.reason|pod\.reason|pod\.status"):
        code = codes.get((fact.input_id, fact.device, _of(fact)))
        pod, reason, number = fact.device, fact.value, code.value if code else ""
        told = next((state for state in _STATES if {reason, number} & {*state[1]}), None)
        if told is None and number in ("", "0"):
            continue
        name, _, title = told or _STATES[-1]
        how = f"with exit code {number}" if number else f"({reason})"
        yield (
            (pod, name),
            tools(
                "unexplained-failure.container",
                [fact, code] if code else [fact],
                of=name,
                title=title.format(pod=pod, reason=reason, code=number, how=how),
                pod=pod or "<pod>",
                known=name != UNEXPLAINED,
                beside="state." in fact.name and sidecars(run)(fact.input_id, fact.line),
                reason=" ".join(filter(None, (reason, number))),
            ),
        )


def _events(run: Run) -> Iterator[tuple[tuple[str, str], Said]]:
    """Events of pods that end them or keep them from starting, by pod and diagnosis."""
    placed = {f.device for f in named(run, r"event\.normal\.scheduled")}
    for fact in named(run, r"event\.(?:warning|normal)\..*"):
        event, pod = fact.name.split(".", 2)[2], fact.device
        if event == _TOLD["kubernetes"]["until_scheduled"] and pod in placed:
            continue
        name = next((n for n, events in _TOLD["kubernetes"]["events"].items() if re.fullmatch(events, event)), "")
        if name:
            said = tools("launch-failed.event", [fact], of=name, event=event, pod=pod, fact=fact, name=name)
            yield (pod, name), said


def _of(fact: Fact) -> str:
    """What a fact is a part of: ``pod.state`` of ``pod.state.reason``."""
    return fact.name.rpartition(".")[0]


def stood(stand: Stand) -> str:
    """``rank 3 (process 4250) reads data (data loader): read (io.py:321), called from __getitem__ (train.py:64)``."""
    who = f"process {stand.pid}" if stand.pid is not None else "a process"
    if stand.rank is not None:
        who = f"rank {stand.rank}" + (f" ({who})" if stand.pid is not None else "")
    where = stand.top + (f", called from {stand.own}" if stand.own and stand.own != stand.top else "")
    return f"{who}{f' on {stand.host}' if stand.host else ''} {_TOLD['does'].get(stand.doing, 'stands')}: {where}"


def frames(run: Run) -> Iterator[Said | Beside]:
    """Where the stacks say that each process stands, for findings about ranks that do not go on."""
    every = stands(run)
    if every:
        # Who is elsewhere than in a collective is who the others wait for.
        apart = [s for s in every if s.doing not in ("collective", "gpu")]
        shown = (apart or list(every))[:4]
        more = f" ({plural(len(every) - len(shown), 'other stack')} in the inputs)" if len(every) > len(shown) else ""
        yield Beside(
            "stacks",
            "Stacks: " + "; ".join(stood(s) for s in shown) + more + ".",
            tuple(Ref(s.input_id, s.line) for s in shown),
        )


def daemons(run: Run) -> Iterator[Said | Beside]:
    """What a daemon logs at a severe level, where the grammar knows no meaning of it."""
    severe = list(named(run, r"daemon\.(?:error|critical|fatal|alert)"))
    if severe and "fabric-manager-issue" not in present(run):
        imex = any(f.tool == "imex log" for f in severe)
        name = "mnnvl-imex-missing" if imex else "fabric-manager-issue"
        yield tools("fabric-manager-issue.daemons", severe, of=name, imex=imex, last=severe[-1])
    domain = [f for f in named(run, r"imex\.(?:domain|state)") if f.value not in ("UP", "READY")]
    if domain:
        yield tools("mnnvl-imex-missing.daemons", domain, domain=domain)


def services(run: Run) -> Iterator[Said | Beside]:
    """Services of the NVLink fabric that do not run."""
    words = {f.device: f for f in named(run, r"service\.message")}
    for fact in named(run, r"service\.active"):
        name = _TOLD["services"].get(fact.device)
        if name and re.match(r"failed|inactive|deactivating", fact.value):
            why = words.get(fact.device)
            yield tools(
                "fabric-manager-issue.services",
                [f for f in (fact, why) if f],
                of=name,
                fact=fact,
                state=fact.value.split(" since")[0],
                why=why,
                failed=fact.value.startswith("failed"),
            )


_OF_HARDWARE: Final = re.compile(
    r"\b(?:xid|sxid|gpus?|nvlink|nvswitch|ecc|nvidia|dcgm|infiniband|ib|hca|mlx5\S*|pcie|nic|nhc)\b", re.I
)


def drained(run: Run) -> Iterator[Said | Beside]:
    """Nodes that the scheduler took out of service for their hardware."""
    found = [f for f in named(run, r"node\.reason") if _OF_HARDWARE.search(f.value)]
    if found:
        yield tools(
            "host-check-failed.drained",
            found,
            found=listed(f"{f.device} out of service: {f.value[:80]}" for f in found),
            drained=found,
        )


def kernel_links(run: Run) -> Iterator[Said | Beside]:
    """A kernel log by itself: links that went down; beside a log of the job its times decide (``facts.links``)."""
    if run.table("processes").height:
        return
    for (_, device), facts in grouped(((f.host, f.device), f) for f in named(run, r"kernel\.link")).items():
        downs = [f for f in facts if f.value == "down"]
        stays = facts[-1].value == "down"
        if stays or len(downs) > 2:
            yield tools(
                "link-flap.kernel-log",
                downs,
                of="ib-port-error" if stays else "",
                device=device,
                stays=stays,
                downs=downs,
            )


def besides(run: Run) -> Iterator[Said | Beside]:
    """Facts that belong to a finding of the log and are no fault by themselves."""
    # How pages name them, the values that tell of it, and what they are.
    for kind, pattern, values, what in _TOLD["beside"]["facts"]:
        told = [f for f in named(run, pattern) if re.fullmatch(values, f.value)]
        if told and run.table("processes").height:
            said = listed(
                " ".join(filter(None, (f.device, f.name.rsplit(".", 1)[-1].replace("_", " "), f.value))) for f in told
            )
            yield Beside(kind, f"{what}: {said}", refs(told, 2))


def ras(run: Run) -> Iterator[Said | Beside]:
    """The table of communicators of ncclras, where no details follow that tell more."""
    if run.table("ras")["event"].is_in(["mismatch", "incomplete", "dead"]).any():
        return
    for fact in named(run, r"ras\.errors"):
        if fact.value not in ("OK", "-"):
            yield tools(
                "ras-incomplete.host-tools", [fact], of="ras-mismatch" if "MISMATCH" in fact.value else "", fact=fact
            )


JUDGES: Final[tuple[Judge, ...]] = (
    limits,
    shared_memory,
    kernel,
    versions,
    slurm,
    slurm_nodes,
    kubernetes,
    frames,
    daemons,
    services,
    drained,
    kernel_links,
    besides,
    ras,
)
