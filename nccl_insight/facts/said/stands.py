"""Where the main threads of processes stand, by the stacks that py-spy, gdb and others print."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from nccl_insight.base import toml
from nccl_insight.base.data import dataclass
from nccl_insight.base.grouping import grouped
from nccl_insight.tables.run import Run, fact

_IDLE: Final = re.compile(
    r"_worker_loop|wait \(threading|_bootstrap|queue\.py|selectors|epoll_wait|concurrent/futures|run \(threading"
    r"|\(idle\)"
)


@cache
def _doings() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """What the innermost telling frame of a thread says that it does (``stands.toml``)."""
    data = toml.beside(__file__)
    return tuple((name, re.compile(pattern)) for name, pattern in data.items())


@dataclass(frozen=True)
class Stand:
    """Where the main thread of a process stands: innermost frame, what it does, innermost frame of the program."""

    input_id: int
    line: int
    host: str | None
    pid: int | None
    rank: int | None
    thread: str
    doing: str
    top: str
    own: str


@fact
def stands(run: Run) -> tuple[Stand, ...]:
    """One for each process of which the inputs hold stacks, in reading order.

    The main thread speaks for a process: the one called so, else the one that stands in the most telling place.
    """
    if not run.has("stacks"):
        return ()
    ranks = {(h, p): r for h, p, r in run.table("ranks").select("host", "pid", "rank").drop_nulls().iter_rows()}
    numbers = grouped((pid, rank) for (_, pid), rank in ranks.items())
    alone = {pid: own[0] for pid, own in numbers.items() if len({*own}) == 1}
    of = ("input_id", "host", "pid", "rank", "thread")
    rows = run.table("stacks").iter_rows(named=True)
    found: list[tuple[object, tuple[int, Stand]]] = []
    for (*process, thread), frames in grouped((tuple(row[name] for name in of), row) for row in rows).items():
        input_id, host, pid, rank = process
        known = ranks.get((host, pid), alone.get(pid)) if rank is None else rank
        found.append((tuple(process), _stand(input_id, host, pid, known, str(thread or ""), frames)))
    return tuple(max(own, key=lambda weighed: weighed[0])[1] for own in grouped(found).values())


def _stand(
    input_id: int, host: str | None, pid: int | None, rank: int | None, thread: str, frames: Sequence[Mapping[str, Any]]
) -> tuple[int, Stand]:
    """Where a thread stands, and how much that tells of its process."""
    shown = [_frame(frame) for frame in frames]
    doing = next((name for name, pattern in _doings() if any(pattern.search(place) for place in shown)), "")
    own = next((place for place in shown if _own(place)), "")
    busy = not _IDLE.search(" ".join((thread, *shown[:2])))
    weight = 4 * ("MainThread" in thread or "current" in thread) + 2 * bool(doing) + busy
    return weight, Stand(input_id, frames[0]["line"], host or None, pid, rank, thread, doing, shown[0], own)


def _frame(row: Mapping[str, object]) -> str:
    place = row["file"] or row["library"]
    line = f":{row['line_number']}" if row["line_number"] is not None else ""
    return f"{row['function']} ({place}{line})" if place else str(row["function"])


def _own(frame: str) -> bool:
    """Whether a frame is of the program and not of a library."""
    return ".py" in frame and not re.search(
        r"(?:^|[( /])(?:torch|fsspec|threading|concurrent|multiprocessing|numpy|lib|site-packages|accelerate"
        r"|deepspeed|megatron|lightning|transformers|queue|selectors|socket|ssl|runpy|<frozen)\b",
        frame,
    )
