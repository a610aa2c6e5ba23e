"""What a text is by its form, where no reader knows it: a script, a table, a program's log."""

import csv
import json
import re
from typing import Final

from nccl_insight.base import texts

_RE: Final = texts.compiled(__file__)

_SAMPLE: Final = 200
_MOST: Final = 0.6


def form_of(head: bytes) -> str:
    """What the first bytes of a text look like; empty for nothing."""
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = [line for line in text.splitlines() if line.strip()][:_SAMPLE]
    if not lines:
        return ""
    first = lines[0].strip()
    if found := _by_first(first, text) or _by_lines(lines):
        return found
    loud = next((line[match.end() :] for line in reversed(lines) if (match := _RE["loud"].search(line))), "")
    return f'text that {"warns" if loud else "begins"} "{" ".join((loud or first).split())[:80]}"'


def _by_first(first: str, text: str) -> str:
    if match := re.match(r"#!\s*\S*?(?:env )?(python|bash|sh|zsh|perl)", first):
        return (
            "a Python script" if match[1] == "python" else "a Perl script" if match[1] == "perl" else "a shell script"
        )
    if first[:1] in "{[":
        keys = re.findall(r'"([A-Za-z_][\w.-]{0,40})"\s*:', text[:4000])
        if keys:
            return f"JSON with the keys {', '.join(dict.fromkeys(keys[:5]))}" + (", cut short" if _cut(text) else "")
    if match := re.match(r"<(?:\?xml[^>]*>\s*)?(?:!DOCTYPE[^>]*>\s*)?(?:<)?([A-Za-z_][\w:-]*)?", first):
        root = match[1] or next(iter(re.findall(r"<([A-Za-z_][\w:-]*)", text[:2000])), "")
        return f"HTML or XML (<{root}>)" if root else ""
    return "a Dockerfile" if re.match(r"FROM \S+", first) and "\nRUN " in text else ""


def _cut(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return len(text) < 1 << 16
    return False


def _share(lines: list[str], pattern: re.Pattern[str]) -> float:
    return sum(bool(pattern.match(line)) for line in lines) / len(lines)


def _csv(lines: list[str]) -> str:
    header = next(csv.reader([lines[0]]), [])
    wide = len(lines) > 2 and len(header) > 2 and len({re.sub("[0-9.]+", "0", line) for line in lines[:2]}) > 1
    if not wide or {len(next(csv.reader([line]), [])) for line in lines[1:6]} != {len(header)}:
        return ""
    return f"a table (CSV) with the columns {', '.join(cell.strip() for cell in header[:5])}"


def _by_lines(lines: list[str]) -> str:
    for form, least, what in (("shell", 0.3, "a shell script"), ("python", 0.25, "Python source")):
        if _share(lines, _RE[form]) >= least:
            return what
    if _share(lines, _RE["timed"]) >= _MOST:
        levels = sum(bool(_RE["level"].search(line)) for line in lines)
        return f"a program's log with times{' and levels' if 2 * levels > len(lines) else ''}, without a line of NCCL"
    if table := _csv(lines):
        return table
    if _share(lines, re.compile(r"\[[\w. -]+\]$|\w[\w.-]* ?= ?\S")) >= _MOST:
        return "a settings file"
    if _share(lines, _RE["key"]) >= _MOST:
        keys = dict.fromkeys(line.split(":")[0].strip(" -") for line in lines[:5])
        return f"YAML, or keys with values: {', '.join(keys)}"
    rows = [[cell for cell in _RE["columns"].split(line.strip()) if cell.strip()] for line in lines[:12]]
    widths = {len(row) for row in rows}
    if len(rows) > 2 and min(widths) > 2 and len(widths) <= 2:
        return f"a table with the columns {', '.join(rows[0])[:80]}"
    return ""
