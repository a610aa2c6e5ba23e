"""Files to start a new diagnosis from: a page with examples, and a module (``nccl-insight rules new``)."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from nccl_insight.base import late
from nccl_insight.base.errors import UsageError

# The first digit of a code is the family of the diagnosis (docs/architecture.md).
FAMILIES: Final[Mapping[str, int]] = {
    "launch": 1, "bootstrap": 2, "network": 2, "topology": 3, "memory": 4, "runtime": 5, "traces": 6, "input": 9,
}  # fmt: skip
_NAME: Final = late.compiled(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+")
_LINE: Final = "gpu01:4121:4190 [0] NCCL WARN <the line as NCCL prints it>"
_HEALTHY: Final = "gpu01:4121:4190 [0] NCCL INFO Using network IB"
_WITHOUT_LOGIC: Final = """title: <the finding in one sentence, without figures>
since: <the next version>
"""
_WITH_LOGIC: Final = """says: found
  title: <the finding in one sentence>
"""
_MODULE: Final = '''"""<One sentence that says what this is.>"""

from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all lines that the grammar gives this diagnosis."""
    yield from ctx.tells("found")
'''


def next_code(family: str, used: Collection[str]) -> str:
    """The code behind the last one of the family's digit, ``NI261``; codes are never used again.

    Raises:
        UsageError: there is no such family, or it has no code left.
    """
    if family not in FAMILIES:
        raise UsageError(f"no family is called {family!r}; one of {', '.join(FAMILIES)}")
    first = FAMILIES[family] * 100
    numbers = {int(code.removeprefix("NI")) for code in used}
    last = max((n for n in numbers if first < n < first + 90), default=first)
    free = [n for n in (*range(last + 1, first + 90), *range(first + 1, last)) if n not in numbers]
    if not free:
        raise UsageError(f"no code is left for {family}")
    return f"NI{free[0]}"


def skeleton(name: str, family: str, used: Mapping[str, str], logic: bool) -> dict[str, str]:
    """Texts by path below the project's folder. ``used``: names of diagnoses by code.

    Raises:
        UsageError: the name is not one, or is there already; the family does not exist.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name: lower-case words with hyphens between them, the pattern found")
    if name in used.values():
        raise UsageError(f"{name} is there already: {next(c for c, n in used.items() if n == name)}")
    code = next_code(family, used)
    values = {
        "{head}": "" if logic else _WITHOUT_LOGIC,
        "{tail}": _WITH_LOGIC if logic else "",
        "{name}": name,
        "{line}": _LINE,
        "{healthy}": _HEALTHY,
    }

    def filled(text: str) -> str:
        for key, value in values.items():
            text = text.replace(key, value)
        return text

    folder = f"nccl_insight/rules/{family}"
    page = {f"{folder}/{code}-{name}.md": filled(Path(__file__).with_suffix(".md").read_text(encoding="utf-8"))}
    return page | ({f"{folder}/{code.lower()}_{name.replace('-', '_')}.py": _MODULE} if logic else {})
