"""``analyze --follow``: judges a growing log again whenever it has grown."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from nccl_insight.errors import NotJudgedError, UsageError
from nccl_insight.inputs.find import find_inputs
from nccl_insight.model import Analysis

INTERVAL_S = 2.0


def _sizes(paths: Sequence[str]) -> dict[str, int]:
    try:
        return {file.display: file.size_bytes for file in find_inputs(paths)}
    except NotJudgedError:
        return {}


def _state(analysis: Analysis) -> tuple[tuple[str, str], ...]:
    return tuple((f.fingerprint, f.severity.value) for f in analysis.findings)


def follow(
    paths: Sequence[str],
    judge: Callable[[], Analysis],
    show: Callable[[Analysis], None],
    idle_s: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Calls ``judge`` whenever an input grew or appeared, and ``show`` whenever the findings changed.

    Ends on Ctrl-C, or when nothing grew for ``idle_s`` seconds.

    Raises:
        UsageError: standard input cannot be followed.
    """
    if "-" in paths:
        raise UsageError("--follow needs files; standard input is read to its end anyway")
    seen: dict[str, int] = {}
    shown: tuple[tuple[str, str], ...] | None = None
    quiet_s = 0.0
    try:
        while idle_s is None or quiet_s < idle_s:
            sizes = _sizes(paths)
            if sizes != seen and sizes:
                seen, quiet_s = sizes, 0.0
                analysis = judge()
                if _state(analysis) != shown:
                    shown = _state(analysis)
                    show(analysis)
            sleep(INTERVAL_S)
            quiet_s += INTERVAL_S
    except KeyboardInterrupt:
        return
