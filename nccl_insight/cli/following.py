"""``analyze --follow``: judges a growing log again whenever it has grown."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from nccl_insight.errors import NotJudgedError, UsageError
from nccl_insight.inputs.find import discard, piped, watched
from nccl_insight.inputs.limits import DEFAULT
from nccl_insight.inputs.remote import is_url
from nccl_insight.model import Analysis
from nccl_insight.tables.run import Run

INTERVAL_S = 2.0
# Up to here the last judgment is kept until the next one is made, in case that one is not possible.
_TWICE_BYTES = 64 << 20


def _state(analysis: Analysis) -> tuple[tuple[str, str], ...]:
    return tuple((f.fingerprint, f.severity.value) for f in analysis.findings)


def follow(
    paths: Sequence[str],
    judge: Callable[[], tuple[Analysis, Run]],
    show: Callable[[Analysis], None],
    idle_s: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
    most_bytes: int = DEFAULT.follow_mib << 20,
    warn: Callable[[str], None] = lambda text: None,
) -> tuple[Analysis, Run] | None:
    """Calls ``judge`` whenever an input grew or appeared, and ``show`` whenever the findings changed and stayed.

    What a half-written init looks like is no verdict: findings are shown when the next look, at grown inputs or at
    inputs that have not grown, gives the same ones; at the end whatever they are.

    Ends on Ctrl-C, or when nothing grew for ``idle_s`` seconds, and gives back the last judgment. Archives are opened
    only when they have changed.

    Memory is bounded: of large inputs there is one judgment at a time, and inputs of more than ``most_bytes`` in all
    are judged once and not again, which ``warn`` is told.

    Raises:
        UsageError: standard input, a pipe or a URL cannot be followed.
    """
    if "-" in paths or piped(paths):
        raise UsageError("--follow needs files; standard input and pipes are read to their end anyway")
    if any(map(is_url, paths)):
        raise UsageError("--follow needs files; URLs are read once")
    seen: dict[str, tuple[int, ...]] = {}
    shown: tuple[tuple[str, str], ...] | None = None
    waiting: tuple[tuple[str, str], ...] | None = None
    last: tuple[Analysis, Run] | None = None
    quiet_s = 0.0
    pause_s = INTERVAL_S
    full = False
    try:
        while True:
            files = watched(paths)
            if files != seen and files and full:
                seen, quiet_s = files, 0.0
            elif files != seen and files:
                seen, quiet_s = files, 0.0
                size = sum(status[2] for status in files.values())
                if size > most_bytes:
                    full = True
                    warn(
                        f"--follow: the inputs hold more than {most_bytes >> 20:,} MiB (limit follow-mib); they are "
                        "judged now and not again. `nccl-insight analyze` without --follow judges them at any time."
                    )
                if size > _TWICE_BYTES and last is not None:
                    discard(last[1].inputs)
                    last = None
                begun = time.monotonic()
                try:
                    before, last = last, judge()
                except NotJudgedError:
                    before = None
                else:
                    state = _state(last[0])
                    if state != shown and state == waiting:
                        shown = state
                        show(last[0])
                    waiting = state
                if before is not None:
                    discard(before[1].inputs)
                before = None
                # A log that grows all the time is read half of the time at most.
                pause_s = max(INTERVAL_S, time.monotonic() - begun)
            elif idle_s is not None and quiet_s >= idle_s:
                break
            elif last is not None and waiting is not None and waiting != shown:
                shown = waiting
                show(last[0])
            sleep(pause_s)
            quiet_s += pause_s
    except KeyboardInterrupt:
        pass
    if last is not None and waiting != shown:
        show(last[0])
    return last
