"""nccl-tests or a capture measured clearly less than healthy machines of this kind reach."""

import polars as pl

from nccl_insight.base.model import Ref
from nccl_insight.base.units import format_bytes, format_gbps, plural
from nccl_insight.facts.figures.expected import efficiency, machine_of
from nccl_insight.facts.lateness.copies import host_copies, peer_copies
from nccl_insight.rules._traces import trace_refs
from nccl_insight.rules.context import Context, Hits


def _copies(ctx: Context) -> Hits:
    kinds = (
        ("host copies", host_copies(ctx.run), "rank", "nvidia-smi -q -d PCIE; sudo lspci -vv | grep -i lnksta"),
        ("copies between GPUs", peer_copies(ctx.run), "src", "nvidia-smi nvlink -s; nvidia-smi topo -p2p n"),
    )
    for kind, rows, who, command in kinds:
        odd = rows.filter("odd").sort("gbps")
        if odd.is_empty():
            continue
        worst = odd.row(0, named=True)
        place = (
            f"host copies of rank {worst['rank']}'s GPU ({worst['direction']})"
            if who == "rank"
            else f"copies from GPU {worst['src']} to GPU {worst['dst']}"
        )
        more = f" ({plural(odd.height, 'such copy', 'such copies')})" if odd.height > 1 else ""
        yield ctx.says(
            "copies",
            trace_refs([(worst["input_id"], f"{kind}: {format_gbps(worst['gbps'])}")]),
            whom=(*((worst["rank"],) if who == "rank" and worst["rank"] is not None else ()), worst["host"]),
            next_step=command,
            place=place,
            worst=worst,
            more=more,
        )


def check(ctx: Context) -> Hits:
    """One finding per operation and number of ranks, and one for host copies and for copies between GPUs."""
    run = ctx.run
    yield from _copies(ctx)
    rows = efficiency(run).filter((pl.col("size_bytes") >= ctx["least_bytes"]) & (pl.col("busbw_gbps") > 0))
    if rows.is_empty():
        return
    judged = rows.filter(pl.col("expected_gbps").is_not_null())
    if judged.is_empty():
        yield ctx.cannot("untold")
        return
    for part in judged.partition_by("op", "nranks", maintain_order=True):
        # The best row decides: one slow size is noise, all slow sizes are a machine.
        best = (
            part.with_columns(near=pl.col("busbw_gbps") / pl.col("expected_low_gbps")).sort("near").row(-1, named=True)
        )
        if best["near"] >= ctx["share"]:
            continue
        measured, low = format_gbps(best["busbw_gbps"]), format_gbps(best["expected_low_gbps"])
        size = format_bytes(best["size_bytes"])
        machine = machine_of(run, int(best["nranks"]), best["n_hosts"])
        yield ctx.says(
            "found",
            (Ref(best["input_id"], best.get("line") or 0, f"{best['op']} {size}: {measured}"),),
            connected=run.has("connections"),
            several=(best["n_hosts"] or 0) > 1,
            best=best,
            size=size,
            measured=measured,
            low=low,
            where=f" on {machine.describe()}" if machine is not None else "",
            part=part,
        )
