"""Set-up mistakes of the Inspector profiler plugin, whose effect is that nothing is written."""

from collections.abc import Iterator, Mapping
from typing import Final

from nccl_insight.advise.settings.check.issue import Issue, as_number, switched_off, switched_on
from nccl_insight.base.model import Severity

_ENABLE: Final = "NCCL_INSPECTOR_ENABLE"
_PLUGIN: Final = "NCCL_PROFILER_PLUGIN"
_INTERVAL: Final = "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS"
_SOURCE: Final = "plugins/profiler/inspector/README.md"
_PROMETHEUS_US: Final = 30_000_000


def check_inspector(settings: Mapping[str, str], version: str | None = None) -> Iterator[Issue]:
    """``inspector-silent``: the Inspector is set up so that it writes nothing, or only at the end."""
    ours = sorted(name for name in settings if name.startswith("NCCL_INSPECTOR_"))
    if not ours:
        return
    first = _ENABLE if _ENABLE in settings else ours[0]
    if not switched_on(settings, _ENABLE):
        why = f"{_ENABLE}={settings[_ENABLE]}" if _ENABLE in settings else f"{_ENABLE} is not set"
        if len(ours) > 1 or _ENABLE not in settings:
            yield _issue(
                first, Severity.WARNING, f"{why}: the other Inspector settings do nothing", f"Set {_ENABLE}=1."
            )
        return
    if not settings.get(_PLUGIN, "").strip():
        yield _issue(
            _ENABLE,
            Severity.WARNING,
            f"{_ENABLE}=1 without {_PLUGIN}: NCCL loads no Inspector",
            f"Set {_PLUGIN} to the path of libnccl-profiler-inspector.so.",
        )
    if switched_off(settings, "NCCL_INSPECTOR_DUMP_THREAD_ENABLE"):
        yield _issue(
            "NCCL_INSPECTOR_DUMP_THREAD_ENABLE",
            Severity.WARNING,
            "NCCL_INSPECTOR_DUMP_THREAD_ENABLE=0: nothing is written while the job runs",
            "Remove it.",
        )
        return
    interval = as_number(settings.get(_INTERVAL, "-1"))
    if interval < 0:
        how = f"{_INTERVAL}={settings[_INTERVAL]}" if _INTERVAL in settings else f"{_INTERVAL} is not set (-1)"
        yield _issue(
            _INTERVAL if _INTERVAL in settings else _ENABLE,
            Severity.WARNING,
            f"{how}: nothing is written before a communicator is destroyed; a job that hangs leaves nothing",
            f"Set {_INTERVAL}=1000000 (a record per second).",
        )
    elif switched_on(settings, "NCCL_INSPECTOR_PROM_DUMP") and 0 <= interval < _PROMETHEUS_US:
        yield _issue(
            _INTERVAL,
            Severity.INFO,
            f"{_INTERVAL}={interval}: Prometheus files are written every 30 seconds at most",
            f"Set {_INTERVAL}={_PROMETHEUS_US}.",
        )
    elif interval == 0 and _INTERVAL in settings:
        yield _issue(
            _INTERVAL,
            Severity.WARNING,
            f"{_INTERVAL}=0 writes without a pause and takes a core per process",
            f"Set {_INTERVAL}=1000000 (a record per second).",
        )


def _issue(variable: str, severity: Severity, title: str, step: str) -> Issue:
    return Issue(
        "inspector-silent", severity, variable, title, step,
        "The Inspector writes from a thread of its own; -1 means at the end only.", source=_SOURCE,
    )  # fmt: skip
