"""What a pasted line means: diagnosis, role, since when it is printed, what comes before it, what to do."""

from collections.abc import Mapping, Sequence
from typing import Final

from nccl_insight.base import toml, xids
from nccl_insight.engine.fill import without_holes
from nccl_insight.report.fill import text
from nccl_insight.rules import discover
from nccl_insight.rules.says import said
from nccl_insight.views.line import Known, Line, explained

_ROLES: Final[Mapping[str, str]] = toml.beside(__file__)["roles"]
_MOST: Final = 12
_SHOWN: Final = 200


def explain_text(given: str) -> str | None:
    """What a line of a log means, or which known messages contain a part of a text; None when nothing does.

    Lines may lack their head, and may be followed by the lines that belong to them.
    """
    found = explained(given)
    if found is None:
        return None
    if found.renamed is not None:
        return f"{given.strip()} is called {found.renamed} now.\n\n{_containing(found.messages, found.renamed)}"
    if found.lines:
        return "\n\n".join(_told(line) for line in found.lines)
    return _containing(found.messages, given.strip())


def _told(line: Line) -> str:
    rule = next((r for r in discover() if r.name == line.diagnosis), None)
    number, about, remedy = line.values.get("xid"), rule.summary if rule else "", ""
    if isinstance(number, int) and (known := xids.meaning(number)):
        switch = number >= xids.FIRST_OF_SWITCHES
        about = f"{'SXid' if switch else 'Xid'} {number}: {known}"
        kinds = xids.remedies(number, xids.weight(number, None, switch=switch), switch=switch)
        remedy = said("xid-error.remedy", kinds | {"asked": ""})["next_step"]
    causes = tuple(dict.fromkeys(rule.caused_by)) if rule else ()
    told = {"line": line, "rule": rule, "about": about, "causes": causes if len(causes) <= _MOST else ()}
    helpers = {"roles": _ROLES, "short": _short, "versions": _versions, "without_holes": without_holes}
    sections = {
        title: remedy if remedy and heading == "What to do" else " ".join(rule.section(heading).split())
        for title, heading in (("why it matters", "Why it matters"), ("what to do", "What to do"))
        if rule
    }
    return text("line.txt", **told, **helpers, sections=sections).rstrip("\n")


def _versions(told: str) -> str:
    return (
        "every version"
        if not told
        else f"NCCL {told}".replace("NCCL ofi", "the OFI plugin")
        .replace("NCCL rccl", "RCCL")
        .replace(", rccl", " and RCCL")
    )


def _short(given: str) -> str:
    first = given.split("\n", 1)[0]
    return first if len(first) <= _SHOWN else f"{first[:_SHOWN]}..."


def _containing(found: Sequence[Known], part: str) -> str:
    """The known messages with a part of a text among their fixed words."""
    codes = {r.name: r.code for r in discover()}
    values = {"found": found, "most": _MOST, "part": part, "codes": codes}
    return text("messages.txt", **values, short=_short, versions=_versions).rstrip("\n")
