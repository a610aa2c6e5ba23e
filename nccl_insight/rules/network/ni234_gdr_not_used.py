"""RDMA connections go through host memory: GPUDirect RDMA is not used."""

import polars as pl

from nccl_insight.base.model import Hit
from nccl_insight.facts.fabric.gdr import gdr_by_host
from nccl_insight.facts.fabric.networks import networks_in_use, nics
from nccl_insight.facts.fabric.reach import spans_hosts
from nccl_insight.facts.said.mentions import mentions
from nccl_insight.facts.setup.settings import hosts_of, refs
from nccl_insight.facts.who.transports import is_rdma, net_links
from nccl_insight.rules._gdr import Missing, devices_refused, missing, paths_blocked
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """One finding for hosts that differ, else one for the whole run."""
    run = ctx.run
    hosts = gdr_by_host(run)
    without = hosts.filter(pl.col("without") > 0)
    if hosts.is_empty():
        yield from _stated(ctx)
        return
    if without.is_empty():
        return
    reasons = missing(run)
    none_direct = without.filter(pl.col("direct") == 0)
    uneven = none_direct.height < hosts.height
    concerned = none_direct if uneven and none_direct.height else without
    yield _hit(ctx, hosts, concerned, uneven, reasons)


def _capable(run: Run) -> bool:
    """NVIDIA NICs next to GPUs that have NVLink: such machines are made for GPUDirect."""
    names = nics(run).get_column("name").drop_nulls()
    nvlink = run.table("graphs").get_column("type_intra").is_in(["NVL", "NVB"]).any()
    nvlink = nvlink or bool(
        run.table("topology_links").filter(pl.col("link").cast(pl.String) == "NVL").height
        or run.table("channel_counts").filter(pl.col("nvls_channels") > 0).height
    )
    return bool(names.str.starts_with("mlx5_").any()) and bool(nvlink)


def _reads_only(run: Run) -> bool:
    """Whether every receive uses GPUDirect and only sends do not: NCCL's default before Ampere (NCCL_NET_GDR_READ)."""
    rdma = net_links(run).filter(pl.col("rdma"))
    sends = pl.col("direction").cast(pl.String) == "send"
    direct = pl.col("gdr").fill_null(False)
    receives = rdma.filter(~sends)
    return receives.height > 0 and receives.filter(~direct).is_empty() and rdma.filter(sends & direct).is_empty()


def _by_nic(run: Run) -> bool:
    """Whether each rank has GPUDirect over the same NICs as the GPU of that number on any host, over others never."""
    rdma = net_links(run).filter(pl.col("rdma"))
    receives, direct = pl.col("direction").cast(pl.String) == "receive", pl.col("gdr").fill_null(False)
    gpu = pl.when(receives).then("dst_dev").otherwise("src_dev")
    pairs = rdma.group_by(gpu=gpu, nic="net_dev").agg(answers=direct.n_unique())
    ranks = rdma.group_by("local_host", "local_rank_id").agg(any=direct.any())
    return pairs.filter(pl.col("answers") > 1).is_empty() and bool(ranks["any"].all())


def _hit(ctx: Context, hosts: pl.DataFrame, concerned: pl.DataFrame, uneven: bool, reasons: list[Missing]) -> Hit:
    run = ctx.run
    names = hosts_of(concerned, "local_host")
    ranks = tuple(sorted({r for rows in concerned.get_column("ranks").to_list() for r in rows}))
    total, without = int(hosts["total"].sum()), int(hosts["without"].sum())
    first = reasons[0]
    supported = first.rows.height > 0
    meant = first.expected and not uneven
    far = _by_nic(run)
    loud = not meant and (uneven or _capable(run)) and not _reads_only(run) and not far
    direct = net_links(run).filter(pl.col("gdr").fill_null(False))
    return ctx.says(
        "found",
        (*refs(concerned, 2), *refs(first.rows, 1), *(refs(direct, 1) if uneven else ())),
        whom=(*(ranks if uneven else ()), *names),
        next_step=first.check,
        caused_by=("env-mismatch",) if uneven else (),
        where=uneven and names,
        without=without,
        total=total,
        far=far,
        why=_explain(reasons, supported),
        n_with=total - without,
        loud=loud,
        sure=uneven or supported,
        meant=meant,
    )


def _explain(reasons: list[Missing], supported: bool) -> str:
    likely = f"Most likely: {reasons[0].what}" + ("" if supported else " (nothing in the log says so)")
    rest = "; ".join(f"{m.what} (`{m.check}`)" for m in reasons[1:4])
    return f"{likely}. Alternatives: {rest}." if rest else f"{likely}."


def _stated(ctx: Context) -> Hits:
    """Without connections: what NCCL or its plugin says in words."""
    run = ctx.run
    networks = networks_in_use(run)
    if spans_hosts(run) is False or (networks and not any(is_rdma(n) for n in networks)):
        return
    rows = mentions(run, "gdr-off-by-plugin")
    refused, far = devices_refused(run), paths_blocked(run)
    if not (rows.height or refused.height or far.height):
        return
    reasons = missing(run)
    first = reasons[0]
    evidence = (*refs(rows, 2), *refs(refused, 2), *refs(far, 2))
    yield ctx.says(
        "stated",
        evidence,
        whom=tuple(sorted({*hosts_of(rows), *hosts_of(refused), *hosts_of(far)})),
        explanation=_explain(reasons, first.rows.height > 0),
        ranks=net_links(run).get_column("local_rank_id").drop_nulls().unique().sort().to_list(),
        first=first,
    )
