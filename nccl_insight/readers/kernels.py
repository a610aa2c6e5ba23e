"""What a GPU kernel or collective name says: compute or communication, operation, algorithm, element type.

The name of an NCCL kernel is the compiled entry point, which dispatches inside: "RING_LL" and "Sum" in it do not
tell what ran. Only the tree entry and the symmetric-memory kernels name their algorithm truly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

COMPUTE: Final = 0
COMM: Final = 1
MEMCPY: Final = 2
MEMSET: Final = 3
OTHER: Final = 4
"""Communication by something else than NCCL or RCCL: custom all-reduce, DeepEP, NVSHMEM, user buffers."""

_LIBRARY: Final = re.compile(
    r"(?:^|[\s:*&_]|_Z[0-9]+)(?:nccl|rccl|mscclpp|msccl)\w*(?:Kernel|kernel)", re.ASCII
)
_NCCL_OP: Final = re.compile(
    r"(AllReduce|AllGather|ReduceScatter|Broadcast|SendRecv|AllToAllv|AlltoAllv|AllToAll|AlltoAll|AllToAllPivot|"
    r"Reduce|Gather|Scatter|Generic)"
)
_OTHER: Final = re.compile(
    r"cross_device_reduce_[12]stage|\b(?:one|two)_?shot_all_?reduce|multimem_\w*(?:all_reduce|all_gather|"
    r"reduce_scatter)|allreduce_fusion_kernel|all_?reduce_fusion|\bep::(?:internode|intranode|internode_ll)\w*::|"
    r"\bdeep_ep::|(?:^|[\s:])nvshmemi?x?_\w+|userbuffers_\w+|quick_?all_?reduce|lamport\w*all_?reduce|"
    r"cross_gpu_\w*reduce|oneccl\w*kernel|symm_mem\w*(?:barrier|all_reduce|all_gather)",
    re.IGNORECASE | re.ASCII,
)
_NOT_COMM: Final = re.compile(r"get_dispatch_layout|(?:^|[\s:])nvshmemi_(?:init|finalize)", re.ASCII)
_TYPE: Final = re.compile(
    r"(?:Sum|Prod|Max|Min|MinMax|PreMulSum|SumPostDiv|sum|prod|max|min|avg)_"
    r"(f16|f32|f64|bf16|i8|u8|i32|u32|i64|u64|f8e4m3|f8e5m2|half|float|double|int8_t|uint8_t|int32_t|uint32_t|"
    r"int64_t|uint64_t|int|bfloat16)\b",
    re.ASCII,
)
_SYMK: Final = re.compile(
    r"ncclSymk?DevKernel_(\w+?)_((?:AG|RS|AGx|RSx|RSxLD|AGxST|LL|LD|ST|MC|x|R|T)\w*)", re.ASCII
)
_OPS: Final = {
    "alltoall": "AllToAll", "alltoallv": "AllToAllv", "alltoallpivot": "AllToAll", "sendrecv": "SendRecv",
    "allreduce": "AllReduce", "allgather": "AllGather", "reducescatter": "ReduceScatter", "gather": "Gather",
    "broadcast": "Broadcast", "reduce": "Reduce", "scatter": "Scatter",
}  # fmt: skip
_COLLECTIVES: Final = {
    **dict.fromkeys(("allreduce", "allreducecoalesced", "allreducesparse", "allreduceuneven"), "AllReduce"),
    **dict.fromkeys(("allgather", "allgatherbase", "allgatherintotensorcoalesced", "allgathercoalesced",
                     "allgathertensor", "allgatherintotensor", "allgatheruneven"), "AllGather"),
    **dict.fromkeys(("reducescatter", "reducescatterbase", "reducescattertensorcoalesced", "reducescattertensor",
                     "reducescattercoalesced", "reducescatteruneven"), "ReduceScatter"),
    **dict.fromkeys(("alltoall", "alltoallbase", "alltoallsingle"), "AllToAll"),
    "alltoallv": "AllToAllv",
    **dict.fromkeys(("broadcast", "broadcastoop", "broadcastuneven"), "Broadcast"),
    **dict.fromkeys(("reduce", "reduceoop"), "Reduce"),
    "gather": "Gather", "scatter": "Scatter", "barrier": "Barrier", "allbarrier": "Barrier",
    **dict.fromkeys(("send", "isend"), "Send"),
    **dict.fromkeys(("recv", "irecv", "recvanysource"), "Recv"),
    **dict.fromkeys(("coalesced", "sendrecv", "batchisendirecv"), "SendRecv"),
}  # fmt: skip


@dataclass(frozen=True)
class KernelName:
    """What a name tells; ``None`` where it tells nothing."""

    kind: int
    op: str | None = None
    dtype: str | None = None
    algorithm: str | None = None
    protocol: str | None = None


@lru_cache(maxsize=65536)
def classify(name: str) -> KernelName:
    """Kind of a kernel and, for communication kernels, what its name tells."""
    if _LIBRARY.search(name[:400]):
        return _nccl(name)
    if _OTHER.search(name[:2000]) and not _NOT_COMM.search(name[:2000]):
        return KernelName(OTHER, "Other")
    return KernelName(COMPUTE)


def _nccl(name: str) -> KernelName:
    stem = name.split("(", 1)[0]
    found = _NCCL_OP.search(stem)
    op = _OPS.get(found[1].lower()) if found else None
    typed = _TYPE.search(stem)
    dtype = typed[1] if typed and op in ("AllReduce", "Reduce", "ReduceScatter") else None
    symmetric = _SYMK.match(stem)
    if symmetric:
        return KernelName(COMM, op, dtype, symmetric[2].split("_", 1)[0])
    return KernelName(COMM, op, dtype, "Tree" if "_TREE_" in stem else None)


def collective_op(name: str | None) -> str | None:
    """Operation of a framework's collective name: ``_allgather_base``, ``nccl:all_reduce``, ``gloo:send 0->1``."""
    if not name:
        return None
    bare = name.rsplit(":", 1)[-1].split(" ", 1)[0]
    return _COLLECTIVES.get(re.sub(r"[^a-z]", "", bare.lower()))
