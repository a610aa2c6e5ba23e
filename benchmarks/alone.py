"""What the benchmarks of single readers share: reading one generated file in a process of its own."""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nccl_insight.inputs.find import InputFile
    from nccl_insight.tables.run import Partial


def read_measured(path: Path, read: Callable[[InputFile], Partial]) -> tuple[Partial, float, str]:
    """The tables of a file, CPU seconds (user and system), and a text with these, elapsed time and peak memory."""
    from nccl_insight.inputs.find import find_inputs

    source = find_inputs([str(path)])[0]
    cpu, wall = time.process_time(), time.perf_counter()
    part = read(source)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return part, cpu, f"{cpu:.2f} s CPU, {wall:.2f} s elapsed, peak memory {peak:.0f} MB"


def run(
    module: str,
    parser: argparse.ArgumentParser,
    name: Callable[[argparse.Namespace], str],
    generate: Callable[[Path, argparse.Namespace], None],
    measure: Callable[[Path], None],
) -> None:
    """Generates and measures in two processes, so that generating does not count.

    With a FILE on the command line that is read instead; ``--keep`` leaves what was generated.
    """
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--keep", type=Path, help="write the input here and leave it there")
    parser.add_argument("--measure-only", action="store_true")
    options = parser.parse_args()
    if options.file and options.measure_only:
        measure(options.file)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = options.file
        if path is None:
            path = options.keep or Path(folder) / name(options)
            generate(path, options)
        subprocess.run([sys.executable, "-m", module, "--measure-only", str(path)], check=True)
