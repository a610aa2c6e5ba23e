"""Checks of manifests beyond single variables: shared and locked memory, replicas that differ, addresses."""

import re
from collections.abc import Iterator
from typing import Final

import yaml

from nccl_insight.advise.settings.check import issue_of
from nccl_insight.advise.settings.interfaces import is_loopback
from nccl_insight.advise.settings.lint.machine import (
    LEAST_SHM_BYTES,
    Found,
    local_ranks,
    size_bytes,
    small_shm,
    too_many_processes,
)
from nccl_insight.advise.settings.lint.yaml_ import Document, child, entries, line_of, text_of
from nccl_insight.base.words import words

_GPU: Final = re.compile(r"(?:nvidia|amd)\.com/gpu(?:\.shared)?")
_RDMA: Final = re.compile(
    r"rdma/[\w.-]+|nvidia\.com/(?:hostdev|mlnxnics|sriov[\w-]*)|"
    r"vpc\.amazonaws\.com/efa|(?<![\w.-])[\w.-]+/(?:ib|roce)[\w-]*"
)
# Ranks that disagree on these settings choose different algorithms or buffer sizes and hang.
_AGREE: Final = frozenset(
    words("""NCCL_ALGO NCCL_PROTO NCCL_BUFFSIZE NCCL_LL_BUFFSIZE NCCL_LL128_BUFFSIZE NCCL_NTHREADS
    NCCL_LL128_NTHREADS NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS NCCL_MIN_CTAS NCCL_MAX_CTAS NCCL_P2P_NET_CHUNKSIZE
    NCCL_CROSS_NIC NCCL_NET NCCL_NVLS_ENABLE NCCL_COLLNET_ENABLE NCCL_CUMEM_ENABLE NCCL_LAUNCH_MODE NCCL_COMM_ID
    NCCL_IB_DISABLE NCCL_TOPO_FILE""")
)


def check_pods(documents: list[Document]) -> Iterator[Found]:
    """``(line, issue)`` for every document of the manifest."""
    for document in documents:
        nodes = list(_nodes(document.root))
        yield from _containers(nodes)
        yield from _compose(document.root)
        yield from _replicas(nodes)
        yield from _launcher(document.root)
        yield from _networks(nodes)
        yield from _single(nodes)
        yield from _accelerate(document.root)


def _nodes(root: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    """Every mapping of a document once, outer ones first."""
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop(0)
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            yield node
            waiting.extend(value for _, value in node.value)
        elif isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)


def _items(node: yaml.Node | None, *keys: str) -> list[yaml.Node]:
    """The items of the list below the keys."""
    found = child(node, *keys)
    return list(found.value) if isinstance(found, yaml.SequenceNode) else []


def _said(node: yaml.Node | None, *keys: str) -> str:
    """The text below the keys, or of the node itself; empty where there is none."""
    return text_of(child(node, *keys)) or ""


def _asked(container: yaml.Node, pattern: re.Pattern[str]) -> tuple[int, yaml.Node] | None:
    """Amount and place of a resource that a container asks for."""
    for kind in ("limits", "requests"):
        for key, value in entries(child(container, "resources", kind)):
            text = _said(value)
            if pattern.fullmatch(key) and text.isdigit() and int(text) > 0:
                return int(text), value
    return None


def _containers(nodes: list[yaml.MappingNode]) -> Iterator[Found]:
    shared = _shares_memory(nodes)
    yield from _small_volumes(nodes)
    listed = {id(item) for node in nodes for item in _items(node, "containers")}
    for container in nodes:
        gpus = _asked(container, _GPU)
        mounts = {text_of(child(m, "mountPath")) for m in _items(container, "volumeMounts")}
        # What an operator makes of a resource of its own is not known here.
        plain = id(container) in listed or text_of(child(container, "image")) is not None
        if gpus and gpus[0] > 1 and plain and not shared and not any((m or "").startswith("/dev/shm") for m in mounts):
            step = "Mount an emptyDir with medium: Memory at /dev/shm."
            yield line_of(gpus[1]), issue_of("shared-memory-dev", who=f"a container with {gpus[0]} GPUs", step=step)
        for place, count in _processes(container):
            if gpus and count > gpus[0]:
                yield line_of(place), too_many_processes(count, gpus[0], "of the container")
        rdma = _asked(container, _RDMA)
        if rdma is None:
            continue
        added = {text_of(c) for c in _items(container, "securityContext", "capabilities", "add")}
        privileged = _said(container, "securityContext", "privileged").lower() == "true"
        if not privileged and not added & {"IPC_LOCK", "ALL", "SYS_ADMIN"}:
            yield line_of(rdma[1]), issue_of("container-asks-rdma")


def _shares_memory(nodes: list[yaml.MappingNode]) -> bool:
    """Whether shared memory is seen to elsewhere: by the host's, by an operator, or by Ray."""
    return any(
        (key == "hostIPC" and _said(value).lower() == "true")
        or key in {"shmSize", "shm_size", "sizeMemory", "sharedMemory"}
        # Other operators name their volumes in other words, such as emptyDirMedium of MiniCluster.
        or (key != "medium" and key.lower().endswith("medium") and _said(value).lower() == "memory")
        or (key == "apiVersion" and _said(value).startswith("ray.io/"))
        for node in nodes
        for key, value in entries(node)
    )


def _small_volumes(nodes: list[yaml.MappingNode]) -> Iterator[Found]:
    """Volumes for /dev/shm that are limited to less than segments need, in pods with several GPUs."""
    at_shm = {
        text_of(child(mount, "name"))
        for container in nodes
        if (gpus := _asked(container, _GPU)) is not None and gpus[0] > 1
        for mount in _items(container, "volumeMounts")
        if text_of(child(mount, "mountPath")) == "/dev/shm"
    }
    for volume in (v for node in nodes for v in _items(node, "volumes") if text_of(child(v, "name")) in at_shm):
        limit = child(volume, "emptyDir", "sizeLimit")
        size = size_bytes(_said(limit))
        if limit is not None and size is not None and size < LEAST_SHM_BYTES:
            yield line_of(limit), small_shm("a container with several GPUs", _said(limit), "sizeLimit: 16Gi")


def _compose(root: yaml.Node) -> Iterator[Found]:
    for name, service in entries(child(root, "services")):
        gpus = _compose_gpus(service)
        low = _said(service, "ulimits", "memlock") or _said(service, "ulimits", "memlock", "soft")
        infiniband = any("/dev/infiniband" in _said(d) for d in _items(service, "devices"))
        if low.isdigit() and int(low) < 1 << 30 and (gpus is not None or infiniband):
            line = line_of(child(service, "ulimits", "memlock") or service)
            yield line, issue_of("memlock-limits-locked", low=low, low_kib=int(low) >> 10)
        if given := child(service, "shm_size"):
            # Where a container starts more than one process of a job on its GPUs.
            several = gpus is not None or any(count > 1 for _, count in _processes(service))
            size = size_bytes(_said(given))
            if several and size is not None and size < LEAST_SHM_BYTES:
                yield line_of(given), small_shm(f"service {name[:60]}", _said(given), "shm_size: 16gb")
        elif gpus is not None and not _own_memory(service):
            who, step = f"service {name[:60]} with several GPUs", "Add shm_size: 16gb (or ipc: host)."
            yield line_of(gpus), issue_of("shared-memory-dev", who=who, step=step)


def _own_memory(service: yaml.Node) -> bool:
    """Whether a service gets shared memory from elsewhere: another one's, or a mount."""
    mounts = [m for key in ("volumes", "tmpfs") for m in (*_items(service, key), child(service, key)) if m is not None]
    mounted = any("/dev/shm" in _said(m) + _said(m, "target") for m in mounts)
    return mounted or re.match(r"(?:host|shareable)$|container:|service:", _said(service, "ipc")) is not None


def _processes(node: yaml.Node) -> Iterator[tuple[yaml.Node, int]]:
    """How many processes the command of a container starts on it, and where that stands."""
    for key in ("command", "args", "entrypoint"):
        value = child(node, key)
        parts = [value] if text_of(value) else _items(value)
        words = " ".join(_said(part) for part in parts).split()
        if value is not None:
            yield from ((value, count) for count in local_ranks(words))


def _compose_gpus(service: yaml.Node) -> yaml.Node | None:
    """Where a service asks for more than one GPU."""
    short = child(service, "gpus")
    if text_of(short) == "all":
        return short
    for device in [*_items(service, "deploy", "resources", "reservations", "devices"), *_items(short)]:
        capabilities = {text_of(c) for c in _items(device, "capabilities")}
        count, ids = text_of(child(device, "count")), _items(device, "device_ids")
        driver = text_of(child(device, "driver"))
        if (capabilities and "gpu" not in capabilities) or (not capabilities and driver != "nvidia"):
            continue
        if (
            len(ids) > 1
            or count == "all"
            or (count is None and not ids)
            or ((count or "").isdigit() and int(count or 0) > 1)
        ):
            return device
    return None


def _variables(node: yaml.Node | None) -> dict[str, tuple[str, yaml.Node]]:
    found: dict[str, tuple[str, yaml.Node]] = {}
    for mapping in _nodes(node):
        for item in _items(mapping, "env"):
            name, value = text_of(child(item, "name")), child(item, "value")
            text = text_of(value)
            if name and text is not None and value is not None and "$(" not in text and "{{" not in text:
                found[name] = (text, value)
    return found


def _replicas(nodes: list[yaml.MappingNode]) -> Iterator[Found]:
    """Master and Worker of one job with different values of a setting that all ranks must share."""
    for node in nodes:
        for key, specs in entries(node):
            if not key.lower().endswith("replicaspecs"):
                continue
            roles = [(role, _variables(spec)) for role, spec in entries(specs) if role.lower() != "launcher"]
            names = sorted({name for _, found in roles for name in found if name in _AGREE})
            for name in names:
                given = [(role, *found[name]) for role, found in roles if name in found]
                if len({value for _, value, _ in given}) > 1:
                    words = " and ".join(f"{value[:40]} for {role}" for role, value, _ in given)
                    yield line_of(given[0][2]), issue_of("differs-between-replicas", name, words=words)


def _launcher(root: yaml.Node) -> Iterator[Found]:
    """Settings of an MPIJob's launcher that mpirun does not pass on: its env is not that of the ranks."""
    if text_of(child(root, "kind")) != "MPIJob":
        return
    if (text_of(child(root, "spec", "mpiImplementation")) or "OpenMPI") != "OpenMPI":
        return
    specs = child(root, "spec", "mpiReplicaSpecs")
    worker = child(specs, "Worker")
    at_workers = set(_variables(worker))
    passes: set[str] | None = None
    for container in _items(specs, "Launcher", "template", "spec", "containers"):
        command = " ".join(_texts(child(container, "command")) + _texts(child(container, "args")))
        # A variable in the command may hold any option.
        if not re.search(r"\bmpi(?:run|exec)\b", command) or "$" in command or re.search(r"\.sh\b", command):
            continue
        passed = set(re.findall(r"(?:^|\s)-x\s+([A-Za-z_][A-Za-z0-9_]*)", command))
        passes = passed | {n for n in at_workers if f"{n}=" in command} | _conf_files(worker)
        for item in _items(container, "env"):
            name, value = _said(item, "name"), child(item, "value")
            wanted = name.startswith(("NCCL_", "RCCL_")) and name not in passed | at_workers
            if wanted and value is not None and f"{name}=" not in command:
                yield line_of(item), issue_of("set-launcher-only", name)
    if passes is not None:
        for name, (given, node) in _variables(worker).items():
            if name.startswith(("NCCL_", "RCCL_")) and name not in passes:
                yield line_of(node), issue_of("worker-env-reach", name, given=given)


def _conf_files(worker: yaml.Node | None) -> set[str]:
    """Nothing is lost where the worker starts sshd by itself with its environment written down."""
    said = " ".join(" ".join(_texts(child(m, "command")) + _texts(child(m, "args"))) for m in _nodes(worker))
    kept = re.search(r"SetEnv|PermitUserEnvironment|/etc/environment|nccl\.conf|printenv|env >", said)
    return set(_variables(worker)) if kept else set()


def _networks(nodes: list[yaml.MappingNode]) -> Iterator[Found]:
    """A host's interface named in a pod that has a network namespace of its own."""
    multus = any("networks" in key and "/" in key for node in nodes for key, _ in entries(node))
    for node in nodes:
        containers = [*_items(node, "containers"), *_items(node, "initContainers")]
        host = child(node, "hostNetwork")
        if not containers or multus or (host is not None and text_of(host) != "false"):
            continue
        for container in containers:
            for item in _items(container, "env"):
                value = child(item, "value")
                name, text = _said(item, "name"), _said(value).strip()
                if name not in {"NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME"} or value is None or text[:1] == "^":
                    continue
                if text and not re.match(r"=?(?:eth|net|lo|e\d|gpu\d*rdma)|[^${]*[${]", text):
                    yield line_of(value), issue_of("name-host-this", name, text=text)


def _single(nodes: list[yaml.MappingNode]) -> Iterator[Found]:
    """Several pods of one GPU each."""
    for node in nodes:
        keys = ("replicas", "completions", "parallelism")
        count = next((_said(node, key) for key in keys if child(node, key)), "")
        if not count.isdigit() or int(count) < 2:
            continue
        for container in (c for n in _nodes(node) for c in _items(n, "containers")):
            gpus = _asked(container, _GPU)
            if gpus is not None and gpus[0] == 1:
                yield line_of(gpus[1]), issue_of("pods-one-gpu", count=count)
                return


def _texts(node: yaml.Node | None) -> list[str]:
    whole = text_of(node)
    return [whole] if whole is not None else [_said(item) for item in _items(node)]


def _accelerate(root: yaml.Node) -> Iterator[Found]:
    machines = _said(root, "num_machines")
    address = child(root, "main_process_ip")
    text = _said(address)
    if machines.isdigit() and int(machines) > 1 and address is not None and (text == "0.0.0.0" or is_loopback(text)):
        yield line_of(address), issue_of("main-process-machines", text_of=text, machines=machines)
