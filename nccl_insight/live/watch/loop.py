"""Looks again and again at a running job: its RAS service, and what its logs and Inspector files grew by."""

from __future__ import annotations

import datetime
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from nccl_insight import api
from nccl_insight.errors import InsightError, NotJudgedError
from nccl_insight.inputs.find import discard
from nccl_insight.live.watch import ras
from nccl_insight.live.watch.files import Follower
from nccl_insight.live.watch.progress import Seen, Watch, look


def clock_text() -> str:
    """The time of day as lines begin with it."""
    return datetime.datetime.now().strftime("%H:%M:%S")


def watch(
    paths: Sequence[str],
    address: tuple[str, int] | None,
    state: Watch,
    interval_s: float,
    for_s: float | None = None,
    *,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], str] = clock_text,
) -> Iterator[str]:
    """Lines about what changed, for ``for_s`` seconds (None: until it is interrupted).

    Raises:
        NotJudgedError: RAS is asked for and does not answer at the first look, or no file can be read then or at the
            end.
    """
    follower = Follower(paths)
    started = now()
    told = ""
    first = True
    while True:
        if address is not None:
            try:
                seen = _from_text(ras.status(*address))
                if told:
                    yield f"{clock()} RAS answers again"
                told = ""
                yield from state.take(seen, now(), clock())
            except NotJudgedError as error:
                if first:
                    raise
                if not told:
                    told = str(error)
                    yield f"{clock()} {told} (the job may have ended)"
        for path, piece in follower.new():
            yield from state.take(_from_bytes(piece, path), now(), clock())
        yield from (f"{clock()} {news}" for news in follower.news())
        # Files that say nothing because nobody can read them show no stall.
        blind = follower.blind and address is None
        if blind and first:
            raise NotJudgedError("none of the files can be read")
        if first and not state.compares:
            yield f"{clock()} watching; nothing says yet how far ranks are (RAS, COLL lines, Inspector records do)"
        first = False
        if not blind:
            yield from state.take(Seen(), now(), clock())
        if for_s is not None and now() - started >= for_s:
            if blind:
                raise NotJudgedError(
                    "none of the files can be read any more, so how far ranks are is not known"
                )
            return
        sleep(interval_s)


def _from_text(text: str) -> Seen:
    return _from_bytes(text.encode(), Path("ras.json" if text.lstrip()[:1] == "{" else "ras.txt"))


def _from_bytes(piece: bytes, path: Path) -> Seen:
    """The piece read as a file of its own; what cannot be read shows nothing."""
    with tempfile.TemporaryDirectory(prefix="nccl-insight-") as folder:
        name = Path(folder) / (path.name.removesuffix(".gz") or "piece")
        name.write_bytes(piece)
        try:
            run = api.load([name])
        except InsightError:
            return Seen()
        try:
            return look(run)
        finally:
            discard(run.inputs)
