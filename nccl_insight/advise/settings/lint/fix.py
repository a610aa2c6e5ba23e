"""Corrects names and values in a file, where only one meaning is possible; the rest is left to people."""

import re
from collections.abc import Iterator
from typing import Final

from nccl_insight.advise.settings.catalog import catalog, edit_distance
from nccl_insight.advise.settings.check import as_number, check_value
from nccl_insight.advise.settings.lint.check import lint_text
from nccl_insight.advise.settings.lint.model import LintResult
from nccl_insight.base.model import Severity
from nccl_insight.base.natures import called

_WORDS: Final = {"true": "1", "yes": "1", "on": "1", "false": "0", "no": "0", "off": "0"}
_UNITS: Final = re.compile(r"(?i)([0-9]{1,9})([kmg])i?b?")
_MOST: Final = 200  # readings of a file


def fix_text(path: str, text: str, version: str | None = None, kind: str | None = None) -> str:
    """The text with the corrections that are certain: each has to take a finding away, and bring none."""
    result, left = lint_text(path, text, version, kind), _MOST
    changes = _changes(result, text) if "\ufffd" not in text else iter(())  # bytes that are no UTF-8 would be lost
    while left and (changed := next(changes, None)) is not None:
        left -= 1
        after = lint_text(path, changed, version, kind)
        if _loud(after) < _loud(result):
            text, result = changed, after
            changes = _changes(result, text)
    return text


def _loud(result: LintResult) -> int:
    return result.count(Severity.ERROR) + result.count(Severity.WARNING)


def _changes(result: LintResult, text: str) -> Iterator[str]:
    """Texts with one correction each."""
    rows = text.split("\n")
    settings = {(s.line, s.name): s.value for s in result.settings if s.complete}
    for finding in result.findings:
        issue, line = finding.issue, finding.line
        if issue.name == called("unknown-setting") and (meant := right_name(issue.variable)) is not None:
            yield re.sub(rf"(?<!\w){re.escape(issue.variable)}(?!\w)", meant, text)
        value = settings.get((line, issue.variable))
        if issue.name != called("bad-value") or value is None or not 0 < line <= len(rows):
            continue
        quoted = issue.expected == f'"{issue.observed}"'  # not a value is wrong, but its type
        right = issue.expected if quoted else right_value(issue.variable, value)
        found = list(_place(issue.variable, value).finditer(rows[line - 1]))
        if right is not None and len(found) == 1:
            start, end = found[0].span(1)
            fixed = f"{rows[line - 1][:start]}{right}{rows[line - 1][end:]}"
            yield "\n".join([*rows[: line - 1], fixed, *rows[line:]])


def _place(name: str, value: str) -> re.Pattern[str]:
    """A value where it is written: behind its name, or alone behind ``value:``."""
    before = rf"(?:(?<!\w){re.escape(name)}|\b[Vv]alue)[\"'\])}}]{{0,3}}[\s=:,>]{{1,9}}?[\"']?"
    return re.compile(rf"{before}({re.escape(value)})(?![\w.*,])")


def right_name(name: str) -> str | None:
    """The setting that a name stands for: one letter, one swap or its case away from this one and no other."""
    data = catalog()
    meant = data.misspelt_prefix(name) or (name.upper() if name.upper() in data.variables else None)
    near = [meant] if meant else [known for known in data.variables if edit_distance(name, known, 1) == 1]
    return near[0] if len(near) == 1 and name not in data.myths else None


def right_value(name: str, value: str) -> str | None:
    """What a value was meant to be, in the form that NCCL reads."""
    variable, bare = catalog().get(name), value.strip()
    unit = _UNITS.fullmatch(bare)
    candidates = [
        bare,
        bare.strip("\"'"),
        bare.upper() if variable is not None and variable.type == "level" else "",
        _WORDS.get(bare.lower(), "") if variable is not None and variable.type == "bool" else "",
        str(as_number(unit[1]) << 10 * (1 + "kmg".index(unit[2].lower()))) if unit else "",
        bare[:-1] if re.fullmatch(r"[\^=]?\w+\*", bare) else "",
    ]
    return next((c for c in candidates if c and c != value and check_value(name, c) is None), None)
