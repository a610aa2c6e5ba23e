"""First screen of the report: the job, and how much of its lines was understood."""

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Coverage, Job
from nccl_insight.base.units import listed
from nccl_insight.report import words
from nccl_insight.report.sanitize import one_line


def job_facts(job: Job) -> list[tuple[str, str]]:
    """What is known of a job, by name; empty what is not."""
    return [
        ("NCCL", _versions(job.nccl_versions)),
        ("CUDA", _versions(job.cuda_versions)),
        ("Driver", _versions(tuple(map(words.driver, job.driver_versions)))),
        ("Ranks", _number(job.nranks)),
        ("Nodes", _number(job.n_nodes)),
        ("GPUs", _number(job.gpus)),
        ("Networks", _versions(job.networks)),
        ("Communicators", _number(job.communicators or None)),
        ("Hosts", words.host_list(job.hosts, 3)),
    ]


def _versions(values: tuple[str, ...]) -> str:
    return listed(one_line(v, 60) for v in values)


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


@dataclass(frozen=True)
class Bar:
    """Lines of one kind as a piece of a bar; ``start`` and ``width`` in percent of it."""

    kind: str
    label: str
    count: int
    start: str
    width: str


def bars(coverage: Coverage) -> list[Bar]:
    """The kinds of lines that there are."""
    noun = {n: "line" if n == 1 else "lines" for n in (coverage.unknown, coverage.foreign, coverage.torn)}
    found, start = [], 0.0
    for kind, label, count in (
        ("parsed", "understood", coverage.parsed),
        ("unknown", f"NCCL {noun[coverage.unknown]} of unknown kind", coverage.unknown),
        ("foreign", f"{noun[coverage.foreign]} of other programs", coverage.foreign),
        ("torn", f"torn {noun[coverage.torn]}", coverage.torn),
    ):
        if count:
            width = round(100 * count / coverage.lines, 3)
            found.append(Bar(kind, label, count, f"{start:g}", f"{max(width, 0.6):g}"))
            start = round(start + width, 3)
    return found
