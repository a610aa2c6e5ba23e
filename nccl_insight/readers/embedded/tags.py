"""What a launcher, collector or service puts in front of a process's lines: its rank, local rank, number and host."""

from typing import Final

from nccl_insight.base import texts
from nccl_insight.base.data import dataclass
from nccl_insight.base.words import words

_RE: Final = texts.compiled(__file__)
# Patterns of a rank; of a host; and those so wide that they count for hosts that are known otherwise.
_RANK: Final = words("rank_in_brackets rank_named rank_mpi rank_srun rank_hydra rank_tensor_parallel rank_of_node")
_SURE: Final = words("host_syslog host_ip host_sagemaker host_ucx host_kubectl host_in_front")
_WIDE: Final = words("maybe_in_front maybe_compose maybe_syslog")


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
    pid = _RE["pid"].search(text)
    local = _RE["local"].search(text)
    return Tag(
        rank=next((int(m[1]) for n in _RANK if (m := _RE[n].search(text))), None),
        local_rank=int(local[1]) if local is not None else None,
        pid=int(pid[1] or pid[3]) if pid is not None else None,
        hosts=tuple(m[1] for n in _SURE if (m := _RE[n].search(text))),
        maybe=tuple(m[1] for n in _WIDE if (m := _RE[n].search(text))),
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
