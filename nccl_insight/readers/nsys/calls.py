"""Which NCCL call launched a kernel, by the NVTX ranges around its launch."""

from typing import Final, TypeAlias

import polars as pl

from nccl_insight.base.bandwidth import traffic_bytes
from nccl_insight.base.words import pairs, words
from nccl_insight.readers.kernels import classify, collective_op
from nccl_insight.readers.nsys.nvtx import Payload, Schemas
from nccl_insight.tables.declared import frame

COLLECTIVE: Final = words("""process_group op size_bytes dtype group_size start_ns duration_ns stream device kernel
    algorithm protocol step exposed_ns held_ns algbw_gbps busbw_gbps source peer calls""")
_API: Final = pairs("""ncclAllReduce=AllReduce ncclAllGather=AllGather ncclReduceScatter=ReduceScatter
    ncclBroadcast=Broadcast ncclBcast=Broadcast ncclReduce=Reduce ncclSend=Send ncclRecv=Recv ncclAlltoAll=AllToAll
    ncclAllToAll=AllToAll ncclAllToAllv=AllToAllv ncclGather=Gather ncclScatter=Scatter AllReduce=AllReduce
    AllGather=AllGather""")
_Made: TypeAlias = tuple[tuple[str, "bytes | None"], ...]
"""NCCL calls: (operation, payload as recorded)."""
_SYNC: Final = ("AllReduce", "AllGather", "ReduceScatter", "AllToAll", "Broadcast", "Reduce", "Gather", "Scatter")


def process_ranks(marks: pl.DataFrame, layouts: Schemas, least: int = 0) -> dict[int, int]:
    """Rank of each process (by globalPid) in the largest communicator that its init payloads name.

    Communicators of fewer than ``least`` ranks are parts of the job, whose numbers are others. A process that inits
    several ranks (one per GPU) is left out.
    """
    best: dict[int, tuple[int, set[int]]] = {}
    inits = marks.filter(pl.col("text").str.contains("CommInitRank|CommSplit") & pl.col("blob").is_not_null())
    for tid, blob in inits.select("tid", "blob").iter_rows():
        found = layouts.decode(blob)
        if found.rank is None or found.nranks is None or tid is None or not 0 <= found.rank < found.nranks:
            continue
        pid = tid & ~0xFFFFFF
        size, ranks = best.get(pid, (0, set()))
        if found.nranks < least:
            continue
        if found.nranks > size:
            best[pid] = (found.nranks, {found.rank})
        elif found.nranks == size:
            ranks.add(found.rank)
    return {pid: next(iter(ranks)) for pid, (_, ranks) in best.items() if len(ranks) == 1}


def attach_calls(comm: pl.DataFrame, launches: pl.DataFrame, marks: pl.DataFrame, layouts: Schemas) -> pl.DataFrame:
    """Communication kernels with what is known about their calls: group, operation, size, peer, number of calls.

    ``calls`` is the number of NCCL calls in the group that launched the kernel; size and peer are given for one call,
    the size also for a group of equal calls of one kernel.
    """
    rows = comm.with_row_index("row")
    known = launches.unique(["correlation", "pid"], keep="first") if launches.height else launches
    if launches.height:
        rows = rows.join(known, on=["correlation", "pid"], how="left", maintain_order="left")
    else:
        rows = rows.with_columns(tid=pl.lit(None, pl.Int64), launch=pl.lit(None, pl.Int64))
    framework = _enclosing(rows, marks.filter(pl.col("text").str.starts_with("nccl:")))
    api = marks.filter(pl.col("text").str.contains(r"^nccl[A-Z]"))
    outer = _enclosing(rows, api.filter(pl.col("text").is_in([*_API, "ncclGroupEnd"])))
    sizes = _communicator_sizes(api, layouts)
    calls = _Calls(api)
    result: list[tuple[object, ...]] = []
    known_calls: dict[tuple[str, str | None, _Made], tuple[object, ...]] = {}  # steps repeat each other
    columns = (rows["name"], framework["text"], outer["text"], outer["start"], rows["tid"])
    for name, torch_text, text, start, tid in zip(*(c.to_list() for c in columns), strict=True):
        made = calls.of(text, start, tid) if text is not None and start is not None and tid is not None else ()
        key = (name, torch_text, made)
        described = known_calls.get(key)
        if described is None:
            payloads = [(op, layouts.decode(blob)) for op, blob in made]
            described = known_calls[key] = _describe(name, torch_text, payloads, sizes)
        result.append(described)
    schema = frame("process_group str, op str, size_bytes u64, dtype str, group_size i32, algorithm str, protocol str")
    return rows.with_columns(pl.DataFrame(result, schema | frame("peer i32, calls i32"), orient="row"))


def _enclosing(rows: pl.DataFrame, marks: pl.DataFrame) -> pl.DataFrame:
    """Per kernel the latest range of its launching thread that encloses the launch: ``text, start`` or nulls."""
    if marks.is_empty() or rows.is_empty() or rows["launch"].null_count() == rows.height:
        return rows.with_columns(text=pl.lit(None, pl.String), start=pl.lit(None, pl.Int64)).select("text", "start")
    points = rows.select("row", "tid", "launch").filter(pl.col("launch").is_not_null()).sort("launch")
    marked = marks.select("tid", "start", "end", "text").sort("start")
    found = points.join_asof(
        marked, left_on="launch", right_on="start", by="tid", coalesce=False, check_sortedness=False
    ).filter(pl.col("end") >= pl.col("launch"))
    return (
        rows.select("row")
        .join(found.select("row", "text", "start"), on="row", how="left", maintain_order="left")
        .select("text", "start")
    )


class _Calls:
    """Finds the NCCL calls between a group's start and end on one thread."""

    def __init__(self, api: pl.DataFrame) -> None:
        self._by_thread: dict[int, tuple[list[int], list[str], list[bytes | None]]] = {}
        for (tid,), part in api.sort("start").group_by("tid"):
            if isinstance(tid, int):
                self._by_thread[tid] = (part["start"].to_list(), part["text"].to_list(), part["blob"].to_list())
        self._positions = {tid: {s: i for i, s in enumerate(v[0])} for tid, v in self._by_thread.items()}

    def of(self, text: str, start: int, tid: int) -> _Made:
        """The call itself, or all calls of the group that ends here."""
        _, texts, blobs = self._by_thread.get(tid, ([], [], []))
        at = self._positions.get(tid, {}).get(start)
        if at is None:
            return ()
        if text != "ncclGroupEnd":
            return ((_API[text], blobs[at]),)
        found: list[tuple[str, bytes | None]] = []
        depth, at = 1, at - 1
        while at >= 0 and depth:
            name = texts[at]
            depth += (name == "ncclGroupEnd") - (name == "ncclGroupStart")
            if name in _API:
                found.append((_API[name], blobs[at]))
            at -= 1
        return tuple(found[::-1]) if not depth else ()


def _communicator_sizes(api: pl.DataFrame, layouts: Schemas) -> dict[int, int]:
    """Number of ranks by communicator id, from init payloads."""
    sizes: dict[int, int] = {}
    for blob in api.filter(pl.col("text").str.contains("Init|Split") & pl.col("blob").is_not_null())["blob"]:
        found = layouts.decode(blob)
        if found.comm is not None and found.nranks is not None:
            sizes[found.comm] = found.nranks
    return sizes


def _describe(
    name: str, torch_text: str | None, made: list[tuple[str, Payload]], sizes: dict[int, int]
) -> tuple[object, ...]:
    kernel = classify(name)
    ops = {op for op, _ in made}
    torch_op = collective_op(torch_text.split(",", 1)[0]) if torch_text else None
    op = next(iter(ops)) if len(ops) == 1 else None
    if ops and ops <= {"Send", "Recv"}:
        op = torch_op or ("SendRecv" if len(made) > 1 else op)
    op = op or torch_op or kernel.op
    comms = {p.comm for _, p in made}
    comm = next(iter(comms)) if len(comms) == 1 else None
    nranks = sizes.get(comm) if comm is not None else None
    group, size = f"{comm:#x}" if comm is not None else None, _size(op, made, nranks)
    peer = made[0][1].peer if len(made) == 1 else None
    return group, op, size, kernel.dtype, nranks, kernel.algorithm, kernel.protocol, peer, len(made) or None


def _size(op: str | None, made: list[tuple[str, Payload]], nranks: int | None) -> int | None:
    """Bytes that count: NCCL logs the size per rank for gathers and per peer for all-to-all."""
    if not made or op is None or any(p.size is None for _, p in made):
        return None
    ops = {o for o, _ in made}
    if ops <= {"Send", "Recv"}:
        sends = [p.size or 0 for o, p in made if o == "Send"]
        return sum(sends) if sends else sum(p.size or 0 for _, p in made)
    if len(ops) != 1 or op not in _SYNC:
        return None
    total = sum(p.size or 0 for _, p in made)
    return traffic_bytes(op, total, 1, nranks)
