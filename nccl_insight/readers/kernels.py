"""What a GPU kernel or collective name says: compute or communication, library, operation, algorithm, element type.

Names of communication kernels are a language, ``grammars/kernels.lark``. A kernel that no rule knows is compute,
unless the configuration names it as communication or its own name says a collective (``allGatherKernel``). The name of
an NCCL kernel is the compiled entry point, which dispatches inside: "RING_LL" and "Sum" in it do not tell what ran.
Only the tree entry and the symmetric-memory kernels name their algorithm truly.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Final

from nccl_insight.base import texts, toml
from nccl_insight.base.data import dataclass
from nccl_insight.base.words import pairs
from nccl_insight.language.catalog import Catalog
from nccl_insight.language.load import kernel_grammar

COMPUTE: Final = 0
COMM: Final = 1
MEMCPY: Final = 2
MEMSET: Final = 3
OTHER: Final = 4
"""Communication by something else than NCCL or RCCL: custom all-reduce, DeepEP, NVSHMEM, user buffers."""

_RE: Final = texts.compiled(__file__)
_LONGEST_NAME: Final = 4000
_OPS: Final = pairs("""alltoall=AllToAll alltoallv=AllToAllv alltoallpivot=AllToAll sendrecv=SendRecv
    allreduce=AllReduce allgather=AllGather reducescatter=ReduceScatter gather=Gather broadcast=Broadcast
    reduce=Reduce scatter=Scatter""")
_COLLECTIVES: Final = {name: op for op, names in toml.beside(__file__)["collectives"].items() for name in names}


@dataclass(frozen=True)
class KernelName:
    """What a name tells; ``None`` where it tells nothing."""

    kind: int
    op: str | None = None
    dtype: str | None = None
    algorithm: str | None = None
    protocol: str | None = None
    library: str | None = None


@lru_cache(maxsize=65536)
def classify(name: str, communication: tuple[str, ...] = ()) -> KernelName:
    """Kind of a kernel and, for communication kernels, what its name tells.

    Args:
        name: as a profiler writes it, demangled or mangled.
        communication: regular expressions of the configuration; kernels in whose name one is found communicate.
    """
    function = function_path(name)
    for path in _suffixes(function):
        found = _catalog().match(path)
        if found is None:
            continue
        known = found.message.constants
        if known.get("kind") == "nccl":
            return _nccl(name)
        return KernelName(OTHER, known.get("op", "Other"), library=known.get("library"))
    if _RE["library"].search(name[:400]):
        return _nccl(name)
    if any(re.search(pattern, name[:_LONGEST_NAME]) for pattern in communication):
        return KernelName(OTHER, "Other", library="configured")
    own = function.rpartition("::")[2]
    named = _RE["collective"].search(own)
    if named and not _RE["no_collective"].search(own):
        return KernelName(OTHER, named.lastgroup)
    return KernelName(COMPUTE)


@cache
def _catalog() -> Catalog:
    return Catalog(kernel_grammar())


def _suffixes(path: str) -> Iterator[str]:
    """The path, then without its leading namespaces one after the other."""
    while path:
        yield path
        path = path.partition("::")[2]


def function_path(name: str) -> str:
    """A kernel's namespaces and name: ``void a::b<int>(int*)`` and ``_ZN1a1bIiEEvPi`` are ``a::b``."""
    name = name[:_LONGEST_NAME].strip().removesuffix(".kd")
    if name.startswith("_Z"):
        return _demangled_path(name)
    name = name.replace("(anonymous namespace)::", "")
    if "<" in name:
        name = _without_template_arguments(name)
    found = _RE["path"].search(name.split("(", 1)[0].rstrip())
    return found[0] if found else ""


def _without_template_arguments(name: str) -> str:
    kept: list[str] = []
    depth = 0
    for piece in re.split(r"([<>])", name.replace("->", "  ")):
        if piece == "<":
            depth += 1
        elif piece == ">":
            depth = max(0, depth - 1)
        elif depth == 0:
            kept.append(piece)
            if "(" in piece:
                break
    return "".join(kept)


def _demangled_path(name: str) -> str:
    """The nested name at the beginning of an Itanium-mangled name; other parts of it are not looked at."""
    at = 2
    parts: list[str] = []
    nested = name[at : at + 1] == "N"
    at += nested
    while at < len(name):
        if name[at] in "KLrV" and not parts:  # qualifiers and internal linkage
            at += 1
            continue
        length = re.compile(r"[0-9]{1,4}").match(name, at)
        if length is None:
            break
        begin = length.end()
        at = begin + int(length[0])
        part = name[begin:at]
        if not part.startswith("_GLOBAL__N"):
            parts.append(part)
        if not nested:
            break
        if name[at : at + 1] == "I":
            break
    return "::".join(parts)


def _nccl(name: str) -> KernelName:
    stem = name.split("(", 1)[0]
    found = _RE["nccl_op"].search(stem)
    op = _OPS.get(found[1].lower()) if found else None
    typed = _RE["type"].search(stem)
    dtype = typed[1] if typed and op in ("AllReduce", "Reduce", "ReduceScatter") else None
    symmetric = _RE["symk"].match(stem)
    if symmetric:
        return KernelName(COMM, op, dtype, symmetric[2].split("_", 1)[0])
    return KernelName(COMM, op, dtype, "Tree" if "_TREE_" in stem else None)


def collective_op(name: str | None) -> str | None:
    """Operation of a framework's collective name: ``_allgather_base``, ``nccl:all_reduce``, ``gloo:send 0->1``."""
    if not name:
        return None
    bare = name.rsplit(":", 1)[-1].split(" ", 1)[0]
    return _COLLECTIVES.get(re.sub(r"[^a-z]", "", bare.lower()))
