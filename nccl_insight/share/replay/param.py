"""The mix as a trace for the communication replay of PARAM (``comm_replay`` of facebookresearch/param).

One JSON list: the process groups first, then one entry for each collective, blocking, in the mix's weights. Sizes
are in elements: ``in_msg_size`` and ``out_msg_size`` of one rank.
"""

from collections.abc import Iterator
from typing import Any, Final

from nccl_insight.base.bandwidth import dtype_size
from nccl_insight.base.objects import json_text
from nccl_insight.base.words import pairs
from nccl_insight.share.replay.groups import Shape
from nccl_insight.share.replay.mix import Mix, Pattern

_NAMES: Final = pairs("""AllReduce=all_reduce AllGather=all_gather ReduceScatter=reduce_scatter Broadcast=broadcast
    Reduce=reduce AllToAll=all_to_all Gather=gather Scatter=scatter Barrier=barrier""")
_DTYPES: Final = {1: "Byte", 2: "Half", 4: "Float", 8: "Double"}
_ENTRIES: Final = 20_000


def render_param(mix: Mix) -> str:
    """The trace, of about 20,000 entries at most. Sends and unknown types are left out."""
    able = [p for p in mix.patterns if p.op in _NAMES and p.size_bytes > 0 and dtype_size(p.dtype) is not None]
    groups: dict[tuple[Shape, int], int] = {}
    entries: list[dict[str, Any]] = []
    rounds = {id(p): max(1, round(p.calls / p.shape.groups)) for p in able}
    scale = max(1.0, sum(rounds[id(p)] * p.shape.groups for p in able) / _ENTRIES)
    for pattern in able:
        for index, ranks in enumerate(_members(pattern.shape)):
            number = groups.setdefault((pattern.shape, index), len(groups))
            for _ in range(max(1, round(rounds[id(pattern)] / scale))):
                entries.append(_entry(pattern, number, ranks, len(entries)))
    init = [
        {"comms": "init", "pg_id": number, "world_size": shape.nranks, "global_ranks": list(_members(shape))[index]}
        for (shape, index), number in groups.items()
    ]
    return json_text([*init, *entries])


def _members(shape: Shape) -> Iterator[list[int]]:
    """Global ranks of each group: blocks, strides, or the first ranks."""
    kind, _, step = shape.split.partition(" ")
    for index in range(shape.groups):
        if kind == "MOD":
            yield list(range(index, shape.world, int(step)))[: shape.nranks]
        elif kind == "DIV":
            yield list(range(index * shape.nranks, (index + 1) * shape.nranks))
        else:
            yield list(range(shape.nranks))


def _entry(pattern: Pattern, group: int, ranks: list[int], request: int) -> dict[str, Any]:
    element = dtype_size(pattern.dtype) or 1
    whole = max(1, pattern.size_bytes // element)
    share = max(1, whole // pattern.shape.nranks)
    sizes = {"AllGather": (share, whole), "ReduceScatter": (whole, share)}.get(pattern.op, (whole, whole))
    call = {"comms": _NAMES[pattern.op], "req": request, "pg_id": group, "world_size": pattern.shape.nranks}
    size = {"in_msg_size": sizes[0], "out_msg_size": sizes[1], "dtype": _dtype(pattern.dtype, element)}
    entry: dict[str, Any] = {**call, "global_ranks": ranks, **size}
    if pattern.root is not None:
        entry["root"] = pattern.root
    return entry


def _dtype(name: str | None, element: int) -> str:
    lowered = (name or "").lower()
    if "bfloat16" in lowered:
        return "BFloat16"
    if "int" in lowered or "long" in lowered:
        return {1: "Byte", 4: "Int", 8: "Long"}.get(element, "Int")
    return _DTYPES.get(element, "Float")
