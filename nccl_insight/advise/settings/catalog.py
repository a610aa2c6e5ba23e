"""The catalog of environment variables: what exists, since when, with which values.

Read from ``env_vars.toml`` beside this module, which names its sources. Covers NCCL, RCCL, the OFI, SHARP
and libfabric plugins and PyTorch's NCCL backend.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from nccl_insight.base import late, toml
from nccl_insight.base.data import dataclass
from nccl_insight.base.errors import InsightError

PREFIXES = ("NCCL_", "RCCL_", "OFI_NCCL_", "TORCH_NCCL_", "FI_EFA_")
_LONGEST_PREFIX = 13


@dataclass(frozen=True)
class Variable:
    """One variable. Versions are NCCL releases (of the plugin for plugin variables); None = unknown or open.

    ``type``: bool and int are read with ``strtoll`` (text that is no number counts as 0); ``bool01`` and
    ``boolword`` also take words; ``enum``, ``set`` (comma list), ``level`` (path type), ``algo``, ``proto``,
    ``ctapolicy``, ``ifname``, ``hca``, ``hostport``, ``path``, ``float`` and ``string``.
    """

    name: str
    library: str
    group: str
    type: str
    source: str
    values: tuple[str, ...] = ()
    case_sensitive: bool = False
    min: int | None = None
    max: int | None = None
    default: str | None = None
    default_history: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    deprecated: str | None = None
    deprecated_any: bool = False
    removed: str | None = None
    replaced_by: str | None = None
    also: str | None = None
    tuning: bool = False
    advice: str = ""
    note: str = ""


@dataclass(frozen=True)
class Catalog:
    """All variables by name, and what else may be called ``NCCL_...`` without being a setting."""

    variables: Mapping[str, Variable]
    families: Mapping[str, str]
    script_names: frozenset[str]
    myths: Mapping[str, str]
    sources: Mapping[str, str]
    latest: str

    def get(self, name: str) -> Variable | None:
        """The variable, or None when it is not listed."""
        return self.variables.get(name)

    def family(self, name: str) -> str | None:
        """The plugin or tool whose settings start like this, when they are not listed one by one."""
        return next((text for prefix, text in self.families.items() if name.startswith(prefix)), None)

    def relevant(self, name: str) -> bool:
        """Whether a variable of this name is our business (its prefix, or a misspelling of it): no script's own."""
        if name in self.script_names:
            return False
        known = name.upper() in self.variables
        return known or name.startswith(PREFIXES) or self.misspelt_prefix(name) is not None

    def known(self, name: str) -> bool:
        """Whether something reads the name, or nobody expects it to be read."""
        if name in self.variables or name in self.script_names:
            return True
        return self.family(name) is not None and self.slip(name) is None

    def slip(self, name: str) -> str | None:
        """The listed variable that an unlisted name of a family is one letter, or one swap, away from.

        Names that differ in a digit are other settings of the same plugin, not slips.
        """
        prefix = next((p for p in self.families if name.startswith(p)), None)
        if prefix is None or name in self.variables or any(c.isdigit() for c in name):
            return None
        near = (c for c in self.variables if c.startswith(prefix) and edit_distance(name, c, 1) == 1)
        return next((c for c in near if not any(letter.isdigit() for letter in c)), None)

    def misspelt_prefix(self, name: str) -> str | None:
        """``NCLL_DEBUG`` -> ``NCCL_DEBUG``: only where the rest of the name is exactly right."""
        for mark in re.finditer("_", "" if name.startswith(PREFIXES) or self.family(name) else name[:_LONGEST_PREFIX]):
            head, rest = name[: mark.start()], name[mark.end() :]
            near = (p for p in PREFIXES if "CCL" in p and p + rest in self.variables)
            # HCCL, MCCL and the like are other libraries, and RCCL is none of NCCL's slips.
            slips = (p for p in near if head == p[1:-1] or (p[0] == head[:1] and edit_distance(head, p[:-1], 1) == 1))
            if found := next(slips, None):
                return found + rest
        return None

    def nearest(self, name: str) -> str | None:
        """The variable most likely meant: same words in another order, or few letters apart."""
        fixed = self.misspelt_prefix(name)
        if fixed is not None:
            return fixed
        upper = name.upper()
        if upper in self.variables:
            return upper
        if f"TORCH_{upper}" in self.variables:
            return f"TORCH_{upper}"
        words = sorted(upper.split("_"))
        for candidate in self.variables:
            if sorted(candidate.split("_")) == words:
                return candidate
        allowed = 1 if len(upper) < 12 else 2
        best: tuple[int, int, str] | None = None
        for candidate, variable in self.variables.items():
            if abs(len(candidate) - len(upper)) > allowed:
                continue
            distance = edit_distance(upper, candidate, allowed)
            rank = (distance, variable.group == "internal", candidate)
            if distance <= allowed and (best is None or rank < best):
                best = rank
        if best is not None:
            return best[2]
        longer = [c for c in self.variables if len(c) >= 14 and upper.startswith(c) and len(upper) - len(c) <= 4]
        return max(longer, key=len) if longer else self._other_word(upper.split("_"))

    def _other_word(self, words: list[str]) -> str | None:
        """The one variable that differs in a single word, shortened or drawn out: ``CONN`` for ``CONNECTION``."""
        found = [
            candidate
            for candidate in self.variables
            if len(words) >= 3
            and len(other := candidate.split("_")) == len(words)
            and len(pairs := [(a, b) for a, b in zip(words, other, strict=True) if a != b]) == 1
            and _same_beginning(*pairs[0])
        ]
        return found[0] if len(found) == 1 else None


def _same_beginning(word: str, meant: str) -> bool:
    if len(word) >= 4 and meant.startswith(word):
        return True
    return len(meant) >= 5 and word[:5] == meant[:5] and edit_distance(word, meant, 3) <= 3


def edit_distance(left: str, right: str, limit: int) -> int:
    """Insertions, deletions, replacements and swaps of neighbours; ``limit + 1`` when there are more."""
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    before: list[int] = []
    previous = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        current = [i]
        for j, b in enumerate(right, 1):
            cost = min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            current.append(cost)
        if min(current) > limit:
            return limit + 1
        before, previous = previous, current
    return previous[-1]


def _variable(name: str, fields: Mapping[str, Any]) -> Variable:
    plain = dict(fields)
    for key in ("values", "default_history"):
        plain[key] = tuple(plain.get(key, ()))
    return Variable(name=name, **plain)


@cache
def catalog() -> Catalog:
    """The catalog that ships with the package. Raises InsightError: the data file is missing or damaged."""
    try:
        data = toml.read(Path(__file__).with_name("env_vars.toml"))
        fields = data["variables"]
        return Catalog(
            variables=late.OnDemand(fields, lambda name: _variable(name, fields[name])),
            families=data["families"],
            script_names=frozenset(data["script"]["names"]),
            myths=data["myths"],
            sources=data["sources"],
            latest=data["meta"]["nccl_latest"],
        )
    except (OSError, KeyError, TypeError, toml.TOMLDecodeError) as error:
        raise InsightError(f"advise/settings/env_vars.toml of this installation cannot be used: {error}") from error
