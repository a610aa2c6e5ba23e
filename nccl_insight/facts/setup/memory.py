"""Where NCCL's GPU memory goes: allocations of the log by rank and purpose, what connections need, what would save."""

import polars as pl

from nccl_insight.advise.expect.memory import Saving, connection_bytes, savings
from nccl_insight.base.data import dataclass
from nccl_insight.base.units import format_bytes, plural
from nccl_insight.facts.who.transports import links
from nccl_insight.tables.run import Run, fact


@dataclass(frozen=True)
class RankMemory:
    """Device memory of one process: bytes in all and by purpose, the number of communicators, its first line."""

    host: str | None
    pid: int | None
    rank: int | None
    bytes: int
    purposes: tuple[tuple[str, int, int], ...]
    communicators: int
    input_id: int
    line: int

    def words(self) -> str:
        """``2.6 GiB: P2P 2.6 GiB in 448 allocations, channels 79 KiB``."""
        parts = [
            f"{name} {format_bytes(size)} in {plural(count, 'allocation')}" for name, size, count in self.purposes[:4]
        ]
        return f"{format_bytes(self.bytes)}: {', '.join(parts)}"


@fact
def device_memory(run: Run) -> list[RankMemory]:
    """What each process allocated on its GPU, the most first; empty without ALLOC lines."""
    rows = run.table("nccl_memory").filter(pl.col("place").cast(pl.String) == "device")
    found: list[RankMemory] = []
    for part in rows.partition_by("host", "pid", maintain_order=True):
        purposes = (
            part.group_by("purpose")
            .agg(pl.col("bytes").sum(), pl.col("count").sum())
            .sort("bytes", "purpose", descending=[True, False], nulls_last=True)
        )
        ranks = part.sort("bytes", descending=True, maintain_order=True)["rank"].drop_nulls()
        found.append(
            RankMemory(
                host=part["host"][0],
                pid=part["pid"][0],
                rank=ranks[0] if ranks.len() else None,
                bytes=int(part["bytes"].sum()),
                purposes=tuple(purposes.iter_rows()),
                communicators=part["comm_id"].drop_nulls().n_unique(),
                input_id=part["input_id"][0],
                line=part["line"][0],
            )
        )
    return sorted(found, key=lambda item: -item.bytes)


@dataclass(frozen=True)
class Connections:
    """P2P connections of the rank that has most, and the memory that they need by NCCL's formula."""

    rank: int
    receives: int
    sends: int
    p2p_receives: int
    p2p_sends: int
    bytes: int
    input_id: int
    line: int


def connection_memory(run: Run) -> Connections | None:
    """The rank whose P2P connections need most; None where the log shows none."""
    rows = links(run).filter(
        (pl.col("transport") == "P2P") & pl.col("src_rank").is_not_null() & pl.col("dst_rank").is_not_null()
    )
    if rows.is_empty():
        return None
    settings = dict(run.table("env").select("name", "value").iter_rows())
    receive, send = connection_bytes(settings)
    p2p = (pl.col("conn_index") == 1).fill_null(False)
    ends = [
        rows.group_by("comm_id", pl.col(end).alias("rank")).agg(pl.len().alias(name), p2p.sum().alias(f"p2p_{name}"))
        for end, name in (("dst_rank", "receives"), ("src_rank", "sends"))
    ]
    both = ends[0].join(ends[1], on=["comm_id", "rank"], how="full", coalesce=True).fill_null(0)
    worst = (
        both.with_columns(need=pl.col("receives").cast(pl.Int64) * receive + pl.col("sends").cast(pl.Int64) * send)
        .sort("need", "rank", descending=[True, False])
        .row(0, named=True)
    )
    first = rows.filter((pl.col("dst_rank") == worst["rank"]) | (pl.col("src_rank") == worst["rank"])).row(
        0, named=True
    )
    known = {name: worst[name] for name in ("rank", "receives", "sends", "p2p_receives", "p2p_sends")}
    return Connections(**known, bytes=worst["need"], input_id=first["input_id"], line=first["line"])


def possible_savings(run: Run) -> list[Saving]:
    """What settings would save on the rank with most connections, most first."""
    most = connection_memory(run)
    if most is None:
        return []
    settings = dict(run.table("env").select("name", "value").iter_rows())
    return savings(most.receives, most.sends, most.p2p_receives, most.p2p_sends, settings)
