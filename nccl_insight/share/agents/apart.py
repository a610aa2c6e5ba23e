"""SQL of an agent in a process of its own, with limits of memory and time: what it costs cannot end the server."""

import io
import json
import re
import subprocess
import sys
from typing import Final

import polars as pl

from nccl_insight.base.errors import UsageError
from nccl_insight.tables.run import NoLines, Run, Tables
from nccl_insight.tables.sql import check_sql, current, select

SECONDS: Final = 30
MEMORY_BYTES: Final = 4 << 30
_REFUSED: Final = 3


def select_apart(run: Run, sql: str, most: int, *, seconds: float = SECONDS) -> tuple[pl.DataFrame, int]:
    """The first ``most`` rows of a SELECT over the tables of a run, and how many rows there are in all.

    Raises UsageError: the SQL is wrong, reads anything but the tables, or takes too much time or memory.
    """
    check_sql(sql)
    words = set(re.findall(r"\w+", current(sql)[0]))
    parts = {name: _packed(run.table(name)) for name in run.tables if name in words}
    head = {"sql": sql, "most": most, "tables": {name: len(data) for name, data in parts.items()}}
    asked = b"".join((json.dumps(head).encode(), b"\n", *parts.values()))
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__], input=asked, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"query: takes longer than {seconds:g} s; select less or join fewer rows") from error
    if done.returncode == _REFUSED:
        raise UsageError(done.stdout.decode("utf-8", "replace"))
    if done.returncode:
        raise UsageError(f"query: needs more than {MEMORY_BYTES >> 30} GiB or cannot be run; select less")
    height, _, data = done.stdout.partition(b"\n")
    return pl.read_ipc(io.BytesIO(data)), int(height)


def _packed(frame: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.write_ipc(out)
    return out.getvalue()


def _limit() -> None:
    try:
        import resource
    except ImportError:  # not on this system
        return
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))


def main() -> int:
    """The child: the question on standard input, rows or the reason why there are none on standard output."""
    _limit()
    asked = sys.stdin.buffer
    head = json.loads(asked.readline())
    sizes: dict[str, int] = head["tables"]
    frames = {name: pl.read_ipc(io.BytesIO(asked.read(size))) for name, size in sizes.items()}
    try:
        found = select(Run(Tables(frames, {}), NoLines(), ()), head["sql"])
    except UsageError as error:
        sys.stdout.buffer.write(str(error).encode("utf-8", "replace"))
        return _REFUSED
    sys.stdout.buffer.write(f"{found.height}\n".encode() + _packed(found.head(head["most"])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
