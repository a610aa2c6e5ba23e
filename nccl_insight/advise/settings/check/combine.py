"""Settings that contradict each other, undo each other, or choose something with a cost."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from nccl_insight.advise.settings.catalog import catalog
from nccl_insight.advise.settings.check.issue import Issue, as_number, issue_of, switched_off, switched_on
from nccl_insight.advise.settings.interfaces import is_virtual
from nccl_insight.base import late
from nccl_insight.base.bandwidth import BULK
from nccl_insight.base.versions import at_least

Settings = Mapping[str, str]
_WITHOUT_RING = {
    **dict.fromkeys(("tree", "nvlstree", "collnetchain"), frozenset({"allreduce"})),
    **dict.fromkeys(("nvls", "collnetdirect"), frozenset({"allreduce", "allgather", "reducescatter"})),
    "pat": frozenset({"allgather", "reducescatter"}),
}
_HCA_EXACT_MEANT = late.compiled(r"(?:mlx5|bnxt_re|irdma|hfi1|efa|rocep|ib)_?[0-9]$")
_ENABLE: Final = "NCCL_INSPECTOR_ENABLE"
_PLUGIN: Final = "NCCL_PROFILER_PLUGIN"
_INTERVAL: Final = "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS"
_PROMETHEUS_US: Final = 30_000_000


def check_together(settings: Settings, version: str | None = None) -> Iterator[Issue]:
    """Everything that needs more than one setting, or that chooses a costly way on purpose."""
    for check in _CHECKS:
        yield from check(settings, version)


def _network(settings: Settings, version: str | None) -> Iterator[Issue]:
    net = settings.get("NCCL_NET", "").strip()
    if switched_on(settings, "NCCL_IB_DISABLE") and net.lower() == "ib":
        yield issue_of("disable-takes-away")
        return
    reason = "NCCL_IB_DISABLE=1" if switched_on(settings, "NCCL_IB_DISABLE") else None
    if net.lower() == "socket":
        reason = f"NCCL_NET={net}"
    if reason is None:
        return
    name = reason.partition("=")[0]
    yield issue_of("sends-all-traffic", name, reason=reason)
    unused = sorted(n for n in settings if n.startswith("NCCL_IB_") and n != "NCCL_IB_DISABLE" and settings[n].strip())
    if unused:
        words, one = ", ".join(unused), len(unused) == 1
        yield issue_of("network-effect", unused[0], others=(name,), unused=words, one=one, reason=reason, name=name)


def _peer_to_peer(settings: Settings, version: str | None) -> Iterator[Issue]:
    disabled = switched_on(settings, "NCCL_P2P_DISABLE")
    level = settings.get("NCCL_P2P_LEVEL", "").strip()
    if disabled and level and level not in {"LOC", "0"}:
        yield issue_of("disable-wins-over", level=level)
    if disabled and switched_on(settings, "NCCL_SHM_DISABLE"):
        yield issue_of("disable-shm-disable")
    elif disabled or level in {"LOC", "0"}:
        name = "NCCL_P2P_DISABLE" if disabled else "NCCL_P2P_LEVEL"
        yield issue_of("keeps-gpus-one", name, value=settings[name].strip())
    if not disabled and switched_on(settings, "NCCL_SHM_DISABLE"):
        yield issue_of("shm-disable-takes")


def _nvls(settings: Settings, version: str | None) -> Iterator[Issue]:
    only = _forced(settings.get("NCCL_ALGO", ""))
    for entry in settings.get("NCCL_ALGO", "").split(";"):
        function, _, words = entry.rpartition(":")
        chosen = _forced(words)
        if function and chosen and chosen <= {"nvls", "nvlstree"} and switched_off(settings, "NCCL_NVLS_ENABLE"):
            yield issue_of("nvls-for-one-function", function=function)
    if only and only <= {"nvls", "nvlstree"} and switched_off(settings, "NCCL_NVLS_ENABLE"):
        yield issue_of("nvls-switched-off")
    if only and only <= {"nvls", "nvlstree"} and switched_on(settings, "NCCL_P2P_DISABLE"):
        yield issue_of("nvls-without-nvlink")
    if switched_off(settings, "NCCL_CUMEM_ENABLE") and settings.get("NCCL_MNNVL_ENABLE", "").strip() == "1":
        yield issue_of("mnnvl-enable-needs")


def _algorithms(settings: Settings, version: str | None) -> Iterator[Issue]:
    value = settings.get("NCCL_ALGO", "").strip()
    only = _forced(value)
    if not only or "ring" in only or not only <= set(_WITHOUT_RING) or at_least(version, "2.24") is False:
        return
    if any(word in only for word in ("collnetchain", "collnetdirect")) and switched_off(
        settings, "NCCL_COLLNET_ENABLE"
    ):
        yield issue_of("algo-allows-collnet")
    if only <= {"nvls", "nvlstree"} and switched_off(settings, "NCCL_NVLS_ENABLE"):
        return
    served = set().union(*(_WITHOUT_RING[word] for word in only))
    left = tuple(c for c in map(str.lower, BULK) if c not in served)
    if left:
        yield issue_of("algo-leaves-without", value=value, left=left, small=value[:40].lower())


def _forced(value: str) -> set[str]:
    """The only algorithms allowed for all collectives; empty when none is forced or the list excludes."""
    value = value.strip()
    if not value or ":" in value or ";" in value or value.startswith("^"):
        return set()
    return {word.strip().lower() for word in value.split(",") if word.strip()}


def _bounds(settings: Settings, version: str | None) -> Iterator[Issue]:
    for low, high in (("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"), ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS")):
        if settings.get(low, "").strip() and settings.get(high, "").strip():
            least, most = as_number(settings[low]), as_number(settings[high])
            if least > most > 0:
                yield issue_of("bounds-above", low, others=(high,), low=low, least=least, high=high, most=most)
    names = ("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD")
    if all(settings.get(name, "").strip() for name in names):
        product = as_number(settings[names[0]]) * as_number(settings[names[1]])
        if product > 64:
            yield issue_of("above-limit-sockets", names[0], others=(names[1],), names=names, product=product)


def _interfaces(settings: Settings, version: str | None) -> Iterator[Issue]:
    value = settings.get("NCCL_SOCKET_IFNAME", "").strip()
    if value and not value.startswith("^"):
        wrong = [w for w in value.lstrip("=").split(",") if is_virtual(w)]
        if wrong:
            yield issue_of("socket-ifname-chooses", value=value, wrong=", ".join(wrong))
    value = settings.get("NCCL_IB_HCA", "").strip()
    if value and not value.lstrip("^").startswith("="):
        loose = [w for w in value.lstrip("^").split(",") if _HCA_EXACT_MEANT.search(w.split(":")[0])]
        if any(w.split(":")[0].endswith("1") for w in loose):
            sign = "^=" if value.startswith("^") else "="
            yield issue_of("hca-matches-prefix", value=value, sign=sign, body=value.lstrip("^"))


def _logging(settings: Settings, version: str | None) -> Iterator[Issue]:
    level = settings.get("NCCL_DEBUG", "").strip().upper()
    path = settings.get("NCCL_DEBUG_FILE", "").strip()
    if "NCCL_DEBUG_SUBSYS" in settings and level in {"", "VERSION", "WARN", "ATTN"}:
        yield issue_of("debug-subsys-effect", level=level or "not set")
    if not path or path.startswith("/dev/"):
        return
    if level in {"", "VERSION"}:
        yield issue_of("debug-file-stays", level=level or "not set")
    if "%p" not in path and "$" not in path:
        yield issue_of("debug-file-one", path=path)
    elif "%h" not in path and "$" not in path:
        yield issue_of("debug-file-process", path=path, better=path[:60].replace("%p", "%h.%p"))


def _framework(settings: Settings, version: str | None) -> Iterator[Issue]:
    if settings.get("TORCH_NCCL_DUMP_ON_TIMEOUT", "").strip().lower() in {"1", "true", "y", "yes", "t"}:
        sizes = [settings[n] for n in ("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE") if n in settings]
        if all(as_number(size) == 0 for size in sizes):
            yield issue_of("torch-dump-timeout")


def _inspector(settings: Settings, version: str | None) -> Iterator[Issue]:
    """``inspector-silent``: the Inspector profiler plugin is set up so that it writes nothing, or only at the end."""
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


def check_pinned(settings: Settings) -> Iterator[Issue]:
    """``env-tuning-pinned``: knobs for experiments that are left set.

    Silent where a cloud plugin is configured whose vendor prescribes these values.
    """
    if any(name.startswith(("NCCL_FASTRAK_", "NCCL_GPUDIRECTTCPX_", "NCCL_TCPX_")) for name in settings):
        return
    for name, value in settings.items():
        variable = catalog().get(name)
        if variable is None or not variable.tuning or not value.strip():
            continue
        if name in {"NCCL_ALGO", "NCCL_PROTO"} and all(
            part.rsplit(":", 1)[-1].startswith("^") for part in value.split(";")
        ):
            continue  # excluding one algorithm or protocol is the documented workaround for a bug
        advice = variable.advice or "Values found on one machine, size or release are often wrong on the next."
        yield issue_of("pins-choice-makes", name, value=value, advice=advice)


_CHECKS: tuple[Callable[[Settings, str | None], Iterator[Issue]], ...] = (
    _network, _peer_to_peer, _nvls, _algorithms, _bounds, _interfaces, _logging, _framework, _inspector,
)  # fmt: skip
