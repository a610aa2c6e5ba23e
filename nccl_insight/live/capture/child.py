"""One rank of a capture: measures collectives and host copies, records a profiler trace. Runs in its own process.

Torch is imported inside functions only. Every line of its result file is a JSON object with a
``kind``; lines are written as they are known, so that a hang leaves what came before.
"""

import datetime
import json
import os
import socket
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nccl_insight.live.capture import copies, operations
from nccl_insight.live.capture.environment import hosts_of
from nccl_insight.live.capture.pairs import Pairs
from nccl_insight.live.capture.plan import Plan

FORMAT_VERSION = 1
_PREFIX = "nccl_insight"
_POLL_S = 0.1
_ALONE = "{} reaches none of the other nodes"


class Recorder:
    """Appends one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")

    def add(self, kind: str, **values: object) -> None:
        """Writes a line and flushes it."""
        self._file.write(json.dumps({"kind": kind, **values}) + "\n")
        self._file.flush()


def probe() -> dict[str, object]:
    """Versions and devices as torch sees them."""
    import torch

    available = bool(torch.cuda.is_available())
    nccl = None
    if available and torch.distributed.is_available() and torch.distributed.is_nccl_available():
        nccl = ".".join(str(v) for v in torch.cuda.nccl.version())
    return {
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "nccl": nccl,
        "cuda_available": available,
        "gloo": bool(torch.distributed.is_available() and torch.distributed.is_gloo_available()),
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if available else [],
    }


def _host_measurements(torch: Any, dist: Any, device: Any, local: int, recorder: Recorder) -> None:
    """Copies of one GPU after the other, so that none measures another's traffic; then pairs of GPUs.

    A measurement that fails (a GPU in exclusive mode, no memory) is recorded and ends nothing.
    """
    rank = dist.get_rank()
    turns = torch.tensor([float(local)], dtype=torch.float64, device=device)
    dist.all_reduce(turns, op=dist.ReduceOp.MAX)
    for turn in range(int(turns[0]) + 1):
        if turn == local:
            _kept(recorder, rank, "copies", "copy", copies.of_host(torch, device))
        dist.barrier()
    if local == 0:
        _kept(recorder, rank, "peers", "peer", copies.between_gpus(torch))
    dist.barrier()


def _kept(recorder: Recorder, rank: int, what: str, kind: str, rows: Iterable[dict[str, object]]) -> None:
    """Records measurements as they are made, and why there are no more."""
    try:
        for row in rows:
            recorder.add(kind, rank=rank, host=socket.gethostname(), **row)
    except RuntimeError as error:
        recorder.add("failed", what=what, why=str(error).splitlines()[0])


def _nodes(store: Any, rank: int, world: int, local: int, plan: Plan, recorder: Recorder) -> list[list[int]]:
    """Ranks of every node; rank 0 records which node each is, and what its own checks said.

    Goes through the store, since gathering objects by collectives takes numpy and GPU memory.
    """
    mine = {"host": socket.gethostname(), "local": local, "verdict": list(plan.verdict)}
    store.set(f"node/{rank}", json.dumps(mine))
    if rank == 0:
        every = [json.loads(store.get(f"node/{r}")) for r in range(world)]
        nodes = by_node([(one["host"], one["local"]) for one in every])
        for index, ranks in enumerate(nodes):
            first = every[ranks[0]]
            recorder.add("node", node=index, host=first["host"], ranks=ranks, verdict=first["verdict"])
        store.set("nodes", json.dumps(nodes))
    found: list[list[int]] = json.loads(store.get("nodes"))
    return found


def by_node(places: list[tuple[str, int]]) -> list[list[int]]:
    """Ranks of each node, in any placement; a local rank that a name has twice is that of another node so named."""
    seen: dict[tuple[str, int], int] = {}
    nodes: dict[tuple[str, int], list[int]] = {}
    for rank, (host, local) in enumerate(places):
        turn = seen[host, local] = seen.get((host, local), -1) + 1
        nodes.setdefault((host, turn), []).append(rank)
    return list(nodes.values())


def _join(dist: Any, plan: Plan, rank: int, world: int, recorder: Recorder) -> tuple[Any, int, int]:
    """Meets the ranks that come: the store, and this rank's place among them.

    Under a prefix of our own: the job that comes next may use the launcher's store, too.
    """
    patience = datetime.timedelta(seconds=plan.timeout_s)
    if plan.rendezvous:
        store, _, _ = next(dist.rendezvous(plan.rendezvous, rank, world, timeout=patience))
    else:
        store = _store(dist, plan, rank)
    limit_s = max(plan.timeout_s, 3 * plan.roll_s, 3 * plan.pair_s)
    store.set_timeout(datetime.timedelta(seconds=limit_s))
    own = dist.PrefixStore(f"{_PREFIX}/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    present = _roll(own, plan, rank, world, recorder)
    if rank not in present:
        recorder.add("late")
        raise RuntimeError(f"rank {rank} came when the others had begun without it")
    if len(present) < world and not (plan.pair_bytes and len(present) > 1):
        gone = ", ".join(str(r) for r in range(world) if r not in present)
        raise RuntimeError(f"rank {gone} did not come within {plan.roll_s:.0f} s")
    return own, present.index(rank), len(present)


def _store(dist: Any, plan: Plan, rank: int) -> Any:
    """The launcher's store, or one of rank 0's; torch's ``env://`` waits for all and cannot say who is missing."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    hosts = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    until = time.monotonic() + plan.roll_s
    while not hosts:
        try:
            socket.create_connection((address, port), 1.0).close()
            break
        except OSError as error:
            if time.monotonic() > until:
                raise RuntimeError(f"rank 0 did not come: nothing answers at {address}:{port}") from error
            time.sleep(_POLL_S)
    wait = datetime.timedelta(seconds=plan.timeout_s)
    return dist.TCPStore(address, port, None, is_master=hosts, timeout=wait, wait_for_workers=False, multi_tenant=True)


def _roll(store: Any, plan: Plan, rank: int, world: int, recorder: Recorder) -> list[int]:
    """Ranks that are there, as rank 0 calls them; it records who is not."""
    store.set(f"here/{rank}", socket.gethostname())
    if rank == 0:
        missing, until = set(range(world)), time.monotonic() + plan.roll_s
        while missing:
            missing = {r for r in missing if not store.check([f"here/{r}"])}
            if time.monotonic() > until:
                break
            time.sleep(_POLL_S if missing else 0.0)
        if missing:
            there = {store.get(f"here/{r}").decode() for r in range(world) if r not in missing}
            asked = hosts_of(os.environ.get("SLURM_STEP_NODELIST", ""))
            recorder.add("absent", ranks=sorted(missing), hosts=[host for host in asked if host not in there])
        store.set("roll", json.dumps([r for r in range(world) if r not in missing]))
    present: list[int] = json.loads(store.get("roll"))
    return present


def _profile(torch: Any, dist: Any, plan: Plan, device: Any, path: Path) -> None:
    """A profiler trace of some steps: a little compute, then an all-reduce."""
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
    data = torch.zeros(max(1, plan.profile_bytes // 4), device=device)
    left = torch.zeros(256, 256, device=device)
    with profile(activities=activities):  # the first start takes up to a second, not the same on all ranks
        left = left @ left
    dist.barrier()
    with profile(activities=activities, record_shapes=True) as recorder:
        for _ in range(plan.profile_steps):
            for _ in range(4):
                left = left @ left
            if dist.get_rank() == plan.slow_rank:
                time.sleep(plan.slow_ms / 1e3)
            dist.all_reduce(data)
            if device.type == "cuda":
                torch.cuda.synchronize()
            recorder.step()
    recorder.export_chrome_trace(str(path))


def _reached(pairs: Pairs, rank: int, nodes: list[list[int]]) -> list[int]:
    """Measures node by node; the ranks of nodes that reach others, of which this one is one."""
    try:
        dead = pairs.run()
    except RuntimeError as error:  # the others went on without it, and the store with them
        if pairs.reached is False:
            raise SystemExit(_ALONE.format(socket.gethostname())) from error
        raise
    ranks = sorted(r for node, own in enumerate(nodes) if node not in dead for r in own)
    if not ranks:
        raise SystemExit("no two nodes reach each other")
    if rank not in ranks:
        raise SystemExit(_ALONE.format(socket.gethostname()))
    return ranks


def measure(plan: Plan, directory: Path) -> None:
    """Everything that one rank does; the results of all ranks are in rank 0's file."""
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    world = int(os.environ["WORLD_SIZE"])
    recorder = Recorder(directory / f"capture.rank{rank}.jsonl")
    recorder.add(
        "head", nccl_insight_capture=FORMAT_VERSION, rank=rank, world_size=world, local_rank=local,
        host=socket.gethostname(), pid=os.getpid(), backend=plan.backend, slow_rank=plan.slow_rank,
        nvlink_domain=plan.nvlink_domain or None,
    )  # fmt: skip
    import torch
    import torch.distributed as dist

    cuda = plan.backend == "nccl"
    device = torch.device("cpu")
    if cuda and torch.cuda.is_available():  # a launcher may show each process its own GPU only
        device = torch.device("cuda", local % max(1, torch.cuda.device_count()))
        torch.cuda.set_device(device)
    elif not cuda:
        torch.set_num_threads(1)
    seen = probe()
    if cuda and not seen["cuda_available"]:
        recorder.add("unusable", why=f"torch {seen['torch']} of this Python cannot use a GPU", rank=rank)
        return
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    recorder.add("versions", torch=seen["torch"], cuda=seen["cuda"], nccl=seen["nccl"], gpu=gpu)
    store, rank, world = _join(dist, plan, rank, world, recorder)
    recorder.add("ready", rank=rank)
    nodes = _nodes(store, rank, world, local, plan, recorder) if plan.pair_bytes or plan.verdict else []
    ranks = list(range(world))
    if plan.pair_bytes and len(nodes) > 1:
        recorder.add("enter", op="pairs of nodes", at=time.time())
        ranks = _reached(Pairs(torch, dist, plan, device, store, rank, nodes, recorder.add), rank, nodes)
    rank, world, patience = ranks.index(rank), len(ranks), datetime.timedelta(seconds=plan.timeout_s)
    dist.init_process_group(
        plan.backend, store=dist.PrefixStore("world", store), rank=rank, world_size=world, timeout=patience
    )
    for op in plan.ops:
        for size in plan.sizes:
            recorder.add("enter", op=op, size_bytes=size, at=time.time())
            found = operations.measure(torch, dist, plan, device, op, size)
            if found and rank == 0:
                recorder.add("skipped" if "skipped" in found else "row", **found)
    if plan.profile_steps:
        _profile(torch, dist, plan, device, directory / f"trace.rank{rank}.json.gz")
    dist.barrier()
    if cuda and plan.host_copies:
        _host_measurements(torch, dist, device, local, recorder)
    dist.destroy_process_group()
    recorder.add("end", rank=rank)


def main(arguments: list[str]) -> int:
    """``--probe`` prints what torch sees; else: the plan's file and the directory of the capture."""
    if arguments == ["--probe"]:
        sys.stdout.write(json.dumps(probe()) + "\n")
        return 0
    measure(Plan.load(Path(arguments[0])), Path(arguments[1]))
    sys.stdout.flush()
    os._exit(0)  # a thread that waits in a pair without an end holds nothing up


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
