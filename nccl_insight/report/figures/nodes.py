"""Colors of transports; findings by host and rank."""

from typing import Final

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Analysis, Severity


@dataclass(frozen=True)
class Kind:
    """A way for two ranks to talk, as figures show it: its color (``report.css``) and letter differ together."""

    key: str
    name: str

    letter: str


KINDS: Final = (
    Kind("p2p", "P2P (GPU memory)", "P"),
    Kind("p2p_via", "P2P through a third GPU", "V"),
    Kind("shm", "SHM (host memory)", "H"),
    Kind("gdr", "NET with GPUDirect RDMA", "G"),
    Kind("host_rdma", "NET, RDMA through host memory", "N"),
    Kind("socket", "NET over TCP sockets", "S"),
    Kind("other", "other", "?"),
)
KIND: Final = {kind.key: kind for kind in KINDS}


def named_ranks(analysis: Analysis) -> frozenset[int]:
    """Ranks that figures mark: named by a warning or an error that does not name most of the job."""
    half = max(1, (analysis.job.nranks or 2) // 2)
    return frozenset(
        rank
        for finding in analysis.findings
        if finding.severity is not Severity.INFO and len(finding.ranks) <= half
        for rank in finding.ranks
    )


def trouble(analysis: Analysis) -> tuple[dict[str, Severity], dict[int, Severity]]:
    """The worst severity of the loud findings that name each host and each rank.

    Findings that name most of the job's ranks or hosts say nothing about one of them and are left out.
    """
    hosts: dict[str, Severity] = {}
    ranks: dict[int, Severity] = {}
    job = analysis.job
    for finding in analysis.findings:
        if finding.severity is Severity.INFO or finding.finding_class.value == "S":
            continue
        if len(finding.ranks) <= max(1, (job.nranks or 0) // 2):
            for rank in finding.ranks:
                ranks[rank] = min(ranks.get(rank, finding.severity), finding.severity, key=lambda s: s.order)
        if len(finding.hosts) <= max(1, (job.n_nodes or 0) // 2):
            for host in finding.hosts:
                hosts[host] = min(hosts.get(host, finding.severity), finding.severity, key=lambda s: s.order)
    return hosts, ranks
