"""nccl-tests output: the table on standard output and the file that ``-J`` writes.

The JSON file also lists the environment and arguments of the benchmark; they are not kept. With ``-I 1`` it holds the
time of each iteration, of several processes one by one: they are collectives like any other (util.cu of nccl-tests).
"""

import json
import re
from collections.abc import Mapping
from typing import Final

import polars as pl

from nccl_insight.base import late
from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import Format
from nccl_insight.readers import side as _side
from nccl_insight.readers.embedded import nccl_tests as table
from nccl_insight.tables.run import Partial
from nccl_insight.tables.schema import of_rows

_MOST_PROCESSES: Final = 100_000
_MOST_ITERATIONS: Final = 1_000_000
_LONGEST_US: Final = 1e12
_HEAD = late.compiled(rb"# nThread [0-9]+ nGpus|#\s+size\s+count\s+(?:\(?elements\)?\s+)?type\b|# nccl-tests version")


# NCCL's own lines, and what a benchmark that failed leaves: they are read as those of a log.
_TROUBLE = late.compiled(
    rb" NCCL (?:INFO|WARN|ATTN|ERROR) |Test (?:NCCL |CUDA )?failure|\b[Ss]ignal "
    rb"[0-9]|SIG(?:KILL|TERM|SEGV|BUS|ABRT)|\bKilled\b"
    rb"|CANCELLED|srun: error|slurmstepd|MPI_ABORT|[Oo]ut [Oo]f [Mm]emory|exited (?:on|with) "
    rb"|(?:ORTE|PRTE|prterun|mpirun) (?:has|was|noticed|detected) |\bssh: |not enough slots|Traceback \(most recent"
)


def sniff(head: bytes, name: str) -> float:
    """0.95 for a table, 0.9 for a ``-J`` file; low where a table stands inside an NCCL log, which is read as one."""
    if head.lstrip()[:1] == b"{":
        return 0.9 if b'"nccl_version"' in head and b'"start_time"' in head and b'"env"' in head else 0.0
    if _HEAD.search(head) is None:
        return 0.0
    return 0.95 if _TROUBLE.search(head) is None else 0.3


def read(source: InputFile) -> Partial:
    """Tables ``benchmarks``, ``benchmark_runs``, ``collectives`` and, for damage and failed checks, ``notes``."""
    content = _side.read_content(source)
    text = content.text
    heads = iterations = pl.DataFrame()
    if text.lstrip()[:1] == "{":
        document, problem = _document(text)
        frame, iterations = _from_json(document), _iterations(document)
    else:
        lines = _side.lines_frame(text)
        frame, problem = table.scan_lines(lines, source.display), ""
        heads = table.scan_runs(lines)
        if frame.is_empty():
            problem = "an nccl-tests head without any row: the benchmark ended before its first result"
    tables = {"benchmarks": frame, "benchmark_runs": heads, "collectives": iterations}
    return _side.partial(source, tables, content.problem, problem)


def _document(text: str) -> tuple[Mapping[str, object], str]:
    try:
        return _side.mapping(json.loads(text)), ""
    except (ValueError, RecursionError) as error:
        problem = f"the JSON ends early or is damaged ({error}); complete results were kept"
        # Lists of a cut document: every complete object of ``args``, ``devices`` and ``results``.
        heads = ((key, re.search(rf'"{key}"\s*:\s*\[', text)) for key in ("args", "devices", "results"))
        return {key: list(_side.json_values(text, head.end())) if head else [] for key, head in heads}, problem


def _op(document: Mapping[str, object]) -> str | None:
    args = _side.sequence(document.get("args"))
    return next((o for a in args[:1] if isinstance(a, str) and (o := table.op_of_name(a))), None)


def _from_json(document: Mapping[str, object]) -> pl.DataFrame:
    op = _op(document)
    devices = [_side.mapping(d) for d in _side.sequence(document.get("devices"))]
    hosts = {d.get("hostname") for d in devices if isinstance(d.get("hostname"), str)}
    gpus = [g for d in devices if (g := _side.as_text(d.get("device_info"), 100))]
    rows = []
    job = {"op": op, "nranks": len(devices) or None, "n_hosts": len(hosts) or None, "gpu": gpus[0] if gpus else None}
    for item in _side.sequence(document.get("results")):
        result = _side.mapping(item)
        said = {
            "size_bytes": _side.as_int(result.get("size"), 0),
            "count": _side.as_int(result.get("count"), 0),
            "dtype": (_side.as_text(result.get("type")) or "").strip() or None,
            "red_op": _word(result.get("redop")),
            "root": _side.as_int((_side.as_text(result.get("root")) or "").strip(), -1, 2**31 - 1),
        }
        for in_place, key in ((False, "out_of_place"), (True, "in_place")):
            if side := _side.mapping(result.get(key)):
                times = {"time_us": side.get("time", side.get("cpu_time")), "algbw_gbps": side.get("alg_bw")}
                rates = {name: _side.as_float(v) for name, v in {**times, "busbw_gbps": side.get("bus_bw")}.items()}
                wrong = _side.as_int(_side.as_float(side.get("nwrong")))
                rows.append({**job, **said, "in_place": in_place, **rates, "wrong": wrong, "run": 1})
    return of_rows(rows, table.SCHEMA)


def _iterations(document: Mapping[str, object]) -> pl.DataFrame:
    """Each iteration of each size: a row per process where their times are told apart, else one of the slowest."""
    op = _op(document)
    ranks = len(_side.sequence(document.get("devices")))
    parts: list[pl.DataFrame] = []
    for number, item in enumerate(_side.sequence(document.get("results"))):
        result = _side.mapping(item)
        size = _side.as_int(result.get("size"), 0)
        for key in ("out_of_place_per_iter", "in_place_per_iter"):
            timed = _side.mapping(result.get(key))
            each = [_side.sequence(p) for p in _side.sequence(timed.get("per_process_max_times_us"))]
            processes = each or [_side.sequence(timed.get("times_us"))]
            for process, times in enumerate(processes[:_MOST_PROCESSES]):
                kept = [_side.as_float(t) for t in times[:_MOST_ITERATIONS]]
                part = pl.DataFrame({"us": kept}, schema={"us": pl.Float64}).with_row_index("seq")
                parts.append(
                    part.filter(pl.col("us").is_between(0, _LONGEST_US, closed="right")).select(
                        pl.col("seq").cast(pl.Int64),
                        # a process is a rank only where each has one GPU
                        rank=pl.lit(process if each and len(each) == ranks else None, pl.Int32),
                        process_group=pl.lit(f"{number}:{key.removesuffix('_per_iter')}"),
                        op=pl.lit(op, pl.String),
                        size_bytes=pl.lit(size, pl.UInt64),
                        dtype=pl.lit((_side.as_text(result.get("type")) or "").strip() or None, pl.String),
                        group_size=pl.lit(ranks or None, pl.Int32),
                        duration_ns=(pl.col("us") * 1000).round().cast(pl.Int64),
                        source=pl.lit("nccl_tests"),
                    )
                )
    if not parts:
        return pl.DataFrame()
    from nccl_insight.readers.gpu_activity import with_bandwidth

    return with_bandwidth(pl.concat(parts))


def _word(value: object) -> str | None:
    word = (_side.as_text(value) or "").strip()
    return word if word and word != "none" else None


FORMAT = Format(kind="nccl_tests", sniff=sniff, read=read)
