"""A resource of the host or process is used up."""

from nccl_insight.base.model import Severity
from nccl_insight.rules.context import Context, Hits

_FILES = (
    "Open files of the process are used up (ulimit -n)",
    "ulimit -n; ls /proc/<pid>/fd | wc -l   # in the environment of the ranks, on the host named; fix: raise the limit "
    "of the daemon that starts the ranks (LimitNOFILE=, docker run --ulimit nofile=...), or create fewer communicators",
)
_THREADS = (
    "No further thread can be started (ulimit -u, or the pids limit of the container)",
    "ulimit -u; cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids.current; ps -eLf | wc -l   # on the host named, in the "
    "container; fix: raise the limit (LimitNPROC=, docker run --pids-limit), or start fewer data loader workers",
)
_PORTS = (
    "The local ports of the host are used up",
    "sysctl net.ipv4.ip_local_port_range; ss -s   # on the host named; fix: widen net.ipv4.ip_local_port_range, or "
    "end what holds the connections that ss counts",
)
_MEMORY = (
    "The host has no memory left for NCCL",
    "free -g; cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.current; dmesg -T | grep -i oom   # on the host "
    "named, in the container",
)
_ANY = (
    "A resource of the process is used up",
    "ulimit -n -u; ls /proc/<pid>/fd | wc -l; cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids.current; "
    "sysctl net.ipv4.ip_local_port_range; free -g   # on the host named",
)
# Words of the messages, and what is used up then.
_KINDS = (
    ("too many open files", _FILES),
    ("emfile", _FILES),
    ("pthread_create", _THREADS),
    ("thread", _THREADS),
    ("assign requested address", _PORTS),
    ("alloc", _MEMORY),
)


def _what(ctx: Context) -> tuple[str, str]:
    """What is used up, and where to look."""
    found = ctx.lines()
    texts = " ".join(t.lower() for t in found.rows["text"].drop_nulls().head(20).to_list()) if found is not None else ""
    return next((said for word, said in _KINDS if word in texts), _ANY)


def check(ctx: Context) -> Hits:
    """One finding for all lines."""
    title, next_step = _what(ctx)
    yield from ctx.report(title, next_step=next_step, quiet=Severity.WARNING)
