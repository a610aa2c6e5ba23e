"""What a check reports, and how NCCL reads a number."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from nccl_insight.advise.settings.catalog import catalog
from nccl_insight.base import texts
from nccl_insight.base.data import dataclass, fields
from nccl_insight.base.model import Severity

NUMBER = re.compile(r"[ \t]*[+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+)")


@dataclass(frozen=True)
class Issue:
    """Something worth saying about a setting. ``name`` is that of a diagnosis or of a lint check.

    ``left``: the collectives, in lower case, that the setting leaves without an algorithm.
    """

    name: str
    severity: Severity
    variable: str
    title: str
    next_step: str
    explanation: str = ""
    observed: str = ""
    expected: str = ""
    source: str = ""
    others: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


_WORDS: Final = Path(__file__).with_name("issues.txt")
_FIELDS: Final = {field.name for field in fields(Issue)} - {"name", "variable"}


def issue_of(key: str, variable: str = "", /, of: str = "", **given: Any) -> Issue:
    """An issue in the words that ``issues.txt`` has under a key, with these values; its fields are as given here.

    ``variable``: ``{name}`` in the text, whose source may be ``catalog``. ``of``: the diagnosis or check, where the
    text has several.
    """
    said = texts.fields(texts.of_file(_WORDS)[key], {"name": variable} | given, _FIELDS)
    own = {"name": of, "variable": variable} | said
    if isinstance(own.get("others"), str):
        own["others"] = tuple(own["others"].split())
    if own.get("source") == "catalog":
        own["source"] = source_of(variable)
    return Issue(**(own | {"severity": Severity(own["severity"])}))


def as_number(value: str) -> int:
    """The number that NCCL gets from the text: what ``strtoll`` with base 0 reads, 0 for no number."""
    match = NUMBER.match(value)
    if match is None:
        return 0
    text = match[0].strip()
    sign, digits = (-1 if text.startswith("-") else 1), text.lstrip("+-")
    if digits[:2].lower() == "0x":
        return sign * int(digits, 16)
    if len(digits) > 1 and digits[0] == "0":
        octal = re.match(r"0[0-7]*", digits)
        return sign * int(octal[0] if octal else "0", 8)
    return sign * int(digits)


def switched_on(settings: Mapping[str, str], name: str) -> bool:
    """Whether a 0/1 setting is there and not zero, as NCCL reads it."""
    return bool(settings.get(name, "").strip()) and as_number(settings[name]) != 0


def switched_off(settings: Mapping[str, str], name: str) -> bool:
    """Whether a 0/1 setting is there and zero, as NCCL reads it."""
    return bool(settings.get(name, "").strip()) and as_number(settings[name]) == 0


def source_of(name: str) -> str:
    """The document or source that the facts about a variable come from."""
    variable = catalog().get(name)
    return catalog().sources.get(variable.source, "") if variable else ""
