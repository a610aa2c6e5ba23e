"""Rows of tables that schedulers and systems print: which column names a user, a group, a job or a host.

No word of such a row says what it is, the columns do: ``squeue``, ``sacct``, ``qstat``, ``ls -l``, ``ps``, ``top``,
``lsof`` and ``docker ps``, in the forms that they print by default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from nccl_insight.redact.patterns import PUBLIC_OWNERS
from nccl_insight.redact.shapes import as_series

# A row begins like this; for Rust's engine, which looks at all lines of a log.
_BEGINS: Final = (
    r"^(?:[ \t]{0,20}[0-9]{2,12}[_.\[ \t]|[-dlbcps][r-][w-][xsS-]"
    r"|[a-z_][a-z0-9_.-]{0,31}\$?[ \t]+[0-9]+[ \t]+(?:[0-9]+\.[0-9]|[a-z_])"
    r"|[\w./-]{1,32}[ \t]+[0-9]+[ \t]+[a-z_][\w.-]*[ \t]|[0-9a-f]{12}[ \t])"
)
_NAME: Final = r"[A-Za-z_][\w.-]{0,63}"
# Each with the kinds of its groups.
_ROWS: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = (
    (  # squeue: job, partition, name, user, state, time, nodes, list
        re.compile(
            rf"[ \t]{{0,20}}[0-9]{{2,12}}(?:_[0-9]{{1,9}}"
            rf"|_\[[0-9,%-]{{1,40}}\])?"
            rf"[ \t]+\S{{1,64}}[ \t]+(\S{{1,64}})[ \t]+({_NAME})[ \t]+"
            r"(?:PD|R|CG|CD|CF|CA|F|TO|NF|OOM|PR|S|ST|RD|RQ|RS|SE|SO)[ \t]+[0-9:-]{1,20}[ \t]+[0-9]{1,6}[ \t]"
        ),
        ("job", "user"),
    ),
    (  # sacct: job, name, partition, account, processors, state, exit code
        re.compile(
            rf"[0-9]{{2,12}}(?:[._]\S{{1,20}})?"
            rf"[ \t]+(\S{{1,64}})[ \t]+\S{{1,64}}[ \t]+({_NAME})[ \t]+[0-9]{{1,7}}[ \t]+[A-Z_]{{4,20}}\+?"
            r"[ \t]+[0-9]{1,3}:[0-9]{1,3}[ \t]*$"
        ),
        ("job", "job"),
    ),
    (  # qstat: number.server, name, user, time, state, queue
        re.compile(
            rf"[ \t]{{0,20}}[0-9]{{2,12}}(?:\[[0-9]{{0,9}}\])?\.([A-Za-z][\w.-]{{0,253}})"
            rf"[ \t]+(\S{{1,64}})[ \t]+({_NAME})[ \t]+[0-9:]{{1,20}}[ \t]+"
            r"[A-Z][ \t]+\S"
        ),
        ("host", "job", "user"),
    ),
    (  # ls -l: mode, links, user, group, size
        re.compile(rf"[-dlbcps][rwxsStT-]{{9}}[.+@]?[ \t]+[0-9]{{1,9}}[ \t]+({_NAME})[ \t]+({_NAME})[ \t]+[0-9]"),
        ("user", "job"),
    ),
    (  # ps aux: user, pid, shares of processor and memory
        re.compile(rf"({_NAME})\+?[ \t]+[0-9]{{1,10}}[ \t]+[0-9]{{1,6}}\.[0-9][ \t]+[0-9]{{1,3}}\.[0-9][ \t]"),
        ("user",),
    ),
    (  # top: pid, user, priority, niceness, three sizes, state
        re.compile(
            rf"[ \t]{{0,20}}[0-9]{{1,10}}[ \t]+({_NAME})\+?[ \t]+(?:rt"
            rf"|-?[0-9]{{1,3}})[ \t]+-?[0-9]{{1,3}}[ \t]+(?:[0-9.]{{1,12}}[kmgtp]?[ \t]+){{2,3}}"
            r"[DRSTZI][ \t]"
        ),
        ("user",),
    ),
    (  # lsof: command, pid, user, descriptor, type
        re.compile(
            rf"\S{{1,32}}[ \t]+[0-9]{{1,10}}[ \t]+({_NAME})[ \t]+(?:cwd|rtd|txt|mem|DEL"
            rf"|[0-9]{{1,6}}[rwu]?)[ \t]+(?:REG|DIR|CHR|FIFO|unix|IPv[46]|sock|a_inode)"
        ),
        ("user",),
    ),
    (  # docker ps: container, image, "command", ... name
        re.compile(
            r"[0-9a-f]{12}[ \t]+(?:([a-z0-9][\w.-]{0,63})/)?\S{1,255}[ \t]+\"[^\"\n]{0,80}\"[ \t]+"
            r"[^\n]{1,200}[ \t](\S{1,128})[ \t]*$"
        ),
        ("job", "job"),
    ),
)  # fmt: skip
# Users and groups of every system.
_EVERYWHERE: Final = frozenset({
    "root", "daemon", "nobody", "nogroup", "messagebus", "syslog", "systemd", "dbus", "munge", "slurm", "nvidia",
    "chrony",
    "polkitd", "rpc", "rpcuser", "sshd", "ntp", "postfix", "wheel", "sudo", "adm", "tty", "video", "render",
    "dialout", "users",
    "staff", "bash", "sh", "batch", "extern", "interactive", "wrap", "python", "python3", "user", "name",
})  # fmt: skip


def names(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Kind (``user``, ``job`` or ``host``) and name of what stands in rows of tables, in order."""
    series = as_series(lines)
    for line in series.filter(series.str.contains(_BEGINS)):
        row = line.rstrip("\r\n")
        for pattern, kinds in _ROWS:
            match = pattern.match(row)
            if match:
                for kind, name in zip(kinds, match.groups(), strict=True):
                    if name and name.lower() not in _EVERYWHERE | PUBLIC_OWNERS and not name.isdigit():
                        yield kind, name
                break
