"""Jobs that hang, by seed: what they print is simulated, and who is to blame is known before.

A job has tensor, pipeline, data and expert groups. Each rank issues its operations in order and runs a little ahead of
its GPU; one or two ranks stop, cross two operations, leave out a receive, or data stands still. What the job then
tells is written by one source (time-outs of torch, calls of NCCL, dumps of the flight recorder, or several), with the
prefix of a launcher, into one file or many, and some of it is lost. The words are those of logs in ``fixtures``.

``python -m tests.hang_jobs --seed 7 --jobs 500`` prints how often the late ranks are named exactly.
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
import tempfile
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import nccl_insight
from nccl_insight.base.model import Analysis, Finding
from tests.hangs import HANGS, caught, init, reached, reached_in_2_3

# What names ranks as those that others wait for, or as those that ended, and not those that wait.
BLAMES = frozenset((*HANGS, "send-recv-unmatched", "collective-mismatch", "process-killed", "process-crashed",
                    "peer-died", "application-exception")) - {"collective-stalled", "hang-after-init"}  # fmt: skip
HOST = 8
TROUBLES = ("late", "late", "late", "late", "late", "two", "dead", "dead", "crossed", "unmatched", "data")
SOURCES = ("torch", "torch", "torch", "calls", "dumps", "torch+dumps", "torch+inits")
VERSIONS = ("2.1", "2.3", "2.5", "2.7")
LAUNCHERS = ("raw", "raw", "torchrun", "srun", "mpirun", "kubectl")
FILES = ("one", "host", "rank")
LOSSES = ("none", "none", "none", "late", "others", "cut")
_KINDS = {"dp": "DATA_PARALLEL_GROUP", "tp": "TENSOR_MODEL_PARALLEL_GROUP", "pp": "PIPELINE_MODEL_PARALLEL_GROUP",
          "ep": "EXPERT_MODEL_PARALLEL_GROUP"}  # fmt: skip
_NCCL = {"ALLREDUCE": "AllReduce", "_REDUCE_SCATTER_BASE": "ReduceScatter", "_ALLGATHER_BASE": "AllGather",
         "ALLTOALL_BASE": "AllToAll", "SEND": "Send", "RECV": "Recv"}  # fmt: skip
_DUMPED = {"ALLREDUCE": "all_reduce", "_REDUCE_SCATTER_BASE": "_reduce_scatter_base",
           "_ALLGATHER_BASE": "_all_gather_base", "ALLTOALL_BASE": "all_to_all"}  # fmt: skip
_SIZES = {"ALLREDUCE": 8388608, "_REDUCE_SCATTER_BASE": 50331648, "_ALLGATHER_BASE": 4194304, "ALLTOALL_BASE": 2097152,
          "SEND": 16777216, "RECV": 16777216}  # fmt: skip
_FRAMES = (
    "Exception raised from checkTimeout at /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:632 (most recent "
    "call first):",
    "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x98 (0x7f1b in /opt/torch/lib/libc10.so)",
)


@dataclass(frozen=True)
class Group:
    """A process group: its kind, its number among those of its kind, its number in the job, and its ranks."""

    kind: str
    index: int
    guid: int
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Op:
    """An operation of a rank in a group; ``peer`` is a rank of the job."""

    group: Group
    name: str
    peer: int = -1


@dataclass
class Job:
    """A job, what it left behind and the truth. ``lost``: ranks of which something is not in the files; ``mute``: the
    one of which all it said of its waits, and nothing else, is cut off, which nothing tells from a late rank."""

    seed: int
    world: int
    layout: str
    trouble: str
    source: str
    version: str
    launcher: str
    files_by: str
    loss: str
    late: frozenset[int] = frozenset()
    involved: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()
    mute: frozenset[int] = frozenset()
    can_tell: bool = False
    files: dict[str, bytes] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """The files in this folder."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return folder


def groups_of(tp: int, pp: int, dp: int, ep: int) -> list[Group]:
    """All groups of a job in the order in which Megatron numbers ranks: tensor, data, pipeline."""

    def at(t: int, d: int, p: int) -> int:
        return t + tp * (d + dp * p)

    rows: list[tuple[str, tuple[int, ...]]] = [("world", tuple(range(tp * pp * dp)))]
    if 1 < dp < tp * pp * dp:
        rows += [("dp", tuple(at(t, d, p) for d in range(dp))) for p in range(pp) for t in range(tp)]
    if tp > 1:
        rows += [("tp", tuple(at(t, d, p) for t in range(tp))) for p in range(pp) for d in range(dp)]
    if pp > 1:
        rows += [("pp", tuple(at(t, d, p) for p in range(pp))) for d in range(dp) for t in range(tp)]
    if 1 < ep < dp:
        rows += [
            ("ep", tuple(at(t, d + n, p) for n in range(ep)))
            for p in range(pp) for t in range(tp) for d in range(0, dp, ep)
        ]  # fmt: skip
    seen = Counter[str]()
    found = []
    for guid, (kind, ranks) in enumerate(rows):
        found.append(Group(kind, seen[kind], guid, ranks))
        seen[kind] += 1
    return found


def programs(groups: list[Group], steps: int) -> list[list[Op]]:
    """What each rank issues: transfers and tensor operations by microbatch, then those of the step."""
    mine: list[dict[str, Group]] = [{} for _ in groups[0].ranks]
    for group in groups:
        for rank in group.ranks:
            mine[rank][group.kind] = group
    found = []
    for rank, own in enumerate(mine):
        pipe = own.get("pp")
        stage = pipe.ranks.index(rank) if pipe else 0
        ops: list[Op] = []
        for _ in range(steps):
            for _ in range(2):
                if pipe and stage:
                    ops.append(Op(pipe, "RECV", pipe.ranks[stage - 1]))
                ops += [Op(own["tp"], "ALLREDUCE")] * 2 if "tp" in own else []
                ops += [Op(own["ep"], "ALLTOALL_BASE")] if "ep" in own else []
                if pipe and stage + 1 < len(pipe.ranks):
                    ops.append(Op(pipe, "SEND", pipe.ranks[stage + 1]))
            if "dp" in own:
                ops += [Op(own["dp"], "_REDUCE_SCATTER_BASE"), Op(own["dp"], "_ALLGATHER_BASE")]
            ops.append(Op(own["world"], "ALLREDUCE"))
        found.append(ops)
    return found


@dataclass
class State:
    """How far a rank came: how many operations it issued, which of them ended, and the first that has not."""

    issued: int = 0
    first: int = 0
    done: set[int] = field(default_factory=set)


class Play:
    """The programs of all ranks, run until nothing moves.

    ``stops``: before which operation ranks stop; ``ahead``: how many operations a rank issues behind one that has not
    ended; ``serial``: none begins before all in front of it have ended, not only those of its stream; ``stuck``: the
    rank and its operation whose data does not move.
    """

    def __init__(
        self, ops: list[list[Op]], stops: dict[int, int], ahead: int, serial: bool, stuck: tuple[int, int] | None = None
    ) -> None:
        self.ops, self.serial, self.stops = ops, serial, stops
        self.states = [State() for _ in ops]
        self.keys: list[list[tuple[Any, ...]]] = []
        self.where: dict[tuple[Any, ...], dict[int, int]] = defaultdict(dict)
        for rank, own in enumerate(ops):
            counts = Counter[Any]()
            self.keys.append([])
            for at, op in enumerate(own):
                stream = (op.group.guid, *(() if op.peer < 0 else (rank, op.peer)[:: 1 if op.name == "SEND" else -1]))
                self.keys[-1].append((*stream, counts[stream]))
                self.where[self.keys[-1][-1]][rank] = at
                counts[stream] += 1
        no_end = self.keys[stuck[0]][stuck[1]] if stuck else None
        moved = True
        while moved:
            moved = False
            for rank, state in enumerate(self.states):
                limit = min(stops.get(rank, len(ops[rank])), state.first + 1 + ahead)
                moved |= state.issued < limit
                state.issued = max(state.issued, limit)
                for at in self.open(rank):
                    if self.keys[rank][at] != no_end and self._all_here(rank, at):
                        moved = True
                        for other, there in self.where[self.keys[rank][at]].items():
                            self._end(other, there)

    def open(self, rank: int) -> list[int]:
        """The operations that a rank issued and that have not ended."""
        state = self.states[rank]
        return [n for n in range(state.first, state.issued) if n not in state.done]

    def runs(self, rank: int, at: int | None) -> bool:
        """Whether a rank is in the operation: it issued it, and all that goes before it has ended."""
        if at is None or at >= self.states[rank].issued:
            return False
        stream = self.keys[rank][at][:-1]
        return not any(n < at and (self.serial or self.keys[rank][n][:-1] == stream) for n in self.open(rank))

    def missed(self) -> set[int]:
        """The ranks that have not issued what another one waits in."""
        keys = {self.keys[r][at] for r in range(len(self.ops)) for at in self.open(r)}
        return {r for key in keys for r, at in self.where[key].items() if at >= self.states[r].issued}

    def _all_here(self, rank: int, at: int) -> bool:
        op, at_of = self.ops[rank][at], self.where[self.keys[rank][at]]
        return all(self.runs(r, at_of.get(r)) for r in (op.group.ranks if op.peer < 0 else (rank, op.peer)))

    def _end(self, rank: int, at: int) -> None:
        state = self.states[rank]
        state.done.add(at)
        while state.first in state.done:
            state.first += 1


def _troubled(rng: random.Random, trouble: str, ops: list[list[Op]], ahead: int, serial: bool) -> tuple[Play, set[int]]:
    """The job with its trouble, and the ranks that have part in it."""
    world, low = len(ops), min(len(own) for own in ops) // 3
    one = rng.randrange(world)
    if trouble == "crossed":
        places = [n for n in range(low, len(ops[one]) - 1) if _crosses(ops[one][n], ops[one][n + 1])]
        if places:
            at = rng.choice(places)
            ops[one][at : at + 2] = ops[one][at : at + 2][::-1]
            return Play(ops, {}, 0, True), {one}
    if trouble == "unmatched":
        places = [n for n in range(low, len(ops[one])) if ops[one][n].name == "RECV"]
        if places:
            del ops[one][rng.choice(places)]
            return Play(ops, {}, ahead, serial), {one}
    if trouble == "data":
        at = rng.randrange(low, len(ops[one]))
        return Play(ops, {}, ahead, serial, (one, at)), set()
    ranks = [one, *([rng.randrange(world)] if trouble == "two" else [])]
    stops = {r: rng.randrange(low, len(ops[r])) for r in ranks}
    return Play(ops, stops, 0 if trouble == "two" else ahead, serial), set(ranks)


def _crosses(one: Op, other: Op) -> bool:
    return one.group != other.group and one.peer < 0 and other.peer < 0


@dataclass(frozen=True)
class Writer:
    """What each rank of a job prints and dumps."""

    rng: random.Random
    job: Job
    play: Play
    silent: frozenset[int]
    desc: str
    base: dict[str, int]
    shown: bool
    """Whether all groups in which a rank waits time out, not only that of its oldest operation."""
    early: bool = False
    """Whether the dumps are of a healthy moment before."""

    def numbers(self, rank: int) -> list[int]:
        """The number of each operation of a rank in its group, sends and receives included, as torch counts."""
        counts, found = Counter[int](), []
        for op in self.play.ops[rank]:
            counts[op.group.guid] += 1
            found.append(counts[op.group.guid] + self.base[op.group.kind])
        return found

    def torch(self, rank: int) -> list[str]:
        """The lines of the watchdog of a rank; none where it waits for nobody or is silent."""
        waits, numbers = self.play.open(rank), self.numbers(rank)
        if not waits or rank in self.silent:
            return []
        oldest: dict[int, int] = {}
        for at in waits:
            oldest.setdefault(self.play.ops[rank][at].group.guid, at)
        lines = []
        for at in list(oldest.values())[: None if self.shown else 1]:
            op = self.play.ops[rank][at]
            mine = [n for n in range(self.play.states[rank].issued) if self.play.ops[rank][n].group == op.group]
            lines += self._time_out(rank, op, numbers[at], numbers[mine[-1]])
        return lines

    def _time_out(self, rank: int, op: Op, seq: int, last: int) -> list[str]:
        version, group = self.job.version, op.group
        own = group.ranks.index(rank)
        size = 1 if group.kind == "world" else _SIZES[op.name]
        took = 600000 + self.rng.randrange(99)
        clock = f"E1103 08:40:0{self.rng.randrange(9)}.{self.rng.randrange(10**9):09}"
        work = caught(seq, op.name, size, took)
        some = (
            "Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent "
            "GPU operations might run on corrupted/incomplete data."
        )
        down = "To avoid data inconsistency, we are taking the entire process down."
        done = seq - 1
        if version == "2.1":
            head = "[E ProcessGroupNCCL.cpp"
            lines = [f"{head}:474] [Rank {own}] {work}", f"{head}:488] {some}", f"{head}:494] {down}"]
            return [*lines, "terminate called after throwing an instance of 'std::runtime_error'",
                    f"  what():  [Rank {own}] NCCL watchdog thread terminated with exception: [Rank {own}] {work}",
                    *_FRAMES]  # fmt: skip
        if version == "2.3":
            head, where = f"[rank{rank}]:[E ProcessGroupNCCL.cpp", f"[PG {self._local(rank, group)} Rank {own}]"
            numbers = (563, 1537, 577, 583)
            told = f"{where} {reached_in_2_3(seq, last, done)}"
        else:
            kind = _KINDS.get(group.kind)
            desc = {"none": "", "kind": f"({kind})", "each": f"({kind}_{group.index})"}
            name = "0(default_pg)" if group.kind == "world" else f"{group.guid}{desc[self.desc]}"
            head = f"[rank{rank}]:[{clock} ProcessGroupNCCL.cpp"
            where = f"[PG ID {self._local(rank, group)} PG GUID {name} Rank {own}]"
            numbers = (607, 1664, 621, 627) if version == "2.5" else (632, 2268, 684, 698)
            told = (
                f"{where} Exception (either an error or timeout) detected by watchdog at work: {seq}, last enqueued "
                f"NCCL work: {last}, last completed NCCL work: {done}."
                if version == "2.5"
                else f"{where} {reached(seq, last, done)}"
            )
        first, second, third, fourth = numbers
        return [
            f"{head}:{first}] [Rank {own}] {work}", f"{head}:{second}] {told}", f"{head}:{third}] [Rank {own}] {some}",
            f"{head}:{fourth}] [Rank {own}] {down}",
            "terminate called after throwing an instance of 'c10::DistBackendError'",
            f"  what():  {where} Process group watchdog thread terminated with exception: [Rank {own}] {work}",
            *_FRAMES,
        ]  # fmt: skip

    def _local(self, rank: int, group: Group) -> int:
        """The number that a process gives a group: those that it is in, in their order."""
        return sorted({op.group.guid for op in self.play.ops[rank]}).index(group.guid)

    def groups(self, rank: int) -> list[Group]:
        """The groups of a rank, in order."""
        return [g for _, g in sorted({op.group.guid: op.group for op in self.play.ops[rank]}.items())]

    def inits(self, rank: int) -> list[str]:
        """The lines of NCCL's init of all groups of a rank."""
        return [
            f"{self._head(rank)} "
            + init(f"0x55d{g.guid:04x}{rank:04x}", g.ranks.index(rank), len(g.ranks), rank % HOST,
                   f"0x8a1f5f0c3d2e{g.guid:04x}", state)
            for g in self.groups(rank) for state in ("START", "COMPLETE")
        ]  # fmt: skip

    def calls(self, rank: int) -> list[str]:
        """The lines of the calls of a rank."""
        counts, lines = Counter[int](), []
        for op in self.play.ops[rank][: self.play.states[rank].issued]:
            number, size = counts[op.group.guid], 1 if op.group.kind == "world" else _SIZES[op.name]
            counts[op.group.guid] += 1
            root = op.group.ranks.index(op.peer) if op.peer >= 0 else 0
            lines.append(
                f"{self._head(rank)} {_NCCL[op.name]}: opCount {number:x} sendbuff 0x7f4dd8224600 recvbuff "
                f"0x7f4dd8224600 count {size} datatype 7 op 0 root {root} comm 0x55d{op.group.guid:04x}{rank:04x} "
                f"[nranks={len(op.group.ranks)}] stream 0xb1744b0"
            )
        return lines

    def _head(self, rank: int) -> str:
        return f"node{rank // HOST}:{4000 + rank}:{4000 + rank} [{rank % HOST}] NCCL INFO"

    def dump(self, rank: int) -> dict[str, Any]:
        """The dump of a rank: its last operations."""
        entries, collectives, transfers = [], Counter[int](), Counter[int]()
        waits, issued, ops = self.play.open(rank), self.play.states[rank].issued, self.play.ops[rank]
        if self.early:
            # In the first step; some ranks are in its last operation.
            issued = next(n for n, op in enumerate(ops) if op.group.kind == "world") + rank % 2
        for at, op in enumerate(ops[:issued]):
            group, done = (
                op.group,
                (at + 1 < issued or not rank % 2) if self.early else at in self.play.states[rank].done,
            )
            pair = op.peer >= 0
            (transfers if pair else collectives)[group.guid] += 1
            own, other = group.ranks.index(rank), group.ranks.index(op.peer) if pair else -1
            name = f"send {own}->{other}" if op.name == "SEND" else f"recv {own}<-{other}" if pair else _DUMPED[op.name]
            size = 1 if group.kind == "world" else _SIZES[op.name]
            begun = not done and at in waits and self.play.runs(rank, at)
            created = 1_700_000_000_000_000_000 + at * 1_000_000
            entries.append({
                "record_id": at, "pg_id": self._local(rank, group),
                "process_group": [str(group.guid), self._desc(group)],
                "collective_seq_id": collectives[group.guid] + self.base[group.kind],
                "p2p_seq_id": transfers[group.guid],
                "op_id": at, "profiling_name": f"nccl:{name}", "time_created_ns": created, "is_p2p": pair,
                "input_sizes": [[size]], "input_dtypes": ["Float"],
                "output_sizes": [[size]], "output_dtypes": ["Float"],
                "state": "completed" if done else "started" if begun else "scheduled", "retired": done,
                "time_discovered_started_ns": created + 100 if done or begun else None,
                "time_discovered_completed_ns": created + 200 if done else None, "timeout_ms": 600_000,
            })  # fmt: skip
        config = {
            str(g.guid): {"name": str(g.guid), "desc": self._desc(g), "ranks": str(list(g.ranks))}
            for g in self.groups(rank)
        }
        return {"version": "2.10", "entries": entries[-2000:], "pg_config": config, "pg_status": {}}

    def _desc(self, group: Group) -> str:
        return "default_pg" if group.kind == "world" else _KINDS[group.kind]

    def prefix(self, rank: int) -> str:
        """What the launcher puts in front of the lines of a rank."""
        return {
            "raw": "", "torchrun": f"[default{rank % HOST}]:", "srun": f"{rank:{len(str(self.job.world - 1))}d}: ",
            "mpirun": f"[1,{rank}]<stderr>:", "kubectl": f"[pod/worker-{rank // HOST}/pytorch] ",
        }[self.job.launcher]  # fmt: skip


LAYOUTS = tuple((launcher, files) for launcher in dict.fromkeys(LAUNCHERS) for files in FILES)
"""Fifteen ways in which the lines of torch reach files."""


def laid_out(launcher: str, files_by: str) -> Job:
    """Sixteen ranks on two hosts of which one stops; only torch prints."""
    job = Job(0, 16, "tp2 pp1 dp8 ep1", "late", "torch", "2.7", launcher, files_by, "none")
    _fill(job, random.Random(f"{launcher} {files_by}"), groups_of(2, 1, 8, 1), 2, 1, True)
    return job


def make(seed: int) -> Job:
    """The job of a seed."""
    rng = random.Random(seed)
    while True:
        tp, pp, dp = rng.choice((1, 2, 4, 8)), rng.choice((1, 1, 2, 4)), rng.choice((1, 2, 4, 8, 16))
        if 8 <= tp * pp * dp <= 128:
            break
    ep = rng.choice([n for n in (1, 1, 2, 4) if n < dp or n == 1])
    layout = f"tp{tp} pp{pp} dp{dp} ep{ep}"
    job = Job(seed, tp * pp * dp, layout, rng.choice(TROUBLES), rng.choice(SOURCES), rng.choice(VERSIONS),
              rng.choice(LAUNCHERS), rng.choice(FILES), rng.choice(LOSSES))  # fmt: skip
    ahead, serial = rng.choice((0, 0, 1, 3)), rng.random() < 0.7
    _fill(job, rng, groups_of(tp, pp, dp, ep), rng.choice((2, 3)), ahead, serial)
    return job


def _fill(job: Job, rng: random.Random, groups: list[Group], steps: int, ahead: int, serial: bool) -> None:
    while True:
        play, parts = _troubled(rng, job.trouble, programs(groups, steps), ahead, serial)
        if any(play.open(r) for r in range(job.world)):
            break
    stops = parts if play.stops else set()
    if job.trouble in ("crossed", "unmatched") and stops:
        job.trouble = "late"
    # Who waits for another one that stopped is not late itself, nor is one for whom nobody waits.
    job.late, job.involved = frozenset(r for r in stops & play.missed() if not play.open(r)), frozenset(parts)
    silent = frozenset(job.late) if job.trouble == "dead" else frozenset()
    base = {kind: rng.choice((0, rng.randrange(50_000))) for kind in ("world", *_KINDS)}
    writer = Writer(rng, job, play, silent, rng.choice(("none", "kind", "each")), base, rng.random() < 0.3,
                    job.source == "torch+dumps" and job.seed % 5 == 3)  # fmt: skip
    _write(job, writer)


def _place(job: Job, rank: int) -> str:
    return {"one": "run.log", "host": f"node{rank // HOST}.log", "rank": f"rank_{rank}.log"}[job.files_by]


def _write(job: Job, writer: Writer) -> None:
    rng = writer.rng
    blocks: dict[str, list[tuple[int, list[str]]]] = defaultdict(list)
    prints = [r for r in range(job.world) if "torch" in job.source]
    for rank in range(job.world):
        lines = [f"step {n} loss {3 - n / 9:.3f}" for n in range(3)] if rank == 0 or job.files_by == "rank" else []
        lines += writer.inits(rank) if job.source in ("calls", "torch+inits") else []
        blocks[_place(job, rank)].append((rank, lines))
    if job.source == "calls":
        for rank in range(job.world):
            blocks[_place(job, rank)].append((rank, writer.calls(rank)))
    rng.shuffle(prints)
    for rank in prints:
        blocks[_place(job, rank)].append((rank, writer.torch(rank)))
    if job.source == "dumps":
        blocks = {}
    elif job.trouble == "dead" and job.launcher == "srun" and rng.random() < 0.5:
        for rank in sorted(job.late):
            blocks[_place(job, rank)].append((-1, [f"srun: error: node{rank // HOST}: task {rank}: Killed"]))
    text: dict[str, list[tuple[int, str]]] = {
        name: [(r, line if r < 0 else writer.prefix(r) + line) for r, lines in parts for line in lines]
        for name, parts in blocks.items()
    }
    if job.source == "calls":
        # The calls of ranks that write into one file stand in turns.
        text = {name: _woven(rng, rows) for name, rows in text.items()}
    dumps = {r: writer.dump(r) for r in range(job.world) if "dumps" in job.source and r not in writer.silent}
    _lose(job, rng, text, dumps)
    job.files = {n: "".join(f"{line}\n" for _, line in rows).encode() for n, rows in text.items()}
    as_json = rng.random() < 0.5
    for rank, dump in dumps.items():
        name = f"dumps/nccl_trace_rank_{rank}"
        job.files[name + ".json" * as_json] = json.dumps(dump).encode() if as_json else pickle.dumps(dump, protocol=2)
    job.can_tell = _can_tell(job, writer, dumps)


def _woven(rng: random.Random, rows: list[tuple[int, str]]) -> list[tuple[int, str]]:
    mine: dict[int, deque[str]] = defaultdict(deque)
    for rank, line in rows:
        mine[rank].append(line)
    found, left = [], sorted(mine)
    while left:
        rng.shuffle(left)
        found += [(rank, mine[rank].popleft()) for rank in left for _ in range(min(rng.randrange(3), len(mine[rank])))]
        left = [r for r in left if mine[r]]
    return found


def _lose(
    job: Job, rng: random.Random, text: dict[str, list[tuple[int, str]]], dumps: dict[int, dict[str, Any]]
) -> None:
    """Takes away what is lost; where nothing can be lost, the job says so."""
    units: list[Any] = [*text] if job.source not in ("dumps", "torch+dumps") else [*dumps]
    pool: dict[Any, Any] = text if units == [*text] else dumps
    of = {u: {u} if pool is dumps else {r for r in range(job.world) if _place(job, r) == u} for u in units}
    late = [u for u in units if of[u] & (job.late or job.involved)]
    others = [u for u in units if u not in late]
    if job.loss == "cut" and text:
        name = rng.choice([*text])
        rows = text[name]
        keep = rng.randrange(len(rows) // 3, max(len(rows) - 1, len(rows) // 3 + 1))
        before, behind = ({r for r, line in part if "Watchdog" in line} for part in (rows[:keep], rows[keep:]))
        gone, kept = ({r for r, _ in part} for part in (rows[keep:], rows[:keep]))
        whole = job.files_by == "rank" or (len(gone) == 1 and not gone & kept)
        job.mute = frozenset(behind - before) if whole else frozenset()
        job.lost |= {r for r in range(job.world) if _place(job, r) == name}
        text[name] = rows[:keep]
    elif job.loss == "late" and late and len(units) > len(late):
        for unit in late:
            del pool[unit]
            job.lost |= of[unit]
    elif job.loss == "others" and len(others) > 1:
        for unit in rng.sample(others, rng.randrange(1, max(2, len(others) // 4))):
            del pool[unit]
            job.lost |= of[unit]
    else:
        job.loss = "none"


def _can_tell(job: Job, writer: Writer, dumps: dict[int, dict[str, Any]]) -> bool:
    """Whether what is left tells who is late: each late rank is heard of and none is taken for another one."""
    late = job.late
    if not late or (job.trouble == "two" and (job.lost or len(late) > 1)):
        return bool(late) and not job.lost and job.source in ("dumps", "calls", "torch+dumps")
    named = job.version != "2.1" or job.launcher in ("srun", "mpirun") or job.files_by == "rank"
    plain = len(writer.groups(0)) == 1
    by_lines = "torch" in job.source and (named or plain)
    # The last rank leaves no gap where nobody tells how many there are.
    sized = job.source == "torch+inits" or job.files_by == "rank" or (job.world - 1) not in late
    if job.source == "dumps":
        return not job.lost or late <= set(dumps) or job.lost == late
    if job.source == "calls":
        return not job.lost
    if job.source == "torch+dumps":
        return job.loss != "cut" and ((by_lines and sized) or (not writer.early and late <= set(dumps)))
    if not by_lines or (job.files_by == "one" and job.lost):
        return False
    if late & job.lost:
        return job.loss == "late" and job.lost == late and (job.world - 1) not in late
    return sized or bool(job.files_by == "rank")


@dataclass(frozen=True)
class Outcome:
    """How the judgment of a job compares with the truth: ``right``, ``silent`` (cannot tell) or ``wrong``.

    ``lucky``: surely named although nothing is here of these ranks, and what is left cannot tell it; or one ``mute``
    rank named, late or not.
    """

    job: Job
    answer: str
    lucky: bool
    said: tuple[str, ...]

    @property
    def missed(self) -> bool:
        """Whether nobody was named where what is left tells who is late."""
        return self.answer == "silent" and self.job.can_tell

    def words(self) -> str:
        """The job and what was said of it."""
        job = self.job
        return "\n    ".join((
            f"{self.answer} seed {job.seed}: {job.world} ranks {job.layout}, {job.trouble}, {job.source} {job.version} "
            f"{job.launcher}, by {job.files_by}, loss {job.loss} of {sorted(job.lost)}, late {sorted(job.late)} of "
            f"{sorted(job.involved)}",
            *(line[:200] for line in self.said[:4]),
        ))  # fmt: skip


def _sure(finding: Finding) -> bool:
    return finding.severity.value in ("warning", "error") and finding.confidence.value != "low"


def compare(job: Job, analysis: Analysis) -> Outcome:
    """Right: the first finding names exactly the late ranks, or the one whose operations are in another order; wrong: a
    sure one names one that is not late."""
    loud = [f for f in analysis.findings if f.severity.value in ("warning", "error")]
    blames = [f for f in loud if f.name in BLAMES and f.ranks and _sure(f)]
    said = tuple(f"{f.name} {list(f.ranks)} {f.confidence.value}: {f.title}" for f in loud)
    allowed = set(job.late) or set(job.involved)
    wrong = [f for f in blames if not set(f.ranks) <= allowed and set(f.ranks) != job.mute and not _crossing(job, f)]
    first = bool(loud) and loud[0].name in BLAMES and set(loud[0].ranks) == allowed
    answer = "wrong" if wrong else "right" if first or not (job.late or blames) else "silent"
    unheard = any(set(f.ranks) <= job.lost for f in blames)
    lucky = bool(job.late) and not job.can_tell and unheard and answer == "right"
    return Outcome(job, answer, lucky or any(set(f.ranks) == job.mute for f in blames), said)


def _crossing(job: Job, finding: Finding) -> bool:
    """Whether it tells of orders that cross, or of a transfer without its partner, which name both sides."""
    return job.trouble in ("crossed", "unmatched") and job.involved <= set(finding.ranks)


def judge(seed: int, only: frozenset[str] = frozenset()) -> Outcome | None:
    """The judgment of the job of a seed; None where it has not all of ``only``."""
    job = make(seed)
    return judged(job) if only <= {job.source, job.trouble, job.loss, job.version, job.files_by} else None


def judged(job: Job) -> Outcome:
    """The judgment of a job."""
    with tempfile.TemporaryDirectory() as folder:
        return compare(job, nccl_insight.analyze([str(job.write(Path(folder)))]))


def _table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield f"{'':24}{'jobs':>6}{'right':>7}{'silent':>8}{'wrong':>7}{'can tell':>10}{'told':>6}{'lucky':>7}"
    yield _line("all", outcomes)
    for title in ("source", "trouble", "loss"):
        for name in sorted({getattr(o.job, title) for o in outcomes}):
            yield _line(f"{title} {name}", [o for o in outcomes if getattr(o.job, title) == name])


def _line(title: str, rows: Sequence[Outcome]) -> str:
    counts, can = Counter(o.answer for o in rows), [o for o in rows if o.job.can_tell]
    told = sum(o.answer == "right" for o in can) / max(len(can), 1)
    return (
        f"{title:24}{len(rows):6}{counts['right']:7}{counts['silent']:8}{counts['wrong']:7}{len(can):10}{told:6.3f}"
        f"{sum(o.lucky for o in rows):7}"
    )


def main() -> None:
    """Prints the table of many jobs, and those that were judged wrong or not at all."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first job")
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--layouts", action="store_true", help="judge one job in fifteen layouts of launchers")
    parser.add_argument("--write", type=Path, help="write the job of the seed into this folder, and judge nothing")
    parser.add_argument("--show", action="store_true", help="also show the jobs that could be told and were not")
    parser.add_argument(
        "--only", nargs="*", default=(), help="sources, troubles, losses: only jobs that have all of these"
    )
    options = parser.parse_args()
    if options.layouts:
        outcomes = [judged(laid_out(*layout)) for layout in LAYOUTS]
        print("\n".join((*(o.words() for o in outcomes), _line("layouts", outcomes))))
        return
    if options.write:
        job = make(options.seed)
        print(job.write(options.write), job.layout, job.trouble, sorted(job.late))
        return
    seeds, outcomes = range(options.seed, options.seed + options.jobs), []
    with ProcessPoolExecutor(2) as pool:
        for outcome in pool.map(partial(judge, only=frozenset(options.only)), seeds, chunksize=2):
            if outcome is not None:
                outcomes.append(outcome)
                if outcome.answer == "wrong" or outcome.lucky or (options.show and outcome.missed):
                    print(outcome.words(), flush=True)
    print("\n".join(_table(outcomes)))


if __name__ == "__main__":
    main()
