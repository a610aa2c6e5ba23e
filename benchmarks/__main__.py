"""Speed and memory of the commands beside the floor of the machine, in one table and as JSON.

usage: python -m benchmarks [--megabytes 100] [--kinds ops,foreign,...] [--commands analyze,tables]
       [--ranks 64] [--runs 3] [--against COMMIT] [--xcl-lens PROGRAM] [--hta PYTHON]
       [--json FILE]

Every input is made anew (:mod:`benchmarks.generate`); without ``--kinds`` each shape of log. The floor is what reading
costs at least: polars streams the file and cuts its lines into head and text once; orjson parses a trace. Each round
runs the floor, then every command, as whole processes, so a machine that gets slower gets slower for all; the ratios
are of CPU seconds (user + system), which other programs on the machine disturb least. Each code runs every command on a
small input first, so that its modules are compiled as those of an installed package are. With ``--against`` each
command also runs from that commit, in turn; with ``--xcl-lens`` that reader of the same logs runs in each round too,
with ``--hta`` HolisticTraceAnalysis on traces (the Python in whose environment it is installed).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks import bench_traces
from benchmarks.generate import MIXES, SHAPES, Shape, write_log, write_logs

_ROOT = Path(__file__).parents[1]
_LOG_FLOOR = """
import sys, polars as pl
cut = pl.scan_lines(sys.argv[1]).select(pl.col("line").str.splitn(" NCCL INFO ", 2).alias("s"))
cut.unnest("s").select(pl.all().str.len_bytes().sum()).collect(engine="streaming")
"""
_TRACE_FLOOR = """
import sys, orjson
orjson.loads(open(sys.argv[1], "rb").read())
"""
_HTA = """
import sys
from hta.trace_analysis import TraceAnalysis
found = TraceAnalysis(trace_files={0: sys.argv[1]}, include_last_profiler_step=True)
found.get_comm_comp_overlap(visualize=False)
found.get_temporal_breakdown(visualize=False)
"""


@dataclass(frozen=True)
class Measured:
    """One run of one command: what it read and what it took."""

    input: str
    command: str
    code: str
    megabytes: float
    wall_s: float
    cpu_s: float
    peak_mb: float
    exit: int


def _run(arguments: Sequence[str], code: Path, compiled: Path | None = None) -> tuple[float, float, float, int]:
    """Wall seconds, CPU seconds, peak MB and exit status of a process. A process between makes the peak its own.

    ``compiled``: where Python keeps the modules that it compiled.
    """
    outer = (
        "import resource,subprocess,sys,time\n"
        "t=time.perf_counter()\n"
        "d=subprocess.run(sys.argv[1:],stdout=subprocess.DEVNULL,stderr=subprocess.DEVNULL)\n"
        "w=time.perf_counter()-t\n"
        "r=resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(w,r.ru_utime+r.ru_stime,r.ru_maxrss/1024,d.returncode)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(code)}
    if compiled is not None:
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = str(compiled)
    done = subprocess.run(
        [sys.executable, "-c", outer, *arguments], env=environment, cwd=code, check=True, capture_output=True, text=True
    )
    wall, cpu, peak, status = done.stdout.split()
    return float(wall), float(cpu), float(peak), int(status)


def _read(path: Path) -> None:
    with path.open("rb") as file:
        while file.read(1 << 20):
            pass


def _commands(names: Sequence[str], path: Path, out: Path) -> Iterator[tuple[str, list[str]]]:
    tool = [sys.executable, "-m", "nccl_insight"]
    every: Mapping[str, list[str]] = {
        "analyze": ["analyze", str(path), "-o", f"json={out}/a.json"],
        "report": ["analyze", str(path), "-o", f"html={out}/a.html"],
        "tables": ["tables", str(path), "-o", f"{out}/tables"],
        "parse": ["parse", str(path)],
        "redact": ["redact", str(path), "-o", f"{out}/redacted"],
    }
    for name in names:
        yield name, [*tool, *every[name]]


def measure(
    name: str,
    path: Path,
    megabytes: float,
    commands: Sequence[str],
    runs: int,
    codes: Mapping[str, Path],
    trace: bool,
    peer: str | None = None,
    hta: str | None = None,
) -> list[Measured]:
    """All commands on one input, ``runs`` rounds; ``peer``: the program xcl-lens, if it is to run as well.

    ``hta``: the Python of HolisticTraceAnalysis, for traces.
    """
    found: list[Measured] = []
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    with tempfile.TemporaryDirectory() as folder:
        compiled = Path(folder) / "compiled"
        small = Path(folder) / ("small.json" if trace else "small.log")
        if trace:
            bench_traces.generate(small, 1, packed=False)
        else:
            write_log(small, Shape("mixed", 0.5, 4))

        def timed(command: str, label: str, code: Path, arguments: Sequence[str], before: Sequence[str]) -> None:
            # Some systems take back the memory of files that nobody read for half a minute, as another program runs:
            # the program is started once, and the input read once, so that no disk is measured.
            _run(before, code, compiled)
            for file in files:
                _read(file)
            found.append(Measured(name, command, label, megabytes, *_run(arguments, code, compiled)))

        for turn in range(runs):
            if not path.is_dir():
                floor = [sys.executable, "-c", _TRACE_FLOOR if trace else _LOG_FLOOR]
                timed("floor", "-", _ROOT, [*floor, str(path)], [*floor, str(small)])
            if peer and not trace:
                timed("xcl-lens", "-", _ROOT, [peer, "-s", *map(str, files)], [peer, "-s", str(small)])
            if hta and trace:
                timed("hta", "-", _ROOT, [hta, "-c", _HTA, str(files[0])], [hta, "-c", _HTA, str(small)])
            for label, code in codes.items():
                out, rehearsal = Path(folder) / f"{label}-{turn}", Path(folder) / f"{label}-{turn}-small"
                out.mkdir()
                rehearsal.mkdir()
                pairs = zip(_commands(commands, path, out), _commands(commands, small, rehearsal), strict=True)
                for (command, arguments), (_, before) in pairs:
                    timed(command, label, code, arguments, before)
    return found


def show(found: Sequence[Measured]) -> str:
    """The table: medians, and ratios to the floor of the same input."""
    lines = [
        "| input | command | code | MB | wall s | CPU s | MB/s | MB per CPU s | peak MB | CPU / floor |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    keys = dict.fromkeys((m.input, m.command, m.code) for m in found)
    floors = {
        name: statistics.median(m.cpu_s for m in found if m.input == name and m.command == "floor")
        for name in {key[0] for key in keys if key[1] == "floor"}
    }
    for key in keys:
        group = [m for m in found if (m.input, m.command, m.code) == key]
        wall, cpu = (statistics.median(getattr(m, f) for m in group) for f in ("wall_s", "cpu_s"))
        size, peak = group[0].megabytes, max(m.peak_mb for m in group)
        ratio = f"{cpu / floors[key[0]]:.1f}" if key[0] in floors else "-"
        failed = "" if all(m.exit in (0, 1) for m in group) else f" (exit {group[-1].exit})"
        lines.append(
            f"| {key[0]} | {key[1]}{failed} | {key[2]} | {size:.0f} | {wall:.2f} | {cpu:.2f} | {size / wall:.0f} | "
            f"{size / cpu:.0f} | {peak:.0f} | {ratio} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Makes the inputs, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=100.0)
    kinds = sorted({*MIXES, *SHAPES, "trace", "files"})
    parser.add_argument("--kinds", default=",".join(SHAPES), help=f"of {', '.join(kinds)}")
    parser.add_argument("--commands", default="analyze", help="of analyze, report, tables, parse, redact")
    parser.add_argument("--ranks", type=int, help="instead of those of the shape")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--against", help="a commit to run as well")
    parser.add_argument("--xcl-lens", help="the program to compare with, where it is installed")
    parser.add_argument("--hta", metavar="PYTHON", help="a Python that has HolisticTraceAnalysis, for traces")
    parser.add_argument("--json", type=Path)
    o = parser.parse_args()
    codes = {"here": _ROOT}
    found: list[Measured] = []
    with tempfile.TemporaryDirectory() as folder:
        if o.against:
            other = Path(folder) / "other"
            subprocess.run(["git", "worktree", "add", "--detach", str(other), o.against], cwd=_ROOT, check=True)
            codes[o.against] = other
        try:
            for kind in o.kinds.split(","):
                shape = replace(SHAPES.get(kind, Shape(kind if kind in MIXES else "mixed")), megabytes=o.megabytes)
                shape = replace(shape, ranks=o.ranks or shape.ranks)
                path = Path(folder) / f"{kind}.{'json' if kind == 'trace' else 'log'}"
                if kind == "trace":
                    bench_traces.generate(path, int(o.megabytes), packed=False)
                    size = path.stat().st_size
                elif kind == "files":
                    size = write_logs(path, shape)
                else:
                    size = write_log(path, shape)
                found += measure(
                    kind, path, size / 1e6, o.commands.split(","), o.runs, codes, kind == "trace", o.xcl_lens, o.hta
                )
        finally:
            if o.against:
                subprocess.run(["git", "worktree", "remove", "--force", str(other)], cwd=_ROOT, check=False)
    print(show(found))
    print(f"\nload of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs; time {time.strftime('%F %T')}")
    if o.json:
        o.json.write_text(json.dumps([asdict(m) for m in found], indent=1))


if __name__ == "__main__":
    main()
