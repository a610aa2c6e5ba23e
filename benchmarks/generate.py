"""Seeded inputs for the benchmarks: logs as NCCL prints them, of which no two lines are alike, and traces.

A log that repeats itself flatters a reader that remembers texts. Here every pointer, count, operation number, size and
time differs, as in a real log of a long job. The same arguments give the same bytes.

usage: python -m benchmarks.generate OUT [--kind mixed|coll|ops|foreign|...] [--megabytes 200] [--ranks 64]
       [--communicators 3] [--prefix none|stamp|mpirun|ray|k8s|kubectl|json] [--per-rank] [--dirt 0.002] [--seed 1]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

GPUS = 8
_BLOCK_LINES = 200_000
_OPS = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce")
_ALL_OPS = (*_OPS, "Send", "Recv", "AlltoAll")
_ALGORITHMS = ("RING", "TREE", "NVLS", "COLLNET_DIRECT")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")
# Shares of the kinds of lines behind the start of a job. ``mixed`` is a job with COLL, TUNING and PROXY on.
MIXES = {
    "mixed": {"coll": 0.55, "tuning": 0.25, "proxy": 0.2},
    "coll": {"coll": 1.0},
    "tuning": {"tuning": 1.0},
    "proxy": {"proxy": 1.0},
    "coll-tuning": {"coll": 0.65, "tuning": 0.35},
    # Many operations, those between two ranks among them, with short operation numbers.
    "ops": {"ops": 0.7, "tuning": 0.3},
    # Each rank writes two kinds in turn, so that neighbors are never alike.
    "interleaved": {"ops": 0.5, "proxy": 0.5},
    # The prints of a training program around the lines of NCCL.
    "foreign": {"foreign": 0.9, "ops": 0.1},
    # The log of several pods as kubectl follows them: names and times of day in front of all lines.
    # The program's are shorter than those of NCCL.
    "pods": {"prints": 0.5, "ops": 0.5},
    "watchdog": {"watchdog": 1.0},
    # Ranks that begin again and again.
    "restarts": {},
    "init": {},
}
_PROGRAM = frozenset({"foreign", "prints"})
_DIRT = (
    "Traceback (most recent call last):", "  0%|          | 1/1000 [00:01<?, ?it/s]",
    "node0001:100000:1", "[rank3]: RuntimeError: something else happened at step ",
)  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """What a log is like.

    ``dirt``: share of lines that are torn, unknown or another program's; ``torn``: of those torn besides.
    ``decimal``: operation numbers without letters.
    """

    kind: str = "mixed"
    megabytes: float = 200.0
    ranks: int = 64
    communicators: int = 3
    prefix: str = "none"
    dirt: float = 0.002
    seed: int = 1
    decimal: bool = False
    torn: float = 0.0


SHAPES = {
    "coll-tuning": Shape("coll-tuning"),
    "mixed": Shape("mixed"),
    "ops": Shape("ops", ranks=16),
    "decimal": Shape("ops", ranks=16, decimal=True),
    "interleaved": Shape("interleaved", ranks=16),
    "stamps": Shape("ops", ranks=16, prefix="stamp"),
    "mpirun": Shape("ops", ranks=16, prefix="mpirun"),
    "k8s": Shape("ops", ranks=16, prefix="k8s"),
    "json": Shape("ops", ranks=16, prefix="json"),
    "torn": Shape("ops", ranks=16, torn=0.1),
    "foreign": Shape("foreign"),
    "pods": Shape("pods", prefix="kubectl", dirt=0.0),
    "watchdog": Shape("watchdog"),
    "restarts": Shape("restarts"),
}
"""The logs of the table, each with another thing that may be slow."""


def _noise(rows: pl.Expr, seed: int) -> pl.Expr:
    """Numbers that look random and are the same in every run of every release of polars (a linear congruence)."""
    value = (rows.cast(pl.UInt64) + seed * 7919 + 1).cast(pl.UInt64)
    for factor, offset in ((1103515245, 12345), (69069, 362437), (1664525, 1013904223)):
        value = (value * factor + offset) % 2147483648
        value = value ^ (value // 32768)
    return value


def _hex(value: pl.Expr, digits: int) -> pl.Expr:
    """Lower-case hexadecimal digits, by two, from a table."""
    pairs = pl.Series([f"{n:02x}" for n in range(256)])
    parts = [pl.lit(pairs).gather((value // (256**k)) % 256) for k in reversed(range(digits // 2))]
    return pl.concat_str(parts)


def _pointer(rows: pl.Expr, seed: int) -> pl.Expr:
    return pl.concat_str(pl.lit("0x7f"), _hex(_noise(rows, seed) * 64, 8), pl.lit("00"))


def _pick(names: tuple[str, ...], number: pl.Expr) -> pl.Expr:
    return pl.lit(pl.Series(names)).gather(number % len(names))


def _clock(row: pl.Expr) -> pl.Expr:
    """A date and time of day with milliseconds, later in later lines."""
    parts = [(row // n % most).cast(pl.String).str.zfill(2) for n, most in ((3_600_000, 24), (60_000, 60), (1000, 60))]
    return pl.concat_str(
        pl.lit("2026-03-04 "), parts[0], pl.lit(":"), parts[1], pl.lit(":"), parts[2], pl.lit("."),
        (row % 1000).cast(pl.String).str.zfill(3),
    )  # fmt: skip


def _head(rank: pl.Expr, shape: Shape, row: pl.Expr | None = None, foreign: bool = False) -> pl.Expr:
    """What stands in front of a text: the launcher's or collector's tag, then NCCL's own head, if it is not foreign."""
    row = rank if row is None else row
    host = pl.concat_str(pl.lit("node"), (rank // GPUS).cast(pl.String).str.zfill(4))
    pid = (100_000 + rank).cast(pl.String)
    head = pl.concat_str(host, pl.lit(":"), pid, pl.lit(":"), pid, pl.lit(" ["), rank % GPUS, pl.lit("] NCCL INFO "))
    tags = {
        "none": [],
        "stamp": [pl.lit("["), _clock(row), pl.lit("] ")],
        "mpirun": [pl.lit("[1,"), rank, pl.lit("]<stdout>:")],
        "ray": [pl.lit("(RayWorker pid="), pid, pl.lit(", ip=10.0.0."), rank // GPUS % 250, pl.lit(") ")],
        "k8s": [_clock(row).str.replace(" ", "T"), pl.lit("456789Z ")],
        "json": [pl.lit('{"log":"')],
        "kubectl": [pl.lit("[pod/train-"), rank // GPUS, pl.lit("/pytorch] "), _clock(row).str.replace(" ", "T"),
                    pl.lit("456789Z ")],
    }  # fmt: skip
    return pl.concat_str(*tags[shape.prefix], pl.lit("") if foreign else head)


def comm_pointer(rank: pl.Expr, number: pl.Expr) -> pl.Expr:
    """The address of a communicator in its process."""
    return pl.concat_str(pl.lit("0x55"), _hex(rank * 4096 + number * 64 + 4096, 8), pl.lit("10"))


def _bodies(kind: str, row: pl.Expr, rank: pl.Expr, shape: Shape) -> pl.Expr:
    a, b, c = (_noise(row, shape.seed + k) for k in (1, 2, 3))
    op = _pick(_OPS, row // shape.ranks)
    step = row // shape.ranks
    if kind in {"coll", "ops"}:
        number = step.cast(pl.String) if shape.decimal else _hex(step, 6).str.strip_chars_start("0").replace({"": "0"})
        return pl.concat_str(
            op if kind == "coll" else _pick(_ALL_OPS, _noise(step, 5)), pl.lit(": opCount "), number,
            pl.lit(" sendbuff "), _pointer(row, 11), pl.lit(" recvbuff "), _pointer(row, 12),
            pl.lit(" count "), _noise(step, shape.seed + 4) % 99_999_989 + 1, pl.lit(" datatype "), step % 3 + 7,
            pl.lit(" op 0 root 0 comm "), comm_pointer(rank, step % shape.communicators),
            pl.lit(" [nranks="), pl.lit(shape.ranks), pl.lit("] stream "), comm_pointer(rank, step % 5 + 64),
        )  # fmt: skip
    if kind == "tuning":
        return pl.concat_str(
            op, pl.lit(": "), a, pl.lit(" Bytes -> Algo "), _pick(_ALGORITHMS, b), pl.lit(" proto "),
            _pick(_PROTOCOLS, c), pl.lit(" channel{Lo..Hi}={0.."), b % 31, pl.lit("}"),
        )  # fmt: skip
    if kind == "watchdog":
        return pl.concat_str(
            pl.lit("[rank"), rank, pl.lit("]:[E304 05:"), (step // 60 % 60).cast(pl.String).str.zfill(2), pl.lit(":"),
            (step % 60).cast(pl.String).str.zfill(2), pl.lit("."), a % 900_000_000 + 100_000_000,
            pl.lit(" ProcessGroupNCCL.cpp:632] [Rank "), rank,
            pl.lit("] Watchdog caught collective operation timeout: WorkNCCL(SeqNum="), step, pl.lit(", OpType="),
            _pick(("ALLREDUCE", "_ALLGATHER_BASE", "BROADCAST"), step), pl.lit(", NumelIn="), b, pl.lit(", NumelOut="),
            b, pl.lit(", Timeout(ms)=600000) ran for "), c % 900 + 600_000,
            pl.lit(" milliseconds before timing out."),
        )  # fmt: skip
    if kind == "foreign":
        return _foreign(row, rank, step, a, b)
    if kind == "prints":
        return pl.concat_str(
            pl.lit("INFO:root:step "), step, pl.lit(" loss=0."), b % 90_000 + 10_000, pl.lit(" throughput="), a % 900,
            pl.lit(".5 samples/s"),
        )  # fmt: skip
    forms = (
        (pl.lit("resp.opId="), _pointer(row, 13), pl.lit(" matches expected opId="), _pointer(row, 13)),
        (pl.lit("ncclPollProxyResponse Received new opId="), _pointer(row, 13)),
        (pl.lit("proxyProgressAsync opId="), _pointer(row, 13), pl.lit(" op.type=1 op.reqBuff="), _pointer(row, 14),
         pl.lit(" op.respSize=16 done")),
        (pl.lit("Connected to proxy localRank "), rank % GPUS, pl.lit(" -> connection "), _pointer(row, 15)),
    )  # fmt: skip
    texts = [pl.concat_str(form) for form in forms]
    which = a % len(forms)
    return (
        pl.when(which == 0)
        .then(texts[0])
        .when(which == 1)
        .then(texts[1])
        .when(which == 2)
        .then(texts[2])
        .otherwise(texts[3])
    )


def _foreign(row: pl.Expr, rank: pl.Expr, step: pl.Expr, a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """What training programs and their loaders print: counted steps in several forms, and lines without any."""
    loss = pl.concat_str(a % 9 + 1, pl.lit("."), b % 900_000 + 100_000)
    forms = (
        (pl.lit(" ["), _clock(row), pl.lit("] iteration "), step, pl.lit("/  500000 | consumed samples: "), step * 512,
         pl.lit(" | elapsed time per iteration (ms): "), a % 900 + 1500, pl.lit("."), b % 10,
         pl.lit(" | learning rate: 1.200000E-04 | global batch size:   512 | lm loss: "), loss,
         pl.lit("E+00 | grad norm: 0."), b % 1000, pl.lit(" | number of nan iterations:   0 |")),
        (pl.lit("[rank"), rank, pl.lit("]: step "), step, pl.lit(" loss "), loss, pl.lit(" tokens/s "), b % 90_000,
         pl.lit(" 0."), a % 1000, pl.lit(" s/step")),
        (pl.lit("{'loss': "), loss, pl.lit(", 'grad_norm': 1."), b, pl.lit(", 'learning_rate': 4.8e-05, 'epoch': 0."),
         step % 1000, pl.lit("}")),
        (pl.lit(" 12%|█▏        | "), step, pl.lit("/500000 ["), a % 50 + 10, pl.lit(":23<1:23:45,  1."), b % 100,
         pl.lit("it/s, loss="), loss, pl.lit("]")),
        (pl.lit("INFO 03-04 05:06:07 [loader.py:123] rank "), rank, pl.lit(": shard data-"), a % 1024,
         pl.lit("-of-01024.tar read in "), b % 100, pl.lit(".5 ms, queue "), a % 16),
        (pl.lit("[default"), rank % GPUS, pl.lit("]:"), _clock(row), pl.lit(" - memory - INFO - allocated "), a % 80,
         pl.lit("."), b % 1000, pl.lit(" GiB, reserved 71.2 GiB, "), a % 4, pl.lit(" retries")),
        (pl.lit('DEBUG:urllib3.connectionpool:https://store.example:443 "GET /data/'), a, pl.lit('.tar HTTP/1.1" 206 '),
         b),
        (pl.lit("(TrainWorker pid="), rank + 100_000, pl.lit(") tokens seen "), a, pl.lit(", skipped "), b % 100),
    )  # fmt: skip
    text = pl.concat_str(forms[0])
    for number, form in enumerate(forms[1:], 1):
        text = pl.when(_noise(row, 8) % len(forms) == number).then(pl.concat_str(form)).otherwise(text)
    return text


def _start_lines(first: int, last: int, shape: Shape) -> list[str]:
    """What the ranks first .. last print when their communicators are made."""
    n = shape.ranks
    ranks = pl.DataFrame({"rank": pl.int_range(first, last, eager=True)})
    rank = pl.col("rank")
    texts = [pl.concat_str(pl.lit("NCCL_DEBUG set by environment to INFO")), pl.concat_str(pl.lit("Using network IB"))]
    nodes = -(-n // GPUS)
    for number in range(shape.communicators):
        who = pl.concat_str(
            pl.lit("ncclCommInitRank comm "), comm_pointer(rank, pl.lit(number)), pl.lit(" rank "), rank,
            pl.lit(f" nranks {n} cudaDev "), rank % GPUS, pl.lit(" nvmlDev "), rank % GPUS, pl.lit(" busId "),
            _hex((rank % GPUS + 1) * 16, 2), pl.lit(f"000 commId 0x{0xA1B2C3D4E5F60000 + number:x}"),
        )  # fmt: skip
        after, before = (rank + 1) % n, (rank + n - 1) % n
        texts.append(pl.concat_str(who, pl.lit(" - Init START")))
        texts.append(
            pl.concat_str(
                pl.lit("comm "),
                comm_pointer(rank, pl.lit(number)),
                pl.lit(" rank "),
                rank,
                pl.lit(f" nRanks {n} nNodes {nodes} localRanks {GPUS} localRank "),
                rank % GPUS,
                pl.lit(" MNNVL 0"),
            )
        )
        for channel in range(2):
            texts.append(
                pl.concat_str(
                    pl.lit(f"Channel {channel:02d}/0 : "),
                    rank,
                    pl.lit("["),
                    rank % GPUS,
                    pl.lit("] -> "),
                    after,
                    pl.lit("["),
                    after % GPUS,
                    pl.lit("] [send] via NET/IB/0/GDRDMA"),
                )
            )
        texts.append(
            pl.concat_str(
                pl.lit("Trees [0] "),
                after,
                pl.lit("/-1/-1->"),
                rank,
                pl.lit("->"),
                before,
                pl.lit(" [1] "),
                after,
                pl.lit("/-1/-1->"),
                rank,
                pl.lit("->"),
                before,
            )
        )
        texts.append(
            pl.lit("16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer")
        )
        texts.append(pl.concat_str(who, pl.lit(" - Init COMPLETE")))
    lines = ranks.select(pl.concat_list([pl.concat_str(_head(rank, shape), t) for t in texts]).alias("t"))
    if shape.prefix == "json":
        lines = lines.with_columns(
            pl.col("t").list.eval(pl.concat_str(pl.element(), pl.lit('\\n","stream":"stdout"}')))
        )
    return lines["t"].explode().to_list()


def _block(first: int, rows: int, shape: Shape) -> pl.DataFrame:
    """Lines first .. first + rows of the flood: ``rank, line``."""
    frame = pl.DataFrame({"row": pl.int_range(first, first + rows, eager=True)})
    row = pl.col("row")
    rank = row % shape.ranks
    kinds = MIXES[shape.kind]
    turns = row + row // shape.ranks if shape.kind == "interleaved" else _noise(row // shape.ranks, shape.seed + 9)
    turns = _noise(row, shape.seed + 9) if kinds.keys() & _PROGRAM else turns
    share = turns % 2 / 2 if shape.kind == "interleaved" else turns % 1000 / 1000
    line, below = pl.lit(""), 0.0
    for kind, part in kinds.items():
        body = _bodies(kind, row, rank, shape)
        own = pl.concat_str(_head(rank, shape, row, kind in {*_PROGRAM, "watchdog"}), body)
        line, below = pl.when(share >= below).then(own).otherwise(line), round(below + part, 3)
    if shape.dirt:
        chance = _noise(row, shape.seed + 21) % 100_000
        most = int(shape.dirt * 100_000)
        dirty = (
            pl.when(chance % 3 == 0)
            .then(pl.concat_str(_pick(_DIRT, chance), row))
            .when(chance % 3 == 1)
            .then(pl.concat_str(line.str.slice(0, 60), line))
            .otherwise(pl.concat_str(_head(rank, shape), pl.lit("frobnicating the widget "), row))
        )
        line = pl.when(chance < most).then(dirty).otherwise(line)
    if shape.torn:
        chance = _noise(row, shape.seed + 22) % 1000
        broken = (
            pl.when(chance % 2 == 0).then(pl.concat_str(line.str.slice(0, 60), line)).otherwise(line.str.slice(0, 90))
        )
        line = pl.when(chance < shape.torn * 1000).then(broken).otherwise(line)
    if shape.prefix == "json":
        tail = pl.concat_str(
            pl.lit('\\n","stream":"stdout","time":"'), _clock(row).str.replace(" ", "T"), pl.lit('456Z"}')
        )
        line = pl.when(line.str.starts_with("{")).then(pl.concat_str(line, tail)).otherwise(line)
    return frame.select(rank.alias("rank"), line.alias("line"))


def _starts(shape: Shape) -> Iterator[tuple[int, int, list[str]]]:
    """What the ranks print first: for ranks from .. to, the same number of lines each."""
    size = attempt = 0
    while attempt == 0 or (shape.kind == "restarts" and size < int(shape.megabytes * 1_000_000)):
        for first in range(0, shape.ranks, 1024):
            last = min(first + 1024, shape.ranks)
            lines = _start_lines(first, last, shape)
            if attempt:  # other processes, pointers and communicators
                lines = [
                    line.replace(":10", f":{10 + attempt}").replace("0x55", f"0x{0x55 + attempt:x}")
                    .replace("commId 0xa1b2c3d4", f"commId 0x{0xA1B2C3D4 + attempt:x}") for line in lines
                ]  # fmt: skip
            size += sum(map(len, lines)) + len(lines)
            yield first, last, lines
        attempt += 1


def _flood(shape: Shape, size: int) -> Iterator[pl.DataFrame]:
    """The lines behind ``size`` bytes: ``rank, line``."""
    first = 0
    while MIXES[shape.kind] and size < int(shape.megabytes * 1_000_000):
        rows = min(_BLOCK_LINES, max(1, (int(shape.megabytes * 1_000_000) - size) // 150))
        block = _block(first, rows, shape)
        size += int(block["line"].str.len_bytes().sum()) + rows
        first += rows
        yield block


def _text(lines: Sequence[str]) -> bytes:
    return "\n".join(lines).encode() + b"\n"


def write_log(target: Path, shape: Shape) -> int:
    """Writes one file; gives its size in bytes."""
    with target.open("wb") as out:
        size = sum(out.write(_text(lines)) for _, _, lines in _starts(shape))
        return size + sum(out.write(_text(block["line"].to_list())) for block in _flood(shape, size))


def write_logs(folder: Path, shape: Shape) -> int:
    """Writes the same lines, a file for each rank; gives the size of all in bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [folder / f"nccl.node{rank // GPUS:04d}.{100_000 + rank}.log" for rank in range(shape.ranks)]
    size = 0
    for first, last, lines in _starts(shape):
        each = len(lines) // (last - first)
        for rank in range(first, last):
            size += names[rank].write_bytes(_text(lines[(rank - first) * each : (rank - first + 1) * each]))
    for block in _flood(shape, size):
        for rank, mine in block.group_by("rank").agg("line").iter_rows():
            with names[rank].open("ab") as out:
                size += out.write(_text(mine))
    return size


def main() -> None:
    """Writes the input that the arguments describe."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--kind", choices=sorted({*MIXES, *SHAPES}), default="mixed")
    parser.add_argument("--megabytes", type=float, default=200.0)
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--communicators", type=int, default=3)
    parser.add_argument("--prefix", choices=("none", "stamp", "mpirun", "ray", "k8s", "kubectl", "json"))
    parser.add_argument("--dirt", type=float, default=0.002)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--per-rank", action="store_true")
    o = parser.parse_args()
    shape = replace(
        SHAPES.get(o.kind, Shape(o.kind)),
        megabytes=o.megabytes, communicators=o.communicators, dirt=o.dirt, seed=o.seed,
        **{k: v for k, v in (("ranks", o.ranks), ("prefix", o.prefix)) if v is not None},
    )  # fmt: skip
    size = (write_logs if o.per_rank else write_log)(o.out, shape)
    print(f"{size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
