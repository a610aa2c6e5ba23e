"""Settings that contradict each other, undo each other, or choose something with a cost."""

import re
from collections.abc import Callable, Iterator, Mapping

from nccl_insight.advise.settings.check.inspector import check_inspector
from nccl_insight.advise.settings.check.issue import Issue, as_number, switched_off, switched_on
from nccl_insight.advise.settings.interfaces import is_virtual
from nccl_insight.base.bandwidth import BULK
from nccl_insight.base.model import Severity
from nccl_insight.base.versions import at_least

Settings = Mapping[str, str]
_WITHOUT_RING = {
    "tree": {"allreduce"}, "nvls": {"allreduce", "allgather", "reducescatter"}, "nvlstree": {"allreduce"},
    "pat": {"allgather", "reducescatter"}, "collnetchain": {"allreduce"},
    "collnetdirect": {"allreduce", "allgather", "reducescatter"},
}  # fmt: skip
_HCA_EXACT_MEANT = re.compile(r"(?:mlx5|bnxt_re|irdma|hfi1|efa|rocep|ib)_?[0-9]$")


def check_together(settings: Settings, version: str | None = None) -> Iterator[Issue]:
    """Everything that needs more than one setting, or that chooses a costly way on purpose."""
    for check in _CHECKS:
        yield from check(settings, version)


def _contradiction(variable: str, title: str, step: str, why: str, *others: str, error: bool = False) -> Issue:
    severity = Severity.ERROR if error else Severity.WARNING
    return Issue("env-contradiction", severity, variable, title, step, why, others=others)


def _network(settings: Settings, version: str | None) -> Iterator[Issue]:
    net = settings.get("NCCL_NET", "").strip()
    if switched_on(settings, "NCCL_IB_DISABLE") and net.lower() == "ib":
        yield _contradiction(
            "NCCL_IB_DISABLE",
            "NCCL_IB_DISABLE=1 takes away the network that NCCL_NET=IB demands",
            "Keep one of the two.",
            "NCCL_NET forbids every other network, so no network is left and init fails.",
            "NCCL_NET",
            error=True,
        )
        return
    reason = "NCCL_IB_DISABLE=1" if switched_on(settings, "NCCL_IB_DISABLE") else None
    if net.lower() == "socket":
        reason = f"NCCL_NET={net}"
    if reason is None:
        return
    name = reason.partition("=")[0]
    yield Issue(
        "net-socket-by-config",
        Severity.INFO,
        name,
        f"{reason} sends all traffic between nodes over TCP sockets",
        f"Remove {name} where the nodes have InfiniBand or RoCE.",
        "Sockets reach a fraction of what RDMA does; fine on one node or without RDMA hardware.",
        reason,
    )
    unused = sorted(n for n in settings if n.startswith("NCCL_IB_") and n != "NCCL_IB_DISABLE" and settings[n].strip())
    if unused:
        yield Issue(
            "env-contradiction",
            Severity.INFO,
            unused[0],
            f"{', '.join(unused)} {'has' if len(unused) == 1 else 'have'} no effect with {reason}",
            f"Remove {name}, or the InfiniBand settings.",
            others=(name,),
        )


def _peer_to_peer(settings: Settings, version: str | None) -> Iterator[Issue]:
    disabled = switched_on(settings, "NCCL_P2P_DISABLE")
    level = settings.get("NCCL_P2P_LEVEL", "").strip()
    if disabled and level and level not in {"LOC", "0"}:
        yield _contradiction(
            "NCCL_P2P_LEVEL",
            f"NCCL_P2P_DISABLE=1 wins over NCCL_P2P_LEVEL={level}",
            "Keep one of the two.",
            "The level is not looked at when P2P is disabled.",
            "NCCL_P2P_DISABLE",
        )
    if disabled and switched_on(settings, "NCCL_SHM_DISABLE"):
        yield _contradiction(
            "NCCL_SHM_DISABLE",
            "NCCL_P2P_DISABLE=1 with NCCL_SHM_DISABLE=1 leaves only the network inside a node",
            "Remove one of the two.",
            "GPUs of one node then talk through the network card or TCP sockets.",
            "NCCL_P2P_DISABLE",
        )
    elif disabled or level in {"LOC", "0"}:
        name = "NCCL_P2P_DISABLE" if disabled else "NCCL_P2P_LEVEL"
        yield Issue(
            "p2p-disabled-by-env",
            Severity.INFO,
            name,
            f"{name}={settings[name].strip()} keeps GPUs of one node from talking directly",
            f"Remove {name} unless P2P hangs or corrupts data on this machine.",
            "Traffic inside the node goes through host memory instead of NVLink or PCIe P2P.",
        )
    if not disabled and switched_on(settings, "NCCL_SHM_DISABLE"):
        yield Issue(
            "env-tuning-pinned",
            Severity.INFO,
            "NCCL_SHM_DISABLE",
            "NCCL_SHM_DISABLE=1 takes shared memory away: ranks of one node without P2P talk over the network",
            "Remove NCCL_SHM_DISABLE unless /dev/shm cannot be made large enough.",
            "Shared memory is what NCCL falls back to inside a node.",
        )


def _nvls(settings: Settings, version: str | None) -> Iterator[Issue]:
    only = _forced(settings.get("NCCL_ALGO", ""))
    for entry in settings.get("NCCL_ALGO", "").split(";"):
        function, _, words = entry.rpartition(":")
        chosen = _forced(words)
        if function and chosen and chosen <= {"nvls", "nvlstree"} and switched_off(settings, "NCCL_NVLS_ENABLE"):
            yield _contradiction(
                "NCCL_ALGO",
                f"NCCL_ALGO allows NVLS only for {function}, and NCCL_NVLS_ENABLE=0 switches NVLS off",
                "Remove one of the two.",
                "No algorithm is left for the collective.",
                "NCCL_NVLS_ENABLE",
                error=True,
            )
    if only and only <= {"nvls", "nvlstree"} and switched_off(settings, "NCCL_NVLS_ENABLE"):
        yield _contradiction(
            "NCCL_ALGO",
            "NCCL_ALGO allows NVLS only, and NCCL_NVLS_ENABLE=0 switches NVLS off",
            "Remove one of the two.",
            "No algorithm is left for the collectives.",
            "NCCL_NVLS_ENABLE",
            error=True,
        )
    if only and only <= {"nvls", "nvlstree"} and switched_on(settings, "NCCL_P2P_DISABLE"):
        yield _contradiction(
            "NCCL_ALGO",
            "NCCL_ALGO allows NVLS only, and NCCL_P2P_DISABLE=1 forbids NVLink",
            "Remove one of the two.",
            "NVLS works over NVLink between the GPUs of the node.",
            "NCCL_P2P_DISABLE",
        )
    if switched_off(settings, "NCCL_CUMEM_ENABLE") and settings.get("NCCL_MNNVL_ENABLE", "").strip() == "1":
        yield _contradiction(
            "NCCL_MNNVL_ENABLE",
            "NCCL_MNNVL_ENABLE=1 needs cuMem allocation, which NCCL_CUMEM_ENABLE=0 switches off",
            "Remove NCCL_CUMEM_ENABLE=0.",
            "Multi-node NVLink shares memory through cuMem handles.",
            "NCCL_CUMEM_ENABLE",
        )


def _algorithms(settings: Settings, version: str | None) -> Iterator[Issue]:
    value = settings.get("NCCL_ALGO", "").strip()
    only = _forced(value)
    if not only or "ring" in only or not only <= set(_WITHOUT_RING) or at_least(version, "2.24") is False:
        return
    if any(word in only for word in ("collnetchain", "collnetdirect")) and switched_off(
        settings, "NCCL_COLLNET_ENABLE"
    ):
        yield _contradiction(
            "NCCL_ALGO",
            "NCCL_ALGO allows CollNet, and NCCL_COLLNET_ENABLE=0 switches it off",
            "Remove one of the two.",
            "",
            "NCCL_COLLNET_ENABLE",
        )
    if only <= {"nvls", "nvlstree"} and switched_off(settings, "NCCL_NVLS_ENABLE"):
        return
    served = set().union(*(_WITHOUT_RING[word] for word in only))
    left = [c for c in map(str.lower, BULK) if c not in served]
    if left:
        yield Issue(
            "algorithm-unavailable",
            Severity.WARNING,
            "NCCL_ALGO",
            f"NCCL_ALGO={value[:80]} leaves {', '.join(left)} without an algorithm",
            f"Name the collective it is meant for, such as NCCL_ALGO=allreduce:{value[:40].lower()}, or add ring.",
            "Since 2.24 NCCL does not fall back to rings by itself: a collective without an algorithm fails.",
            value[:80],
            "ring among the algorithms, or a list per collective",
        )


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
                yield _contradiction(
                    low,
                    f"{low}={least} is above {high}={most}",
                    f"Make {low} at most {high}, or remove both.",
                    "",
                    high,
                )
    names = ("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD")
    if all(settings.get(name, "").strip() for name in names):
        product = as_number(settings[names[0]]) * as_number(settings[names[1]])
        if product > 64:
            yield _contradiction(
                names[0],
                f"{names[0]} x {names[1]} = {product}, above the limit of 64 sockets per connection",
                "Lower one of the two until the product is at most 64.",
                "NCCL cuts the number of sockets down.",
                names[1],
            )


def _interfaces(settings: Settings, version: str | None) -> Iterator[Issue]:
    value = settings.get("NCCL_SOCKET_IFNAME", "").strip()
    if value and not value.startswith("^"):
        wrong = [w for w in value.lstrip("=").split(",") if is_virtual(w)]
        if wrong:
            yield Issue(
                "ifname-wrong",
                Severity.WARNING,
                "NCCL_SOCKET_IFNAME",
                f"NCCL_SOCKET_IFNAME={value[:80]} chooses {', '.join(wrong)[:60]}, which reaches no other host",
                "Name the interface that connects the nodes (ip -br addr), or exclude with ^lo,docker.",
                "Loopback, bridge and container interfaces carry traffic inside one host only; harmless on one node.",
            )
    value = settings.get("NCCL_IB_HCA", "").strip()
    if value and not value.lstrip("^").startswith("="):
        loose = [w for w in value.lstrip("^").split(",") if _HCA_EXACT_MEANT.search(w.split(":")[0])]
        if any(w.split(":")[0].endswith("1") for w in loose):
            sign = "^=" if value.startswith("^") else "="
            yield Issue(
                "env-prefix-match",
                Severity.INFO,
                "NCCL_IB_HCA",
                f"NCCL_IB_HCA={value[:80]} matches by prefix: mlx5_1 also means mlx5_10 to mlx5_19",
                f"Write NCCL_IB_HCA={sign}{value.lstrip('^')[:80]} for exact names.",
            )


def _logging(settings: Settings, version: str | None) -> Iterator[Issue]:
    level = settings.get("NCCL_DEBUG", "").strip().upper()
    path = settings.get("NCCL_DEBUG_FILE", "").strip()
    if "NCCL_DEBUG_SUBSYS" in settings and level in {"", "VERSION", "WARN", "ATTN"}:
        yield Issue(
            "debug-output-insufficient",
            Severity.INFO,
            "NCCL_DEBUG_SUBSYS",
            f"NCCL_DEBUG_SUBSYS has no effect with NCCL_DEBUG {level or 'not set'}",
            "Set NCCL_DEBUG=INFO as well, or drop NCCL_DEBUG_SUBSYS.",
            "Subsystems filter INFO lines only.",
            others=("NCCL_DEBUG",),
        )
    if not path or path.startswith("/dev/"):
        return
    if level in {"", "VERSION"}:
        yield Issue(
            "debug-output-insufficient",
            Severity.INFO,
            "NCCL_DEBUG_FILE",
            f"NCCL_DEBUG_FILE stays empty with NCCL_DEBUG {level or 'not set'}",
            "Set NCCL_DEBUG=INFO (or WARN) as well.",
            others=("NCCL_DEBUG",),
        )
    if "%p" not in path and "$" not in path:
        yield Issue(
            "debug-file-shared",
            Severity.WARNING,
            "NCCL_DEBUG_FILE",
            f"NCCL_DEBUG_FILE={path[:80]} is one file for all processes, which overwrite each other",
            f"Put host and process into the name, such as {path[:60]}.%h.%p",
            "Every process truncates the file when it starts writing.",
            path[:80],
            "a name with %h and %p",
        )
    elif "%h" not in path and "$" not in path:
        yield Issue(
            "debug-file-shared",
            Severity.INFO,
            "NCCL_DEBUG_FILE",
            f"NCCL_DEBUG_FILE={path[:80]} has no %h: process ids of different hosts can clash on a shared disk",
            f"Put the host into the name, such as {path[:60].replace('%p', '%h.%p')}",
        )


def _framework(settings: Settings, version: str | None) -> Iterator[Issue]:
    if settings.get("TORCH_NCCL_DUMP_ON_TIMEOUT", "").strip().lower() in {"1", "true", "y", "yes", "t"}:
        sizes = [settings[n] for n in ("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE") if n in settings]
        if all(as_number(size) == 0 for size in sizes):
            yield Issue(
                "env-contradiction",
                Severity.INFO,
                "TORCH_NCCL_DUMP_ON_TIMEOUT",
                "TORCH_NCCL_DUMP_ON_TIMEOUT dumps nothing unless the flight recorder has a buffer",
                "Set TORCH_NCCL_TRACE_BUFFER_SIZE=2000 as well.",
                "Recent PyTorch has a buffer by default; older releases do not.",
                others=("TORCH_NCCL_TRACE_BUFFER_SIZE",),
            )


_CHECKS: tuple[Callable[[Settings, str | None], Iterator[Issue]], ...] = (
    _network, _peer_to_peer, _nvls, _algorithms, _bounds, _interfaces, _logging, _framework, check_inspector,
)  # fmt: skip
