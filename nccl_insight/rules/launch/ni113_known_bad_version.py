"""This NCCL version has a documented bug that the log shows."""

from dataclasses import dataclass

from nccl_insight.facts.errors import causes, present
from nccl_insight.facts.members import processes
from nccl_insight.rules._closed import accepting
from nccl_insight.rules._errors import Trouble, trouble
from nccl_insight.rules.context import Context, Hits
from nccl_insight.rules.natures import names
from nccl_insight.tables.run import Run


@dataclass(frozen=True)
class Bug:
    """A defect of the versions ``first`` to before ``fixed``; ``cause`` and ``mark`` (a word of the topic
    ``defect``) are how it shows."""

    first: tuple[int, int, int]
    fixed: tuple[int, int, int]
    cause: str
    mark: str
    what: str
    workaround: str
    source: str


BUGS = (
    Bug(
        (2, 25, 0), (2, 26, 2), "kernel-sharedmem-limit", "",
        "its kernels ask for more shared memory than GeForce RTX 50 GPUs have",
        "install NCCL 2.26.2 or later", "NVIDIA/nccl#1637, NVIDIA/nccl-tests#287",
    ),
    Bug(
        (2, 16, 0), (2, 27, 3), "bootstrap-connection-closed", "",
        "a connection that is closed before NCCL's greeting ends init (port scanners)",
        "install NCCL 2.27.3 or later", "NVIDIA/nccl#1613",
    ),
    Bug(
        (2, 19, 0), (2, 27, 3), "", "accept-interrupted",
        "an interrupted accept() ends init",
        "install NCCL 2.27.3 or later", "NVIDIA/nccl#1758",
    ),
    Bug(
        (2, 5, 0), (2, 20, 0), "topo-xml-invalid", "nic-without-bus",
        "a network interface without PCI parent (USB) breaks topology detection",
        "install NCCL 2.20 or later, or inject NCCL_TOPO_FILE", "NVIDIA/nccl#1125",
    ),
    Bug(
        (2, 9, 6), (2, 9, 8), "topo-xml-invalid", "pci-attribute",
        "topology files without the attributes new in 2.9.6 are refused",
        "install NCCL 2.9.8 or later", "aws/aws-ofi-nccl#63",
    ),
    Bug(
        (2, 24, 0), (2, 26, 3), "cumem-host-alloc-failed", "",
        "it takes host memory in a way that containers without SYS_NICE refuse",
        "install NCCL 2.26.3 or later, or set NCCL_CUMEM_HOST_ENABLE=0 on all ranks",
        "NCCL user guide: NCCL_CUMEM_HOST_ENABLE",
    ),
    Bug(
        (2, 27, 0), (2, 29, 0), "nvls-multicast-failed", "",
        "a rank without NVLS memory goes on in silence, and the others wait for it",
        "install NCCL 2.29 or later, or set NCCL_NVLS_ENABLE=0 on all ranks", "NCCL user guide: NCCL_NVLS_ENABLE",
    ),
    Bug(
        (2, 20, 3), (2, 20, 5), "", "handles-over-uds",
        "handles cannot be sent between the processes of a node after ncclCommSplit",
        "install NCCL 2.20.5 or later", "NVIDIA/nccl#1185",
    ),
    Bug(
        (2, 18, 1), (2, 18, 3), "wrong-results", "",
        "trees with protocol LL128 can give wrong data",
        "install NCCL 2.18.3 or later", "NCCL 2.18.3 release notes",
    ),
    Bug(
        (2, 24, 0), (2, 27, 3), "process-crashed", "ras-thread",
        "its RAS thread can crash the process",
        "install NCCL 2.27.3 or later, or set NCCL_RAS_ENABLE=0", "NVIDIA/nccl#1669, NVIDIA/nccl#1718",
    ),
    Bug(
        (2, 27, 7), (2, 28, 0), "process-crashed", "ras-thread",
        "its RAS thread can crash the process",
        "install NCCL 2.28 or later, or set NCCL_RAS_ENABLE=0", "NVIDIA/nccl#1996",
    ),
    Bug(
        (2, 29, 7), (2, 30, 0), "process-crashed", "ras-thread",
        "its RAS thread can crash the process",
        "install NCCL 2.30 or later, or set NCCL_RAS_ENABLE=0", "NVIDIA/nccl#2346",
    ),
)  # fmt: skip


def check(ctx: Context) -> Hits:
    """One finding for each bug whose version and evidence are both in the log."""
    run = ctx.run
    versions = sorted({v for v in processes(run)["nccl_version"].drop_nulls().to_list() if _parsed(v)})
    for bug in BUGS:
        affected = [v for v in versions if bug.first <= _parsed(v) < bug.fixed]
        found = _evidence(run, bug) if affected else None
        if found is None:
            continue
        yield ctx.hit(
            found,
            title=f"NCCL {affected[0]} has a known bug: {bug.what}",
            next_step=bug.workaround,
            observed=f"NCCL {affected[0]}",
            expected=f"NCCL {'.'.join(map(str, bug.fixed))} or later",
            sources=(bug.source,),
        )


def _parsed(version: str) -> tuple[int, int, int]:
    parts = [int(p) for p in version.split(".") if p.isdigit()]
    return (parts[0], parts[1], parts[2] if len(parts) > 2 else 0) if len(parts) > 1 else (0, 0, 0)


def _evidence(run: Run, bug: Bug) -> Trouble | None:
    if not bug.cause:
        return Trouble(causes(run)).telling("defect", bug.mark)
    if bug.cause == "bootstrap-connection-closed" and present(run) & set(names("startup")):
        return None  # a rank that stopped closes its connections: no stranger is needed
    found = trouble(run, bug.cause)
    if found is None and bug.cause == "bootstrap-connection-closed":
        rows = causes(run).join(accepting(run), on=["input_id", "line"], how="semi")
        found = Trouble(rows) if rows.height else None
    return found.telling("defect", bug.mark) if found is not None and bug.mark else found
