"""GPUs of one node reach each other through the CPU although they have NVLink."""

import polars as pl

from nccl_insight.facts.fabric.paths import gpu_paths, nvlink_per_gpu, ring_graphs
from nccl_insight.facts.setup.outliers import outliers
from nccl_insight.facts.setup.settings import hosts_of, ranks_of, refs, settings
from nccl_insight.rules.context import Context, Hits

_FAR = ("PHB", "NODE", "SYS")
_ENV = ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL")


def check(ctx: Context) -> Hits:
    """One finding for the run."""
    run = ctx.run
    graphs = ring_graphs(run, "type_intra")
    far = graphs.filter(pl.col("type_intra").is_in(_FAR))
    if far.is_empty() or settings(run).filter(pl.col("name").is_in(_ENV)).height:
        return
    odd = [o for o in outliers(graphs, "type_intra") if o.value in _FAR and o.majority in ("NVL", "NVB")]
    linked = nvlink_per_gpu(run).join(far.select("host").unique(), on="host", how="semi", nulls_equal=True)
    if linked.is_empty() and not odd:
        return
    paths = gpu_paths(run)
    near = paths.filter(pl.col("path") == "NVL").height
    meshed = bool(paths.height) and 2 * near >= paths.height
    kind = odd[0].value if odd else far.item(0, "type_intra")
    ranks = odd[0].ranks if odd else ranks_of(far)
    hosts = odd[0].hosts if odd else hosts_of(far)
    loud = bool(odd) or meshed
    yield ctx.says("found", (*refs(far, 2), *refs(linked, 1)), whom=(*ranks, *hosts), kind=kind, loud=loud, odd=odd)
