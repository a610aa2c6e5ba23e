"""Speed and memory of the log reader on a large mixed log. Not a test: it prints and asserts nothing.

usage: python benchmarks/bench_logs.py [--megabytes 500] [--grammar init,channels,net,env,version] [PATH ...]

PATHs are logs (or directories of logs, .gz too) that are written one behind the other, again and again, each round
under other host names and other addresses, until the size is reached; without any, the bundled runs are taken. The
commands run as whole processes. With ``--grammar`` the reading alone is timed with those files of the grammar, and
with all of them in the same run: what more rules cost.
"""

from __future__ import annotations

import argparse
import gzip
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

_ADDRESS = re.compile(rb"0x[0-9a-f]{6,12}\b")
_HOST = re.compile(rb"^([A-Za-z][A-Za-z0-9_.-]*?)(:[0-9]+:[0-9]+ )", re.MULTILINE)
_SHARED = ("fields", "fields_more")


def _texts(paths: Sequence[Path]) -> Iterator[bytes]:
    for path in paths:
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            if file.suffix in {".log", ".gz", ".txt", ".out"}:
                data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
                yield data if data.endswith(b"\n") else data + b"\n"


def mix(paths: Sequence[Path], target: Path, megabytes: int) -> int:
    """Writes the log; gives its size in bytes."""
    texts = list(_texts(paths))
    size = turn = 0
    with target.open("wb") as out:
        while size < megabytes * 1_000_000:
            for text in texts:
                size += out.write(_renamed(text, turn))
            turn += 1
    return size


def _renamed(text: bytes, turn: int) -> bytes:
    def moved(match: re.Match[bytes]) -> bytes:
        digits = len(match[0]) - 2
        return b"0x%0*x" % (digits, (int(match[0], 16) + turn * 0x1234567) % 16**digits)

    return _ADDRESS.sub(moved, _HOST.sub(rb"r%d-\1\2" % turn, text))


def run(command: Sequence[str], size: int) -> None:
    """Times a command as a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "nccl_insight", *command],
        check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{command[0]:<10} {size / 1e6 / wall:6.1f} MB/s  {wall:6.2f} s elapsed, {cpu:6.2f} s CPU, "
        f"peak of all so far {after.ru_maxrss / 1024:,.0f} MB (exit {done.returncode})"
    )


def read_with(path: Path, names: Sequence[str]) -> None:
    """Times the reading alone, in this process, with some files of the grammar."""
    from nccl_insight.inputs.chunks import ChunkIndex
    from nccl_insight.inputs.find import find_inputs
    from nccl_insight.language.catalog import Catalog
    from nccl_insight.language.load import grammar_files, read_grammar
    from nccl_insight.readers.nccl_log.classify import Classifier
    from nccl_insight.readers.nccl_log.log import chunk_reader, read_logs

    files = grammar_files()
    chosen = {n: t for n, t in files.items() if not names or Path(n).stem in {*names, *_SHARED}}
    grammar = read_grammar(chosen)
    start, cpu = time.perf_counter(), time.process_time()
    part = read_logs(
        [(find_inputs([str(path)])[0], ChunkIndex())], chunk_reader(Classifier(Catalog(grammar)))
    )
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    known = part.fate.parsed / max(1, part.fate.parsed + part.fate.unknown)
    print(
        f"{len(grammar.messages):>5} rules {path.stat().st_size / 1e6 / wall:6.1f} MB/s  {wall:6.2f} s elapsed, "
        f"{cpu:6.2f} s CPU, {known:.1%} of {part.fate.parsed + part.fate.unknown:,} NCCL lines known"
    )


def main() -> None:
    """Makes the log and measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--grammar")
    parser.add_argument("--read-only", type=Path)
    options = parser.parse_args()
    names = options.grammar.split(",") if options.grammar else []
    if options.read_only:
        read_with(options.read_only, names)
        return
    paths = options.paths or [Path(__file__).parents[1] / "fixtures" / "runs"]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "mixed.log"
        size = mix(paths, log, options.megabytes)
        print(f"{size / 1e6:.0f} MB from {', '.join(map(str, paths))}")
        run(["tables", str(log), "-o", f"{folder}/tables"], size)
        run(["analyze", str(log)], size)
        for some in ([options.grammar], []) if names else ():
            extra = ["--grammar", *some] if some else []
            subprocess.run([sys.executable, __file__, "--read-only", str(log), *extra], check=True)


if __name__ == "__main__":
    main()
