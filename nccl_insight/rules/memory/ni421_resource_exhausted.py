"""A resource of the host or process is used up.

What it finds
-------------
File descriptors (EMFILE), threads and processes (EAGAIN of pthread_create), ephemeral ports (EADDRNOTAVAIL on
connect), host memory (failed malloc).

Why it matters
--------------
NCCL needs sockets, threads and queue pairs for every communicator and peer; at a limit, init fails on that rank
and its peers see closed connections.

How it decides
--------------
The call and its errno decide.

What to do
----------
Raise the limit named, in the container or the systemd unit and not only in a shell.

False positives
---------------
None known.

References
----------
accept(2), pthread_create(3), connect(2); NCCL troubleshooting guide, runtime.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report, trouble
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.CONFIG
NEEDS = ("errors",)
CAUSED_BY: tuple[str, ...] = ()


# Words of the messages, and what is used up then.
_KINDS = (
    ("too many open files", "Open files of the process are used up (ulimit -n)"),
    ("emfile", "Open files of the process are used up (ulimit -n)"),
    ("pthread_create", "No further thread can be started (ulimit -u, or the pids limit of the container)"),
    ("thread", "No further thread can be started (ulimit -u, or the pids limit of the container)"),
    ("assign requested address", "The local ports of the host are used up"),
    ("alloc", "The host has no memory left for NCCL"),
)


def _what(run: Run) -> str:
    found = trouble(run, "resource-exhausted")
    texts = (
        " ".join(t.lower() for t in found.rows["text"].drop_nulls().head(20).to_list())
        if found is not None
        else ""
    )
    return next((said for word, said in _KINDS if word in texts), "A resource of the process is used up")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "resource-exhausted",
        _what(run),
        "ulimit -n -u; ls /proc/<pid>/fd | wc -l; cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids.current; "
        "sysctl net.ipv4.ip_local_port_range; free -g   # on the host named",
        explanation="Too many open files: ulimit -n (many communicators, each with sockets and queue pairs). "
        "pthread_create: ulimit -u or the pids limit of the cgroup. Cannot assign requested address "
        "on connect: the ephemeral ports are used up. Failed malloc: host memory.",
        expected="the limits cover what the job opens",
        quiet=Severity.WARNING,
    )
