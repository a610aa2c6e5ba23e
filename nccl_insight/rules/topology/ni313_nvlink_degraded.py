"""A GPU has fewer or slower NVLinks than its peers."""

import polars as pl

from nccl_insight.advise.expect.hardware import find_gpu
from nccl_insight.facts.fabric.health import fabric_health
from nccl_insight.facts.fabric.paths import nvlink_per_gpu, nvlinks
from nccl_insight.facts.said.diagnostics import findings
from nccl_insight.facts.setup.settings import hosts_of, refs
from nccl_insight.rules._diag import diagnosed
from nccl_insight.rules._errors import Trouble
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding from the topology, one from nvidia-smi, one from NCCL's diagnostics."""
    run = ctx.run
    yield from _topology(ctx)
    yield from _one_way(ctx)
    yield from _smi(ctx)
    counted = findings(run, "NVLink")
    usual = str(next(iter(counted["reference_value"].drop_nulls()), ""))
    yield from diagnosed(ctx, "links-degraded", counted, usual=usual)
    for found in fabric_health(run):
        if found.bad:
            yield ctx.says("fabric", found.evidence, whom=found.hosts, found=found, bad=" and ".join(found.bad))
    said = ctx.lines()
    rows = said.rows.filter(pl.col("level").ne_missing("DIAG")) if said else None
    if rows is not None and rows.height:
        yield from ctx.tells("found", rows=Trouble(rows))


def _topology(ctx: Context) -> Hits:
    gpus = nvlink_per_gpu(ctx.run).filter(pl.col("bw_gbps") > 0).with_columns(pl.col("bw_gbps").round(1))
    votes = gpus.group_by("bw_gbps").len().sort("len", "bw_gbps", descending=True)
    if votes.height < 2:
        return
    usual, count = float(votes.item(0, "bw_gbps")), int(votes.item(0, "len"))
    low = gpus.filter(pl.col("bw_gbps") < usual * 0.95)
    # A property of the machine, not a lost link, when many GPUs are alike in it.
    if low.is_empty() or 3 * low.height > count:
        return
    yield ctx.says(
        "topology",
        (*refs(low, 2), *refs(gpus.filter(pl.col("bw_gbps") == usual), 1)),
        whom=hosts_of(low),
        names=", ".join(f"{g} ({b:.0f} GB/s)" for g, b in low.select("gpu", "bw_gbps").head(4).rows()),
        count=count,
        usual=usual,
        bw_gbps=low.item(0, "bw_gbps"),
    )


def _one_way(ctx: Context) -> Hits:
    """Links between two GPUs that are slower in one direction: both ends have the same wires."""
    there = nvlinks(ctx.run)
    back = there.select("host", src="dst", dst="src", back_gbps="bw_gbps")
    slow = there.join(back, on=["host", "src", "dst"], how="inner", maintain_order="left").filter(
        pl.col("bw_gbps") < 0.95 * pl.col("back_gbps")
    )
    if slow.is_empty():
        return
    row, hosts = slow.row(0, named=True), hosts_of(slow)
    file = ctx.run.table("env").filter(pl.col("name") == "NCCL_TOPO_FILE")["value"].drop_nulls()
    told = f" (does {file[0]} say so? it is NCCL_TOPO_FILE)" if len(file) else ""
    yield ctx.says("one-way", refs(slow, 2), whom=hosts, row=row, told=told)


def _built(model: str) -> int | None:
    """Links of a board whose NVLinks are all wired; PCIe cards use bridges."""
    gpu = find_gpu(model)
    return gpu.links if gpu is not None and gpu.fabric != "pcie" else None


def _smi(ctx: Context) -> Hits:
    links = ctx.run.table("nvlinks")
    if links.is_empty():
        return
    per_gpu = (
        links.group_by("input_id", "gpu", maintain_order=True)
        .agg(
            pl.col("active").fill_null(True).sum().alias("up"),
            pl.col("speed_gbps").filter(pl.col("active").fill_null(True)).min().alias("slowest"),
            pl.col("model").first(),
            line=pl.col("line").filter(~pl.col("active").fill_null(True)).first(),
        )
        .with_columns(
            built=pl.col("model").map_elements(_built, return_dtype=pl.Int32, skip_nulls=True),
            most=pl.col("up").max().over("input_id"),
            fastest=pl.col("slowest").max().over("input_id"),
        )
    )
    short = per_gpu.filter(
        (pl.col("up") < pl.max_horizontal("most", "built")) & ((pl.col("up") > 0) | (pl.col("most") > 0))
    )
    slow = per_gpu.filter(pl.col("slowest") < 0.95 * pl.col("fastest"))
    if short.height:
        row = short.row(0, named=True)
        usual = max(row["most"], row["built"] or 0)
        gpus = ", ".join(str(g) for g in short.get_column("gpu").unique().sort().to_list()[:8])
        yield ctx.says("smi", refs(short, 3), gpus=gpus, row=row, usual=usual, built=row["model"] and row["built"])
    elif slow.height:
        row = slow.row(0, named=True)
        yield ctx.says("smi-gpu-nvlink", (), row=row)
