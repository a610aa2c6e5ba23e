"""Environment of captured processes, the world that a launcher describes, and what the machine has."""

import glob
import os
import re
from collections.abc import Mapping
from pathlib import Path

from nccl_insight.base.data import astuple, dataclass
from nccl_insight.base.errors import UsageError
from nccl_insight.live.capture.processes import run_short

SUBSYSTEMS = "INIT,BOOTSTRAP,ENV,NET,GRAPH,TUNING"
_TOOL_S = 8.0
_WORLDS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
)


@dataclass(frozen=True)
class World:
    """This process's place in a job started by torchrun, srun or mpirun."""

    rank: int
    size: int
    local_rank: int
    address: str
    port: int

    def variables(self) -> dict[str, str]:
        """The settings that torch's ``env://`` reads."""
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
        return dict(zip(names, map(str, astuple(self)), strict=True))


def _launcher(environ: Mapping[str, str]) -> tuple[str, str, str] | None:
    """The launcher's variables for rank, size and local rank; None outside of one or with a single process."""
    for names in _WORLDS:
        rank, size = (environ.get(name, "") for name in names[:2])
        if rank.isdigit() and size.isdigit() and int(size) > 1:
            return names
    return None


def world_of(environ: Mapping[str, str]) -> World | None:
    """The world a launcher describes, None outside of one or with a single process.

    Raises UsageError: it does not say where rank 0 is.
    """
    names = _launcher(environ)
    if names is None:
        return None
    rank, size, _ = names
    address = environ.get("MASTER_ADDR") or next(iter(hosts_of(environ.get("SLURM_STEP_NODELIST", ""))), "")
    if not address:
        raise UsageError(f"{size}={environ[size]} but MASTER_ADDR is not set: export the address of rank 0's host")
    port = environ.get("MASTER_PORT") or str(20_000 + int(environ.get("SLURM_JOB_ID", "0")[-4:] or 0))
    if not port.isdigit():
        raise UsageError(f"MASTER_PORT={port!r} is not a port number")
    return World(int(environ[rank]), int(environ[size]), local_rank_of(environ), address, int(port))


def local_rank_of(environ: Mapping[str, str]) -> int:
    """This process's number on its node as a launcher says it; 0 outside of one. Needs no address of rank 0."""
    names = _launcher(environ)
    number = "" if names is None else environ.get(names[2], "")
    return int(number) if number.isdigit() else 0


_MOST_HOSTS = 20_000


def hosts_of(nodelist: str) -> list[str]:
    """Hosts of a Slurm list: ``gpu[07-08,12],login3`` -> ``gpu07``, ``gpu08``, ``gpu12``, ``login3``."""
    found = []
    for name, inner in re.findall(r"([A-Za-z0-9._-]+)(?:\[([0-9,-]+)\])?", nodelist):
        for part in inner.split(",") if inner else [""]:
            first, _, last = part.partition("-")
            numbers = range(int(first or 0), int(last or first or 0) + 1)[:_MOST_HOSTS]
            found += [f"{name}{number:0{len(first)}d}" if part else name for number in numbers]
    return found[:_MOST_HOSTS]


def nccl_settings(
    directory: Path, *, calls: bool, diagnostics: bool = False, rank: str | None = None
) -> dict[str, str]:
    """Settings that make NCCL write all that the rules need into ``directory``, one log per process.

    ``calls`` adds every collective call, which is too much for a long job. ``diagnostics`` has NCCL 2.31 and
    later check its own paths at init; older releases ignore it. ``rank`` keeps the files of ranks apart whose
    containers share host name and process number. NCCL reads ``%`` in a path as a pattern, so it is doubled.
    """
    place = str(directory).replace("%", "%%")
    own = "" if rank is None else f"rank{rank}."
    dumps = {"NCCL_TOPO_DUMP_FILE": f"{directory}/topology.xml", "NCCL_GRAPH_DUMP_FILE": f"{directory}/graphs.xml"}
    return {
        **({"NCCL_RUN_DIAGNOSTICS": "1"} if diagnostics else {}),
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": SUBSYSTEMS + (",COLL" if calls else ""),
        "NCCL_DEBUG_FILE": f"{place}/nccl.{own}%h.%p.log",
        **(dumps if rank in (None, "0") else {}),
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
        "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3",
        "TORCH_NCCL_ENABLE_MONITORING": "1",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": str(directory / "nccl_trace_rank_"),
        "TORCH_FR_DUMP_TEMP_FILE": str(directory / "nccl_trace_rank_"),
    }


#: Settings of a job that slow a measurement down or keep a hang from being told: not passed on to our own ranks.
UNWANTED = ("CUDA_LAUNCH_BLOCKING", "TORCH_DISTRIBUTED_DEBUG", "TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")


def gpu_count(environ: Mapping[str, str], dev: str = "/dev") -> int:
    """GPUs that a process of this environment may use, told from device files; nothing is imported or started."""
    devices = len([p for p in glob.glob(f"{dev}/nvidia[0-9]*") if re.fullmatch(r"nvidia[0-9]+", os.path.basename(p))])
    if not devices and os.path.exists(f"{dev}/kfd"):
        devices = len(glob.glob(f"{dev}/dri/renderD*"))
        visible = [v for v in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES") if v in environ]
    else:
        visible = [v for v in ("CUDA_VISIBLE_DEVICES",) if v in environ]
    for name in visible:
        devices = min(devices, _listed(environ[name], devices))
    return devices


def _listed(value: str, devices: int) -> int:
    """Devices that a list shows. As the driver reads it, the list ends at the first entry that names no device."""
    count = 0
    for entry in (v.strip() for v in value.split(",")):
        known = int(entry) < devices if entry.isdigit() else entry.upper().startswith(("GPU-", "MIG-"))
        if not known:
            break
        count += 1
    return count


def save_node_facts(directory: Path, host: str) -> None:
    """``nvidia-smi topo -m`` and ``nvlink -s`` of this node as files; those that can be had in time."""
    for name, argv in (("topo", ("nvidia-smi", "topo", "-m")), ("nvlink", ("nvidia-smi", "nvlink", "-s"))):
        done = run_short(argv, _TOOL_S)
        if done.state == "hung":
            return
        if done.text.strip():
            path = directory / f"{name}.{re.sub(r'[^A-Za-z0-9._-]', '_', host)}.txt"
            path.write_text(done.text, encoding="utf-8")
