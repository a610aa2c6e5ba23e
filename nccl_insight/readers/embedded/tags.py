"""What a launcher, collector or service puts in front of a process's lines: its rank, local rank, number and host."""

import re
from typing import Final

from nccl_insight.base import late, texts
from nccl_insight.base.data import dataclass

_RE: Final = texts.compiled(__file__)
_RANK: Final = (
    late.compiled(r"\[rank ?:? ?([0-9]{1,7})\]"),
    late.compiled(r"\brank[= ]([0-9]{1,7})\b", re.I),
    # Open MPI, PRRTE: [1,5]<stderr>:, [prterun-n01-4400@1,5]<stderr>:
    late.compiled(r"\[(?:[\w.@-]+,)?([0-9]{1,7})\]<std"),
    late.compiled(r"^\s*([0-9]{1,7}):(?: |$)"),  # srun --label
    late.compiled(r"^\s*\[([0-9]{1,7})\](?: |$)"),  # Hydra, mpirun -prepend-rank
    late.compiled(r"TP([0-9]{1,4})\b(?! DP)"),
    late.compiled(r"\[[a-z]+[0-9]{1,7}\|([0-9]{1,7})\]:"),
)
_SYSLOG: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})? (\S+) "
_PID: Final = late.compiled(r"\bpid=([0-9]{1,9})|" + _SYSLOG + r"[A-Za-z][\w.@/-]*\[([0-9]{1,9})\]:")
_SURE: Final = (
    late.compiled(_SYSLOG + r"(?:kernel|systemd|earlyoom)\b"),
    late.compiled(r"\bip=([0-9A-Fa-f.:]+)"),
    # UCX and Open MPI: [host:pid  :0:tid] and [host:pid], where a container may be the host
    late.compiled(r"^[\s>]*\[([A-Za-z][\w.-]*|[0-9a-f]{12}):[0-9]+(?: *:[0-9]+:[0-9]+)?\]"),
    late.compiled(r"^[\s>]*\[pod/([a-z0-9][\w.-]*)/"),  # kubectl logs --prefix
    # pdsh and Docker Compose in front of a tag of torchrun
    late.compiled(r"^\s*([A-Za-z][\w-]*[0-9][\w.-]*)(?:: +| +\| ?)\[[a-z]+[0-9]{1,4}\]:"),
)
# So wide that they count for hosts that are known otherwise.
_WIDE: Final = (
    late.compiled(r"^[\s(\[]*([A-Za-z0-9][\w.-]*)\]?:(?:\s|$)"),
    late.compiled(r"^\s*([A-Za-z0-9][\w.-]*) +\|"),  # Docker Compose
    # syslog of any other program: May  4 14:20:01 gpu02 kubelet[900]:
    late.compiled(_SYSLOG + r"[A-Za-z][\w.@/-]*(?:\[[0-9]+\])?:"),
)


@dataclass(frozen=True)
class Tag:
    """What a tag says. ``hosts``: names that are a host's; ``maybe``: words that are one if the job has such a host."""

    rank: int | None = None
    local_rank: int | None = None
    pid: int | None = None
    hosts: tuple[str, ...] = ()
    maybe: tuple[str, ...] = ()


def read_tag(text: str | None) -> Tag:
    """What stands in front of a line."""
    if not text:
        return Tag()
    pid = _PID.search(text)
    local = _RE["local"].search(text)
    return Tag(
        rank=next((int(m[1]) for p in _RANK if (m := p.search(text))), None),
        local_rank=int(local[1]) if local is not None else None,
        pid=int(pid[1] or pid[3]) if pid is not None else None,
        hosts=tuple(m[1] for p in _SURE if (m := p.search(text))),
        maybe=tuple(m[1] for p in _WIDE if (m := p.search(text))),
    )


@dataclass(frozen=True)
class PathPlace:
    """What the path of a file says of the process that wrote it. ``numbers``: (template of the path, number) pairs."""

    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    numbers: tuple[tuple[str, int], ...] = ()


def read_path(path: str) -> PathPlace:
    """The rank, local rank and host that the last four names of a path state by their words."""
    parts = path.replace("\\", "/").split("/")[-4:]
    names = [_RE["endings"].sub("", part) for part in parts]
    rank = next((int(m[1]) for n in reversed(names) if (m := _RE["ranks"].search(n))), None)
    local = _RE["local_dir"].search("/".join(parts))
    host = next((n for n in reversed(names) if _RE["name"].match(n) and not _RE["no_host"].search(n)), None)
    return PathPlace(rank, int(local[1]) if local else None, host, _numbers(parts))


def _numbers(parts: list[str]) -> tuple[tuple[str, int], ...]:
    """Each number of the names, with all that stands around it: the same in the paths of the other processes."""
    text = "/".join(parts[-3:])
    return tuple(
        (f"{_RE['any'].sub('#', text[: m.start()])}<>{_RE['any'].sub('#', text[m.end() :])}", int(m[0]))
        for m in _RE["any"].finditer(text)
        if len(m[0]) <= 7
    )
