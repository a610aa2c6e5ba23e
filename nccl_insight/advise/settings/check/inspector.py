"""Set-up mistakes of the Inspector profiler plugin, whose effect is that nothing is written."""

from collections.abc import Iterator, Mapping
from typing import Final

from nccl_insight.advise.settings.check.issue import Issue, as_number, issue_of, switched_off, switched_on

_ENABLE: Final = "NCCL_INSPECTOR_ENABLE"
_PLUGIN: Final = "NCCL_PROFILER_PLUGIN"
_INTERVAL: Final = "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS"
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
            yield issue_of("other-inspector-settings", first, why=why, enable=_ENABLE)
        return
    if not settings.get(_PLUGIN, "").strip():
        yield issue_of("without-loads-inspector", _ENABLE, plugin=_PLUGIN)
    if switched_off(settings, "NCCL_INSPECTOR_DUMP_THREAD_ENABLE"):
        yield issue_of("inspector-dump-thread")
        return
    interval = as_number(settings.get(_INTERVAL, "-1"))
    if interval < 0:
        how = f"{_INTERVAL}={settings[_INTERVAL]}" if _INTERVAL in settings else f"{_INTERVAL} is not set (-1)"
        of = _INTERVAL if _INTERVAL in settings else _ENABLE
        yield issue_of("nothing-written-before", of, how=how, interval=_INTERVAL)
    elif switched_on(settings, "NCCL_INSPECTOR_PROM_DUMP") and 0 <= interval < _PROMETHEUS_US:
        yield issue_of("prometheus-files-written", _INTERVAL, interval=interval, prometheus_us=_PROMETHEUS_US)
    elif interval == 0 and _INTERVAL in settings:
        yield issue_of("writes-without-pause", _INTERVAL)
