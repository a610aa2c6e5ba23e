"""Why GPUDirect RDMA is not used: candidates from the log, the most certain first."""

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.versions import at_least
from nccl_insight.facts.expected import gpu_of
from nccl_insight.facts.gdr import gdr_lines
from nccl_insight.facts.mentions import mentions
from nccl_insight.facts.networks import nics
from nccl_insight.facts.settings import setting
from nccl_insight.tables.run import Run

_LOW = ("LOC", "0", "PIX", "1")


@dataclass(frozen=True)
class Missing:
    """A piece that GPUDirect lacks. ``rows`` is the evidence (may be empty); ``expected``: nothing is wrong with it."""

    what: str
    check: str
    rows: pl.DataFrame
    expected: bool = False
    diagnosis: str = ""


_NONE = pl.DataFrame(schema={"input_id": pl.UInt16, "line": pl.UInt64})


def paths_blocked(run: Run) -> pl.DataFrame:
    """GPU-NIC pairs refused for distance, of GPUs that have no NIC that is near enough."""
    paths = gdr_lines(run).filter(pl.col("distance").is_not_null())
    near = paths.filter("enabled").select("host", "pid", "gpu").unique()
    return paths.filter(~pl.col("enabled")).join(near, on=["host", "pid", "gpu"], how="anti", nulls_equal=True)


def devices_refused(run: Run) -> pl.DataFrame:
    """NICs for which GPUDirect is off for want of a kernel module, where none of the process has it on."""
    devices = gdr_lines(run).filter(pl.col("distance").is_null() & (pl.col("scope").ne_missing("c2c")))
    good = devices.filter("enabled").select("host", "pid").unique()
    return devices.filter(~pl.col("enabled")).join(good, on=["host", "pid"], how="anti", nulls_equal=True)


def missing(run: Run) -> list[Missing]:
    """Candidates in order; the last ones are general and have no evidence in the log."""
    found: list[Missing] = []
    level = setting(run, "NCCL_NET_GDR_LEVEL").filter(pl.col("value").str.to_uppercase().is_in(_LOW))
    off = setting(run, "NCCL_IB_CUDA_SUPPORT").filter(pl.col("value") == "0")
    for rows in (level, off):
        if rows.height:
            name, value = rows.item(0, "name"), rows.item(0, "value")
            found.append(Missing(f"{name}={value} rules it out", f"run with {name} unset", rows, expected=True))
    found += _not_yet(run)
    plugin = mentions(run, "gdr-off-by-plugin")
    if plugin.height:
        found.append(
            Missing(
                "the network plugin switched it off",
                "update the plugin, libfabric and the NIC driver together; see the plugin's own line",
                plugin,
            )
        )
    refused = devices_refused(run)
    if refused.height:
        found.append(
            Missing(
                "the kernel offers neither nvidia-peermem nor DMA-BUF to the NIC",
                "lsmod | grep -E 'nvidia_peermem|nv_peer_mem'   # else: modprobe nvidia-peermem",
                refused,
            )
        )
    far = paths_blocked(run)
    if far.height:
        found.append(
            Missing(
                f"GPU and NIC are too far apart (distance {far.item(0, 'distance')}, limit {far.item(0, 'limit')})",
                "nvidia-smi topo -m   # which NIC shares a PCIe switch (PIX, PXB) with the GPU?",
                far,
                diagnosis="gdr-distance",
            )
        )
    distant = _graph_distance(run)
    if distant is not None and not far.height:
        found.append(distant)
    found += _general(run, {m.what for m in found})
    return found


def _not_yet(run: Run) -> list[Missing]:
    """A release that by default leaves out GPUs which reach the NIC through their own link to the CPU."""
    gpu = gpu_of(run)
    stated = run.table("processes").filter(pl.col("nccl_version").is_not_null())
    since = gpu.gdr_since if gpu is not None else ""
    if gpu is None or not since or not stated.height:
        return []
    if not all(at_least(v, since) is False for v in stated["nccl_version"].unique().to_list()):
        return []
    what = f"NCCL before {since} does not use it on {gpu.name}, where the way to the NIC leads through the CPU"
    check = f"python -c 'import torch; print(torch.cuda.nccl.version())'   # {since} or later uses it"
    return [Missing(what, check, stated, expected=True)]


def _graph_distance(run: Run) -> Missing | None:
    far = run.table("graphs").filter(pl.col("type_inter").is_in(["PHB", "NODE", "SYS"]))
    if far.is_empty():
        return None
    return Missing(
        f"the way from GPU to NIC crosses the CPU ({far.item(0, 'type_inter')}), beyond the default limit PXB",
        "nvidia-smi topo -m   # which NIC shares a PCIe switch (PIX, PXB) with the GPU?",
        far,
        diagnosis="gpu-nic-distance",
    )


def _general(run: Run, known: set[str]) -> list[Missing]:
    names = nics(run).get_column("name").drop_nulls().to_list()
    host = run.table("host")
    dmabuf = host.filter(pl.col("event") == "dmabuf")
    general: list[Missing] = []
    if any(n.startswith("hfi1") for n in names):
        general.append(
            Missing("Omni-Path adapters need their own GPUDirect driver (hfi1 with PSM)", "modinfo hfi1", _NONE)
        )
    module = "the kernel offers neither nvidia-peermem nor DMA-BUF to the NIC"
    if module not in known:
        if dmabuf.height:
            # DMA-BUF on the GPU side says nothing about the NIC's driver.
            check = "lsmod | grep nvidia_peermem; modinfo mlx5_ib   # DMA-BUF needs the NIC driver's support too"
        else:
            check = "lsmod | grep -E 'nvidia_peermem|nv_peer_mem'   # else: modprobe nvidia-peermem"
        general.append(Missing(module, check, dmabuf if dmabuf.height else _NONE))
    general.append(Missing("GPU and NIC are further apart than NCCL_NET_GDR_LEVEL allows", "nvidia-smi topo -m", _NONE))
    general.append(
        Missing(
            "ACS or an IOMMU blocks direct PCIe traffic",
            "sudo lspci -vvv | grep ACSCtl; cat /proc/cmdline   # SrcValid+ or intel_iommu=on",
            _NONE,
        )
    )
    return general
