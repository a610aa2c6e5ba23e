"""nccl-tests commands for a mix: a shell script with the weights as comments, or JSON."""

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from nccl_insight.advise.settings.catalog import catalog
from nccl_insight.base import toml
from nccl_insight.base.bandwidth import SHARED
from nccl_insight.base.data import dataclass
from nccl_insight.base.errors import NotJudgedError
from nccl_insight.base.objects import json_text
from nccl_insight.base.units import format_bytes, plural
from nccl_insight.base.words import pairs
from nccl_insight.facts.setup.user_settings import user_settings
from nccl_insight.share.replay.groups import Shape
from nccl_insight.share.replay.mix import Mix, Pattern
from nccl_insight.tables.run import Run

LAUNCHERS: Final = ("mpirun", "srun", "none")
_PROGRAMS: Final = pairs("""AllReduce=all_reduce_perf AllGather=all_gather_perf ReduceScatter=reduce_scatter_perf
    Broadcast=broadcast_perf Reduce=reduce_perf AllToAll=alltoall_perf AllToAllv=alltoall_perf
    SendRecv=sendrecv_perf Gather=gather_perf Scatter=scatter_perf Barrier=all_reduce_perf""")
_DTYPES: Final = {name: own for own, names in toml.beside(__file__)["types"].items() for name in names}
_OPS: Final = frozenset({"sum", "prod", "min", "max", "avg"})
_NOT_PASSED: Final = re.compile(r"NCCL_(?:DEBUG.*|.*_FILE(?:_RANK)?|COMM_ID|HOSTID|RAS_.*|CONF_FILE|NO_CACHE)")
_ITERATIONS: Final = 200
# nccl-tests cuts the share of a rank down to whole 16 bytes, so smaller buffers become nothing.
_PIECE_BYTES: Final = 16


@dataclass(frozen=True)
class Options:
    """How the commands are to look."""

    launcher: str = "mpirun"
    gpus_per_node: int | None = None
    bin_dir: str = "./build"
    limit: int = 20


@dataclass(frozen=True)
class Command:
    """One command line and what it stands for."""

    pattern: Pattern
    line: str


def commands(mix: Mix, run: Run, options: Options) -> tuple[Command, ...]:
    """The commands of the ``limit`` heaviest patterns, those with most bytes or most calls.

    Raises NotJudgedError: nothing in the mix is an operation of nccl-tests.
    """
    able = [p for p in mix.patterns if p.op in _PROGRAMS]
    if not able:
        raise NotJudgedError("replay: the input has no operation that nccl-tests can run")
    heavy = sorted(able, key=lambda p: -max(p.share_bytes, p.share_calls))[: options.limit]
    chosen = [p for p in able if p in heavy]
    busiest = max(_rounds(p) for p in chosen)
    settings = _settings(run)
    return tuple(Command(p, _line(p, options, settings, busiest)) for p in chosen)


def render_script(mix: Mix, found: Sequence[Command], options: Options) -> str:
    """A shell script: the commands, the mix as comments."""
    return "\n".join(_script(mix, found, options)) + "\n"


def render_json(mix: Mix, found: Sequence[Command]) -> str:
    """The mix and the commands as one JSON document."""
    document = {
        "schema_version": 1,
        "source": mix.source, "calls": mix.calls, "nranks": mix.nranks, "ranks_seen": mix.ranks_seen,
        "left_out": list(mix.left_out),
        "patterns": [
            {
                "op": p.op, "dtype": p.dtype, "red_op": p.red_op, "size_bytes": p.size_bytes,
                "bucket_bytes": [p.low_bytes, p.high_bytes], "calls": p.calls, "total_bytes": p.total_bytes,
                "share_calls": round(p.share_calls, 6), "share_bytes": round(p.share_bytes, 6),
                "root": p.root, "nranks": p.shape.nranks, "n_nodes": p.shape.nodes, "groups": p.shape.groups,
                "split": p.shape.split or None,
            }
            for p in mix.patterns
        ],
        "commands": [{"command": c.line, "pattern": mix.patterns.index(c.pattern)} for c in found],
    }  # fmt: skip
    return json_text(document)


def _patterns(found: Sequence[Command]) -> Iterator[str]:
    """The patterns of the commands as a table in comments."""
    head = ("op", "type", "size", "sizes from .. to", "calls", "calls %", "bytes %")
    yield "# {:<14}{:<10}{:>11}  {:<26}{:>9}{:>9}{:>9}  group".format(*head)
    for p in (command.pattern for command in found):
        span, dtype = format_bytes(p.size_bytes), re.sub(r"[^\w.:+-]", "?", p.dtype or "?")[:20]
        if p.low_bytes != p.high_bytes:
            span = f"{format_bytes(p.low_bytes)} .. {format_bytes(p.high_bytes)}"
        yield (
            f"# {p.op:<14}{dtype:<10}{format_bytes(p.size_bytes):>11}  {span:<26}{p.calls:>9,}"
            f"{p.share_calls:>8.1%} {p.share_bytes:>8.1%}  {_group(p.shape)}"
        )


def _script(mix: Mix, found: Sequence[Command], options: Options) -> Iterator[str]:
    yield "#!/bin/sh"
    where = f"{plural(mix.nranks, 'rank')}" if mix.nranks else "an unknown number of ranks"
    yield "# The job's mix of collectives as nccl-tests runs:"
    yield f"# {where}, {plural(mix.calls, 'collective')}, from {mix.source}."
    if mix.nranks and mix.ranks_seen < mix.nranks:
        yield f"# Seen on {mix.ranks_seen} of {mix.nranks} ranks only; the others are taken to do the same."
    for text in mix.left_out:
        yield f"# Left out: {text}."
    rest = len(mix.patterns) - len(found)
    if rest > 0:
        calls = sum(p.share_calls for p in mix.patterns) - sum(c.pattern.share_calls for c in found)
        volume = sum(p.share_bytes for p in mix.patterns) - sum(c.pattern.share_bytes for c in found)
        yield f"# Not listed: {plural(rest, 'pattern')} with {calls:.1%} of the calls and {volume:.1%} of the bytes."
    if options.launcher == "mpirun" and any((_nodes(c.pattern.shape) or 1) > 1 for c in found):
        yield "# Several nodes: add --hostfile FILE (or -H host1:8,host2:8) behind mpirun."
    yield "# Sizes are those of nccl-tests: the whole buffer of all_gather, reduce_scatter and alltoall."
    yield "# -n follows the number of calls of one group, so that the script as a whole has the job's weights."
    if any(_nodes(c.pattern.shape) is None for c in found):
        yield "# The number of nodes is not in the input: --gpus-per-node sets how many ranks share one."
    yield "#"
    yield from _patterns(found)
    for command in found:
        yield ""
        if command.pattern.op == "AllToAllv":
            yield "# sizes differ between peers in the job; the test sends the same to all"
        if command.pattern.op == "Barrier":
            yield "# a barrier is a tiny all-reduce"
        elif command.pattern.size_bytes != (tested := _tested_size(command.pattern)):
            yield f"# {command.pattern.size_bytes} B in the job; nccl-tests runs whole 16 B per rank, so {tested} B"
        yield command.line


def _rounds(pattern: Pattern) -> float:
    """How often one group did it: the groups run at the same time."""
    return pattern.calls / pattern.shape.groups


def _nodes(shape: Shape) -> int | None:
    return shape.world_nodes if shape.split else shape.nodes


def _group(shape: Shape) -> str:
    where = f" on {plural(shape.nodes, 'node')}" if shape.nodes else ""
    count = f"{shape.groups} x " if shape.groups > 1 else ""
    return f"{count}{plural(shape.nranks, 'rank')}{where}"


def _settings(run: Run) -> tuple[tuple[str, str], ...]:
    """What the user set and every process agrees on; names of the catalog and plain values only."""
    values: dict[str, set[str]] = {}
    for setting in user_settings(run):
        variable = catalog().get(setting.name)
        if variable is None or variable.library not in {"nccl", "rccl"} or _NOT_PASSED.fullmatch(setting.name):
            continue
        values.setdefault(setting.name, set()).add(setting.value)
    plain = re.compile(r"[\w.,:;=^/%+@-]{1,200}", re.ASCII)
    return tuple(
        (name, next(iter(given)))
        for name, given in sorted(values.items())
        if len(given) == 1 and plain.fullmatch(next(iter(given)))
    )


def _tested_size(pattern: Pattern) -> int:
    """The size for ``-b``: what nccl-tests would cut down, rounded up to what it runs."""
    if pattern.op == "Barrier":
        return 4
    if pattern.op in SHARED:
        whole = _PIECE_BYTES * pattern.shape.nranks
        return max(1, -(-pattern.size_bytes // whole)) * whole
    return max(pattern.size_bytes, 4)


def _line(pattern: Pattern, options: Options, settings: Sequence[tuple[str, str]], busiest: float) -> str:
    shape = pattern.shape
    ranks = shape.world if shape.split else shape.nranks
    nodes = _nodes(shape)
    per_node = options.gpus_per_node or (max(1, ranks // nodes) if nodes else min(ranks, 8))
    size = _tested_size(pattern)
    iterations = max(1, round(_ITERATIONS * _rounds(pattern) / busiest))
    words = [f"{options.bin_dir}/{_PROGRAMS[pattern.op]}", "-b", str(size), "-e", str(size)]
    dtype = _DTYPES.get((pattern.dtype or "").lower().removeprefix("nccl").removeprefix("torch."))
    if dtype:
        words += ["-d", dtype]
    if pattern.red_op in _OPS:
        words += ["-o", str(pattern.red_op)]
    if pattern.root:
        words += ["-r", str(pattern.root)]
    words += ["-n", str(iterations), "-w", "5", "-c", "0", "-g", str(ranks) if options.launcher == "none" else "1"]
    given = [*settings, ("NCCL_TESTS_SPLIT", shape.split)] if shape.split else settings
    variables = [f"{name}={value}" for name, value in given]
    if options.launcher == "mpirun":
        launch = ["mpirun", "-np", str(ranks), "--map-by", f"ppr:{min(per_node, ranks)}:node"]
        return shlex.join([*launch, *(word for variable in variables for word in ("-x", variable)), *words])
    nodes = -(-ranks // per_node)
    srun = ["srun", f"--nodes={nodes}", f"--ntasks={ranks}", f"--ntasks-per-node={min(per_node, ranks)}"]
    env = ["env", *variables] if variables else []
    return shlex.join(env + (srun if options.launcher == "srun" else []) + words)
