"""GPUs of one node exchange data through host memory because P2P is not possible."""

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Confidence, Hit
from nccl_insight.facts.fabric.paths import gpu_paths, has_nvlink, nvlink_mesh
from nccl_insight.facts.setup.settings import hosts_of, ranks_of, refs, setting, switched_on
from nccl_insight.facts.who.transports import links
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run


@dataclass(frozen=True)
class _Odd:
    """What makes SHM on this machine surprising."""

    why: str
    rows: pl.DataFrame
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    confidence: Confidence = Confidence.HIGH


def check(ctx: Context) -> Hits:
    """One finding for the run."""
    run = ctx.run
    inside = links(run).filter(pl.col("transport").is_in(["P2P", "SHM"]))
    shm = inside.filter(pl.col("transport") == "SHM")
    chosen = pl.concat([switched_on(run, "NCCL_P2P_DISABLE"), setting(run, "NCCL_P2P_LEVEL")])
    shm = shm.join(chosen.select("host", "pid"), on=["host", "pid"], how="anti", nulls_equal=True)
    refused = run.table("p2p_check")
    refused = refused.filter(pl.col("outcome").is_in(["disabled", "query_failed", "not_enabled", "not_supported"]))
    if chosen.height:
        refused = refused.clear()
    if shm.height or refused.height:
        yield _hit(ctx, shm, refused, _odd(run, inside, shm))
        return
    if not inside.height and not chosen.height:
        yield from _by_topology(ctx)


def _odd(run: Run, inside: pl.DataFrame, shm: pl.DataFrame) -> _Odd | None:
    if shm.is_empty():
        return None
    if nvlink_mesh(run):
        return _Odd("the GPUs of this machine have NVLink", shm, ranks_of(shm, "src_rank"), hosts_of(shm))
    return _odd_host(inside, shm) or _odd_rank(inside)


def _odd_host(inside: pl.DataFrame, shm: pl.DataFrame) -> _Odd | None:
    """Hosts with SHM among hosts without, in one communicator."""
    hosts = (
        inside.filter(pl.col("src_host").is_not_null())
        .group_by("comm_id", "src_host", maintain_order=True)
        .agg(shm=(pl.col("transport") == "SHM").any())
    )
    mixed = hosts.group_by("comm_id").agg(
        pl.len().alias("all"), pl.col("shm").sum().alias("with"), odd=pl.col("src_host").filter("shm")
    )
    mixed = mixed.filter((pl.col("with") > 0) & (pl.col("with") * 2 < pl.col("all")))
    names = sorted({h for odd in mixed.get_column("odd").to_list() for h in odd})
    if not names:
        return None
    rows = shm.filter(pl.col("src_host").is_in(names))
    return _Odd("other hosts use P2P only", rows, ranks_of(rows, "src_rank"), tuple(names))


def _odd_rank(inside: pl.DataFrame) -> _Odd | None:
    """A single rank of a host of which every connection is SHM while the rest of the host uses P2P."""
    ends = pl.concat(
        [
            inside.select("comm_id", "src_host", pl.col("src_rank").alias("rank"), "transport"),
            inside.select("comm_id", "src_host", pl.col("dst_rank").alias("rank"), "transport"),
        ]
    )
    ranks = ends.group_by("comm_id", "src_host", "rank").agg((pl.col("transport") == "SHM").all().alias("only_shm"))
    hosts = ranks.group_by("comm_id", "src_host").agg(
        pl.len().alias("all"), pl.col("only_shm").sum().alias("odd"), pl.col("rank").filter("only_shm").first()
    )
    odd = hosts.filter((pl.col("odd") == 1) & (pl.col("all") >= 4)).sort("comm_id", "rank")
    if odd.is_empty():
        return None
    rank = odd.item(0, "rank")
    rows = inside.filter(
        pl.col("comm_id").eq_missing(pl.lit(odd.item(0, "comm_id"), dtype=pl.String))
        & ((pl.col("src_rank") == rank) | (pl.col("dst_rank") == rank))
    )
    return _Odd(
        f"only rank {rank} of its host has no P2P", rows, (rank,), hosts_of(rows, "src_host"), Confidence.MEDIUM
    )


def _hit(ctx: Context, shm: pl.DataFrame, refused: pl.DataFrame, odd: _Odd | None) -> Hit:
    n_pairs = shm.select("comm_id", "src_rank", "dst_rank").n_unique()
    hosts = odd.hosts if odd and odd.hosts else hosts_of(shm)
    ranks = odd.ranks if odd and odd.ranks else ()
    return ctx.says(
        "found",
        (*refs(odd.rows if odd else shm, 2), *refs(refused, 2)),
        whom=(*ranks, *hosts),
        confidence=odd.confidence if odd else Confidence.HIGH,
        odd=odd,
        n_pairs=n_pairs,
    )


def _by_topology(ctx: Context) -> Hits:
    paths = gpu_paths(ctx.run)
    if paths.is_empty() or has_nvlink(ctx.run) or paths.filter(~pl.col("path").is_in(["PHB", "NODE", "SYS"])).height:
        return
    kinds = ", ".join(paths.get_column("path").unique(maintain_order=True))
    hosts = hosts_of(paths)
    yield ctx.says("by-topology", refs(paths, 3), whom=hosts, kinds=kinds)
