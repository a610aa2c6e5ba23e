"""Names behind keys that say what they are: ``cluster_name: x``, ``--entity x``, ``"experiment": "x"``, ``host='x'``.

Any program prints its settings like that, so the last word of a key decides (``general.experiment_name``,
``ray-cluster-name``, ``headNode``), not the program. Keys that settings of programs have, too (``service``, ``queue``,
``master``), count only before a value that looks like a name: with a number or a mark in it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from nccl_insight.base import late
from nccl_insight.share.redact.patterns import PUBLIC_OWNERS, RE, kinds_of, listed
from nccl_insight.share.redact.said import numbered_part
from nccl_insight.share.redact.shapes import as_series

_KINDS: Final = kinds_of("keys")
_WEAK: Final = kinds_of("weak_keys")
_NO_NAMES: Final = listed("no_names")
_LAST: Final = frozenset({"name", "id"})
# Rows of a model's or a profiler's own groups: no one is named by them.
_NOT_BEFORE: Final = frozenset({"process", "pg", "mesh", "param", "parameter", "layer", "module", "metric"})
_CAMEL: Final = late.compiled(r"(?<=[a-z0-9])(?=[A-Z])")
_SPLIT: Final = late.compiled(r"[._-]+")
_SHAPED: Final = late.compiled(r"[0-9_.-]")
_LETTER: Final = late.compiled(r"[A-Za-z]{2}")
# Words of keys before what ends a key, for Rust's engine.
_ENDS: Final = (
    r"(?i)(?:"
    + "|".join(sorted({key.rsplit("_", 1)[-1] for key in (*_KINDS, *_WEAK)}, key=len, reverse=True))
    + r")(?:[_-]?(?:name|id))?[\"'\\]{0,2}(?:[ \t]?[=:]|[ \t])"
)


def names(lines: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Kind (``host``, ``user`` or ``job``) and name, as :func:`nccl_insight.share.redact.said.names` gives them.

    Args:
        lines: lines of other programs, none of them long.
    """
    series = as_series(lines)
    for raw in series.filter(series.str.contains(_ENDS).fill_null(value=False)):
        for match in RE["pair"].finditer(raw.rstrip("\r\n")):
            last = match.lastindex or 0
            kind, name = _kind(match[last - 1], match[last]), match[last].rstrip(".-")
            if kind and _names(name):
                yield kind, name, ""


def _kind(key: str, value: str) -> str:
    """What a key says about its value, ``""`` when nothing."""
    parts = [part for part in _SPLIT.split(_CAMEL.sub("_", key).lower()) if part]
    while len(parts) > 1 and parts[-1] in _LAST and "_".join(parts[-2:]) not in (_KINDS | _WEAK):
        parts.pop()
    if not parts or _NOT_BEFORE.intersection(parts[:-1]):
        return ""
    for words in ("_".join(parts[-2:]), parts[-1]):
        if words in _KINDS:
            return _KINDS[words]
        if words in _WEAK and _SHAPED.search(value):
            return _WEAK[words]
    return ""


def _names(value: str) -> bool:
    folded = value.lower()
    return bool(_LETTER.search(value)) and not (
        folded in _NO_NAMES
        or folded in PUBLIC_OWNERS
        or RE["no_value"].fullmatch(value)
        or value.isupper()
        or numbered_part(value)
    )
