"""What the metadata of a Kineto trace tells about one collective: ``record_param_comms``, kernels, annotations."""

from __future__ import annotations

import math
from typing import Any, Final

from nccl_insight.base.data import dataclass
from nccl_insight.readers.chrome import Event

_OVERFLOW: Final = 1 << 32
_MOST_ELEMENTS: Final = 1 << 48
_MOST_RANKS: Final = 1 << 17


def integer(value: object) -> int | None:
    """A whole number of at most 64 bits, also as text, else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if -(1 << 63) <= value < (1 << 63) else None
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal() and len(value) < 20:
        return int(value)
    return None


def small_int(value: object) -> int | None:
    """A non-negative number of at most 31 bits (ranks, group sizes), else None."""
    number = integer(value)
    return number if number is not None and 0 <= number < 1 << 31 else None


def _count(value: object) -> int | None:
    """Number of elements; old torch counts in 32 bits, so a negative one has wrapped around once."""
    number = integer(value)
    if number is None or not -_OVERFLOW < number < _MOST_ELEMENTS:
        return None
    return number + _OVERFLOW if number < 0 else number


@dataclass
class Meta:
    """What is known about one collective beside its time."""

    name: str | None = None
    in_elements: int | None = None
    out_elements: int | None = None
    dtype: str | None = None
    group_size: int | None = None
    process_group: str | None = None
    group_ranks: object = None
    seq: int | None = None
    group_rank: int | None = None
    peer: int | None = None
    comms_id: str | None = None
    rank: int | None = None
    in_split: str | None = None

    @staticmethod
    def of(args: dict[str, Any]) -> Meta | None:
        """From the args of a kernel or of ``record_param_comms``; None when they describe no collective."""
        name = args.get("Collective name")
        if not isinstance(name, str) or not name:
            return None
        group, dtype = args.get("Process Group Name"), args.get("dtype")
        number = args.get("Comms Id")
        to = "send" in name.lower()
        return Meta(
            name,
            _count(args.get("In msg nelems")),
            _count(args.get("Out msg nelems")),
            dtype if isinstance(dtype, str) else None,
            small_int(args.get("Group size")),
            str(group) if isinstance(group, (str, int)) else None,
            _members(args),
            integer(args.get("Seq")),
            small_int(args.get("Rank")),
            small_int(args.get("Dst Rank" if to else "Src Rank")),
            str(number) if isinstance(number, (int, str)) and not isinstance(number, bool) else None,
            small_int(args.get("Src Rank" if to else "Dst Rank")),
            _text(args.get("In split size")),
        )

    @staticmethod
    def of_range(event: Event) -> Meta:
        """From an annotation such as ``nccl:all_reduce``, whose shapes tell the input of the collective."""
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        dims, types = args.get("Input Dims"), args.get("Input type")
        dtype = types[0] if isinstance(types, list) and types and isinstance(types[0], str) else None
        return Meta(str(event["name"]), _elements(dims), None, _c_type(dtype))


def _members(args: dict[str, Any]) -> object:
    """The ranks of the group; where the list is cut ("0, 2, ..."), from start and stride."""
    listed = args.get("Process Group Ranks")
    start, stride = small_int(args.get("Global rank start")), small_int(args.get("Global rank stride"))
    size = small_int(args.get("Group size"))
    whole = isinstance(listed, list) or (isinstance(listed, str) and "..." not in listed)
    if whole or start is None or not stride or not size or size > _MOST_RANKS:
        return listed
    return list(range(start, start + stride * size, stride))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else str(value) if isinstance(value, list) else None


def _c_type(name: str | None) -> str | None:
    """Element types as torch prints C++ names: ``c10::BFloat16``, ``long int``, ``unsigned char``."""
    if not name:
        return None
    name = name.removeprefix("c10::").removesuffix(" int")
    return {"unsigned char": "uint8", "signed char": "int8", "unsigned long": "uint64"}.get(name, name)


def _elements(dims: object) -> int | None:
    """Elements of the first input: ``[[1000]]`` or, for a list of tensors, ``[[[10], [20]]]``."""
    if not isinstance(dims, list) or not dims or not isinstance(dims[0], list) or not dims[0]:
        return None
    shapes = dims[0] if isinstance(dims[0][0], list) else [dims[0]]
    total = 0
    for shape in shapes:
        if not all(isinstance(n, int) and 0 <= n < 1 << 40 for n in shape):
            return None
        total += math.prod(shape)
    return total if 0 < total < _MOST_ELEMENTS else None
