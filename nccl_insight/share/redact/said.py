"""What programs beside NCCL say around a name: a host after words of place, a user after ``by`` and ``for user``.

Names are learned here from lines of schedulers, launchers, daemons, fabrics, file systems and version control, and
then replaced wherever they stand. Behind a plain word of place (``on``, ``from``, ``to``) only a word that looks like
a host counts: letters and a number, where the letters are no part of a machine, a program or a training.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from nccl_insight.base import texts
from nccl_insight.share.redact.loose import loosened
from nccl_insight.share.redact.patterns import PUBLIC_OWNERS
from nccl_insight.share.redact.shapes import as_series

_PATTERNS: Final = texts.patterns(__file__)
_RE: Final = texts.compiled(__file__)


_ENVIRONMENTS: Final = frozenset({"base", "env", "envs", "conda", "venv", "py"})

# Lines where one of the patterns can match.
_WANTED: Final = loosened(
    (_RE["prompt"], _RE["hosts"], _RE["lists"], _RE["users"], _RE["jobs"], _RE["kubectl"], _RE["pairs"])
)
_NCCL: Final = _PATTERNS["nccl"]


def numbered_part(name: str) -> bool:
    """Whether a word is a part of a machine, a program or a training and its number: ``rank3``, ``gpu07``."""
    return _RE["numbered_part"].fullmatch(name) is not None


def others(lines: Sequence[str]) -> list[str]:
    """Lines that NCCL did not print, each once: its own say "set by environment to LL128" and name hosts elsewhere."""
    series = as_series(lines)
    return list(dict.fromkeys(series.filter((~series.str.contains(_NCCL)).fill_null(value=False))))


def names(lines: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Kind (``host``, ``series``, ``user`` or ``job``), name, and the numbers of a series.

    Args:
        lines: lines of other programs, none of them long.
    """
    series = as_series(lines).str.strip_chars_end("\r\n")
    for line in series.filter(series.str.contains(_WANTED).fill_null(value=False)):
        for kind, pattern in (
            ("host", _RE["hosts"]),
            ("user", _RE["users"]),
            ("job", _RE["jobs"]),
            ("job", _RE["kubectl"]),
        ):
            for match in pattern.finditer(line):
                name = match[match.lastindex or 0].rstrip(".-")
                if kind != "job" or name.lower() not in _ENVIRONMENTS:
                    yield kind, name, ""
        for match in _RE["lists"].finditer(line):
            yield from _listed(match[1])
        prompt = _RE["prompt"].match(line) if "@" in line else None
        for kind, found in zip(("job", "user", "host"), prompt.groups() if prompt else (), strict=False):
            if found and found.lower() not in _ENVIRONMENTS:
                yield kind, found, ""
        for match in _RE["pairs"].finditer(line):
            found = [group for group in match.groups() if group]
            if found[0].lower() not in PUBLIC_OWNERS:
                yield from (("job", name.rstrip(".-"), "") for name in found)


def _listed(text: str) -> Iterator[tuple[str, str, str]]:
    for match in _RE["of_list"].finditer(text):
        if match[1]:
            yield "series", match[1], match[2]
        elif match[3] and _RE["alone"].fullmatch(match[3]):
            yield "host", match[3], ""
        elif match[4] and len(text) > len(match[0]):
            yield "host", match[4], ""
