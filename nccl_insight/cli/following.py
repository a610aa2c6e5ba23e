"""``analyze --follow``: judges a growing log again whenever it has grown."""

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from nccl_insight.base.data import dataclass
from nccl_insight.base.errors import NotJudgedError, UsageError
from nccl_insight.base.model import Analysis
from nccl_insight.engine.verdict import as_running
from nccl_insight.inputs.find import discard, piped, watched
from nccl_insight.inputs.limits import DEFAULT
from nccl_insight.inputs.remote import is_url
from nccl_insight.tables.run import Run

_State: TypeAlias = tuple[tuple[str, str], ...]

INTERVAL_S = 2.0
# A job that has written nothing for so long may have ended.
_SILENT_S = 60.0
# Up to here the last judgment is kept until the next one is made, in case that one is not possible.
_TWICE_BYTES = 64 << 20


@dataclass
class _Looks:
    """The judgments of a log that grows: the last one, what the user has been shown, and what waits to be confirmed."""

    judge: Callable[[], tuple[Analysis, Run]]
    show: Callable[[Analysis], None]
    warn: Callable[[str], None]
    most_bytes: int
    last: tuple[Analysis, Run] | None = None
    shown: _State | None = None
    waiting: _State | None = None
    full: bool = False
    written_s: float = 0.0

    def running(self) -> tuple[Analysis, Run] | None:
        """The last judgment, of a job that runs."""
        if self.last is None:
            return None
        return as_running(self.last[0], time.time() - self.written_s), self.last[1]

    def grown(self, size_bytes: int) -> float:
        """Judges what has grown, unless it was too large before; how long that took, in seconds."""
        if self.full:
            return 0.0
        if size_bytes > self.most_bytes:
            self.full = True
            self.warn(
                f"--follow: the inputs hold more than {self.most_bytes >> 20:,} MiB (limit follow-mib); they are "
                "judged now and not again. `nccl-insight analyze` without --follow judges them at any time."
            )
        if size_bytes > _TWICE_BYTES and self.last is not None:
            discard(self.last[1].inputs)
            self.last = None
        begun = time.monotonic()
        with contextlib.suppress(NotJudgedError):
            before, self.last = self.last, self.judge()
            if before is not None:
                discard(before[1].inputs)
            self._confirm(tuple((f.fingerprint, f.severity.value) for f in self.last[0].findings))
        return time.monotonic() - begun

    def settled(self) -> None:
        """Shows the last judgment, where it has not been shown: nothing has grown since."""
        if self.last is not None and self.waiting is not None and self.waiting != self.shown:
            self.shown = self.waiting
            self.show(as_running(self.last[0], time.time() - self.written_s))

    def _confirm(self, state: _State) -> None:
        """Shows findings that two looks agree on."""
        if state == self.waiting:
            self.settled()
        self.waiting = state


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
    inputs that have not grown, gives the same ones; at the end whatever they are. Where nothing is found, the job runs.

    Ends on Ctrl-C, or when nothing grew for ``idle_s`` seconds, and gives back the last judgment. Archives are opened
    only when they have changed.

    Memory is bounded: of large inputs there is one judgment at a time, and inputs of more than ``most_bytes`` in all
    are judged once and not again, which ``warn`` is told. Raises UsageError: standard input, a pipe or a URL cannot be
    followed.
    """
    if "-" in paths or piped(paths):
        raise UsageError("--follow needs files; standard input and pipes are read to their end anyway")
    if any(map(is_url, paths)):
        raise UsageError("--follow needs files; URLs are read once")
    looks = _Looks(judge, show, warn, most_bytes)
    seen: dict[str, tuple[int, ...]] = {}
    quiet_s = 0.0
    pause_s = INTERVAL_S
    try:
        while True:
            files = watched(paths)
            if files and files != seen:
                seen, quiet_s = files, 0.0
                looks.written_s = max(status[3] for status in files.values()) / 1e9
                # A log that grows all the time is read half of the time at most.
                pause_s = max(INTERVAL_S, looks.grown(sum(status[2] for status in files.values())))
            elif idle_s is not None and quiet_s >= idle_s:
                break
            else:
                looks.settled()
            sleep(pause_s)
            quiet_s += pause_s
    except KeyboardInterrupt:
        quiet_s = 0.0
    looks.settled()
    return looks.running() if quiet_s < _SILENT_S else looks.last
