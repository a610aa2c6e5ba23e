"""Why GPUDirect RDMA is not used: candidates from the log, the most certain first."""

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.versions import at_least
from nccl_insight.facts.fabric.gdr import gdr_lines
from nccl_insight.facts.fabric.networks import nics
from nccl_insight.facts.figures.expected import gpu_of
from nccl_insight.facts.said.mentions import mentions
from nccl_insight.facts.setup.settings import setting
from nccl_insight.rules.says import said
from nccl_insight.tables.run import Run

_LOW = ("LOC", "0", "PIX", "1")


@dataclass(frozen=True)
class Missing:
    """A piece that GPUDirect lacks. ``rows`` is the evidence (may be empty); ``expected``: nothing is wrong with it."""

    rows: pl.DataFrame
    what: str
    check: str
    expected: bool = False


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
            found.append(Missing(rows, expected=True, **said("gdr-not-used.by-setting", {"setting": rows})))
    found += _not_yet(run)
    plugin, refused, far = mentions(run, "gdr-off-by-plugin"), devices_refused(run), paths_blocked(run)
    if plugin.height:
        found.append(Missing(plugin, **said("gdr-not-used.by-plugin", {})))
    if refused.height:
        found.append(Missing(refused, **said("gdr-not-used.no-module", {"dmabuf": 0})))
    crossed = run.table("graphs").filter(pl.col("type_inter").is_in(["PHB", "NODE", "SYS"]))
    if far.height:
        found.append(Missing(far, **said("gdr-not-used.far", {"far": far.row(0, named=True)})))
    elif crossed.height:
        found.append(Missing(crossed, **said("gdr-not-used.over-cpu", {"crossed": crossed})))
    return found + _general(run, module=refused.is_empty())


def _not_yet(run: Run) -> list[Missing]:
    """A release that by default leaves out GPUs which reach the NIC through their own link to the CPU."""
    gpu = gpu_of(run)
    stated = run.table("processes").filter(pl.col("nccl_version").is_not_null())
    since = gpu.gdr_since if gpu is not None else ""
    if gpu is None or not since or not stated.height:
        return []
    if not all(at_least(v, since) is False for v in stated["nccl_version"].unique().to_list()):
        return []
    return [Missing(stated, expected=True, **said("gdr-not-used.not-yet", {"since": since, "gpu": gpu}))]


def _general(run: Run, *, module: bool) -> list[Missing]:
    """What may be in any run; ``module``: also that the kernel offers no way, which nothing says yet."""
    names = nics(run).get_column("name").drop_nulls().to_list()
    dmabuf = run.table("host").filter(pl.col("event") == "dmabuf")
    general: list[Missing] = []
    if any(n.startswith("hfi1") for n in names):
        general.append(Missing(_NONE, **said("gdr-not-used.omni-path", {})))
    if module:
        # DMA-BUF on the GPU side says nothing about the NIC's driver.
        words = said("gdr-not-used.no-module", {"dmabuf": dmabuf.height})
        general.append(Missing(dmabuf if dmabuf.height else _NONE, **words))
    general.append(Missing(_NONE, **said("gdr-not-used.maybe-far", {})))
    return [*general, Missing(_NONE, **said("gdr-not-used.maybe-acs", {}))]
