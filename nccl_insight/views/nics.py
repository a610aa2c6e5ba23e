"""GPU by NIC: how far each NIC is from each GPU of a node, and which connections use it."""

from collections import Counter, defaultdict
from collections.abc import Mapping

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.facts.fabric.gpu_nics import topology
from nccl_insight.facts.fabric.networks import nics
from nccl_insight.facts.who.transports import net_links
from nccl_insight.tables.run import Run
from nccl_insight.views.place import Place, place

_Way = tuple[int, int]
"""Number of a GPU on its node, and of a NIC."""


@dataclass(frozen=True)
class Use:
    """Connections of a rank, which has GPU ``gpu`` of its node, over a NIC."""

    host: str | None
    rank: int
    gpu: int
    nic: int
    connections: int


@dataclass(frozen=True)
class GpuNics:
    """Connections by GPU and NIC over all nodes, and how far these are from each other (``facts.gpu_nics.DISTANCES``).

    ``names``: of NICs. ``odd_hosts``: whose NICs are used otherwise than those of the ``alike`` of all ``hosts``.
    """

    gpus: tuple[int, ...]
    nics: tuple[int, ...]
    names: Mapping[int, str]
    distance: Mapping[_Way, str]
    connections: Mapping[_Way, int]
    uses: tuple[Use, ...]
    hosts: int
    alike: int
    odd_hosts: tuple[str, ...]


def uses_of(run: Run, where: Place | None) -> tuple[Use, ...]:
    """Which GPU of its node uses which NIC, of the ranks whose node is known."""
    counts = net_links(run).drop_nulls(["local_rank_id", "net_dev"])
    counts = counts.group_by("local_host", "local_rank_id", "net_dev").agg(pl.len().alias("n"))
    return tuple(
        Use(host, rank, where.ranks_of[node].index(rank), nic, n)
        for host, rank, nic, n in counts.sort("local_rank_id", "net_dev", "local_host").iter_rows()
        if where is not None and (node := where.node_of.get(rank)) is not None
    )


def gpu_nics(run: Run) -> GpuNics | None:
    """Use of and distance to the NICs, None where neither is known."""
    where, known = place(run), topology(run)
    uses = uses_of(run, where)
    grid: Counter[_Way] = Counter()
    per_host: dict[str | None, set[_Way]] = defaultdict(set)
    for use in uses:
        grid[use.gpu, use.nic] += use.connections
        per_host[use.host].add((use.gpu, use.nic))
    distance = known.distance if known else {}
    if not grid and not distance:
        return None
    usual, alike = Counter(map(frozenset, per_host.values())).most_common(1)[0] if grid else (None, 0)
    return GpuNics(
        gpus=tuple(sorted({g for g, _ in grid} | ({g.index for g in known.gpus} if known else set()))),
        nics=tuple(sorted({n for _, n in grid} | ({n.index for n in known.nics} if known else set()))),
        names={n.index: n.name for n in known.nics} | _listed(run) if known else _listed(run),
        distance=distance,
        connections=grid,
        uses=uses,
        hosts=len(per_host),
        alike=alike,
        odd_hosts=tuple(sorted(h for h, ways in per_host.items() if frozenset(ways) != usual and h)),
    )


def _listed(run: Run) -> dict[int, str]:
    """Names of NICs by number, from the first host that lists them."""
    rows = nics(run).filter(pl.col("index").is_not_null())
    rows = rows.unique("index", keep="first", maintain_order=True)
    return {int(i): str(name) for i, name in rows.select("index", "name").iter_rows() if name}
