"""All figures of a run."""

from nccl_insight.base.data import dataclass
from nccl_insight.tables.run import Run
from nccl_insight.views import copies as measured
from nccl_insight.views import ranks as compared
from nccl_insight.views import timeline as over_time
from nccl_insight.views import traces
from nccl_insight.views.calls import Calls, calls
from nccl_insight.views.cluster import Cluster, cluster
from nccl_insight.views.groups import Groups, groups
from nccl_insight.views.matrix import Matrix, matrix
from nccl_insight.views.memory import Memory, memory
from nccl_insight.views.nics import GpuNics, gpu_nics
from nccl_insight.views.node import Nodes, nodes
from nccl_insight.views.rings import Rings, rings
from nccl_insight.views.steps import Steps, steps
from nccl_insight.views.trees import Trees, trees
from nccl_insight.views.waits import Waits, waits


@dataclass(frozen=True)
class Figures:
    """What each figure shows, None where the run has nothing for it."""

    node: Nodes | None
    groups: Groups | None
    waits: Waits | None
    cluster: Cluster | None
    matrix: Matrix | None
    rings: Rings | None
    trees: Trees | None
    nics: GpuNics | None
    memory: Memory | None
    ranks: tuple[compared.Metric, ...] | None
    init: compared.InitTimes | None
    calls: Calls | None
    steps: Steps | None
    timeline: over_time.Timeline | None
    gaps: over_time.Gaps | None
    durations: traces.Durations | None
    busbw: traces.Bandwidth | None
    host_copies: measured.HostCopies | None
    peer_copies: measured.PeerCopies | None
    excess: traces.Excess | None


def figures(run: Run) -> Figures:
    """The figures of a run."""
    return Figures(
        node=nodes(run),
        groups=groups(run),
        waits=waits(run),
        cluster=cluster(run),
        matrix=matrix(run),
        rings=rings(run),
        trees=trees(run),
        nics=gpu_nics(run),
        memory=memory(run),
        ranks=compared.metrics(run),
        init=compared.init_times(run),
        calls=calls(run),
        steps=steps(run),
        timeline=over_time.timeline(run),
        gaps=over_time.gaps(run),
        durations=traces.durations(run),
        busbw=traces.bandwidth(run),
        host_copies=measured.host_copies(run),
        peer_copies=measured.peer_copies(run),
        excess=traces.excess(run),
    )
