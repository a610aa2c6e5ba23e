"""A machine as the expectation model sees it."""

import re
from typing import Final

from nccl_insight.advise.expect.hardware import Gpu, Network, find_gpu, gpus, networks
from nccl_insight.base.data import dataclass
from nccl_insight.base.errors import UsageError

LINKS: Final = ("nvswitch", "nvlink", "pcie")
NETWORKS: Final = ("ib", "roce", "efa", "tcp", "slingshot", "tcpx", "tcpxo")
_NICS: Final = re.compile(r"(\d{1,3})x(\d{1,4})")
_CONSUMER: Final = re.compile(r"RTX (2|3|4|5)0|2080|3090|4090|5090|P40")


@dataclass(frozen=True)
class Machine:
    """GPUs, nodes and network of one communicator.

    ``nics`` is the number of NICs per node, ``nic_gbit`` the rate of each in Gbit/s. ``gdr`` None means unknown.
    ``nvls`` False means that the user switched it off, ``algorithm`` that large all-reduces must take it: ``Ring``,
    ``Tree`` or ``NVLS`` (``NVLSTree`` across domains). ``split``: the nodes are spread over so many NVLink domains
    (as many as nodes where NVLink between nodes is off); None: as few as the GPU's rack allows.
    """

    gpu: Gpu
    gpus_per_node: int
    nodes: int
    fabric: str
    network: Network
    nics: int = 0
    nic_gbit: float = 0.0
    gdr: bool | None = None
    nvls: bool | None = None
    nccl_version: tuple[int, int] | None = None
    algorithm: str | None = None
    split: int | None = None

    @property
    def ranks(self) -> int:
        """GPUs of the communicator."""
        return self.gpus_per_node * self.nodes

    @property
    def domain_nodes(self) -> int:
        """Nodes that share one NVLink domain (1 unless NVLink joins nodes)."""
        if self.fabric != "nvswitch" or self.gpu.domain_gpus <= 16:
            return 1
        most = max(1, min(self.nodes, self.gpu.domain_gpus // self.gpu.node_gpus))
        return most if self.split is None else min(most, -(-self.nodes // self.split))

    @property
    def domains(self) -> int:
        """NVLink domains, or nodes where NVLink does not leave the node."""
        return -(-self.nodes // self.domain_nodes)

    @property
    def domain_ranks(self) -> int:
        """GPUs of one domain."""
        return self.gpus_per_node * self.domain_nodes

    def describe(self) -> str:
        """``16 x H100 (2 nodes of 8, nvswitch, 8 x 400 Gbit/s ib)``."""
        net = ""
        if self.nodes > 1:
            kind = "" if self.network.name == "unknown" else f" {self.network.name}"
            net = (
                f", {self.nics} x {self.nic_gbit:g} Gbit/s{kind} per node"
                if self.nics
                else f",{kind or ' network'} of unknown rate"
            )
        nodes = f"{self.nodes} nodes of {self.gpus_per_node}" if self.nodes > 1 else "one node"
        joined = {"pcie": "PCIe", "nvswitch": "NVSwitch", "mesh": "direct links", "bridge": "NVLink bridges"}
        split = f" in {self.domains} NVLink domains" if self.split and self.domain_nodes != self.nodes else ""
        return f"{self.ranks} x {self.gpu.name} ({nodes}{split}, {joined[self.fabric]}{net})"


def parse_nics(text: str) -> tuple[int, float]:
    """``8x400``: number of NICs per node and Gbit/s of each. Raises UsageError: not of that form."""
    found = _NICS.fullmatch(text.strip().lower())
    if found is None or int(found[1]) == 0 or int(found[2]) == 0:
        raise UsageError(f"--nics {text!r}: write COUNTxGBITS per node, such as 8x400")
    return int(found[1]), float(found[2])


def build(
    gpu: str,
    *,
    nodes: int = 1,
    gpus_per_node: int | None = None,
    nics: str | None = None,
    network: str | None = None,
    link: str | None = None,
    gdr: bool | None = None,
    nvls: bool | None = None,
    nccl_version: str | None = None,
    domains: int | None = None,
) -> Machine:
    """A machine from what a user writes. Raises UsageError: the GPU is not in the table, or a value makes no sense."""
    model = find_gpu(gpu)
    if model is None:
        known = ", ".join(g.name for g in gpus())
        raise UsageError(f"--gpu {gpu!r}: not in the hardware table; known: {known}")
    if nodes < 1 or (gpus_per_node is not None and gpus_per_node < 1):
        raise UsageError("--nodes and --gpus-per-node start at 1")
    if domains is not None and not 1 <= domains <= nodes:
        raise UsageError(f"--domains {domains}: from 1 to the number of nodes, {nodes}")
    if network is not None and network not in NETWORKS:
        raise UsageError(f"--network {network!r}: use one of {', '.join(NETWORKS)}")
    if link is not None and link not in LINKS:
        raise UsageError(f"--link {link!r}: use one of {', '.join(LINKS)}")
    count, gbit = parse_nics(nics) if nics else (0, 0.0)
    version = re.match(r"(\d+)\.(\d+)", nccl_version or "")
    if nccl_version and version is None:
        raise UsageError(f"--nccl {nccl_version!r}: write a release such as 2.27.7")
    local = gpus_per_node if gpus_per_node is not None else model.node_gpus
    return Machine(
        gpu=model,
        gpus_per_node=local,
        nodes=nodes,
        fabric=_fabric(model, link),
        network=networks()[network or "unknown"],
        nics=count,
        nic_gbit=gbit,
        gdr=gdr,
        nvls=nvls,
        nccl_version=None if version is None else (int(version[1]), int(version[2])),
        split=domains,
    )


def _fabric(gpu: Gpu, link: str | None) -> str:
    if link == "pcie":
        return "pcie"
    if link == "nvswitch":
        return "nvswitch" if gpu.get("nvlink_gbps") else "pcie"
    if link == "nvlink":
        if gpu.get("bridge_gbps"):
            return "bridge"
        return "mesh" if gpu.mesh_links else gpu.fabric
    return gpu.fabric


def direct_memory(machine: Machine) -> bool:
    """Whether NICs read GPU memory: as the user says, else what the GPU and the network can."""
    if machine.gpu.unified:
        return True
    if machine.gdr is not None:
        return machine.gdr and machine.network.gdr
    return machine.network.gdr and _CONSUMER.search(machine.gpu.name) is None
