"""What a pasted line means: diagnosis, role, since when it is printed, what comes before it, what to do."""

from collections.abc import Mapping, Sequence
from typing import Final

from nccl_insight.base import toml, xids
from nccl_insight.engine.fill import without_holes
from nccl_insight.rules import Rule, discover
from nccl_insight.rules.says import said
from nccl_insight.views.line import Known, Line, explained

_ROLES: Final[Mapping[str, str]] = toml.beside(__file__)["roles"]
_MOST: Final = 12
_SHOWN: Final = 200


def explain_text(text: str) -> str | None:
    """What a line of a log means, or which known messages contain a part of a text; None when nothing does.

    Lines may lack their head, and may be followed by the lines that belong to them.
    """
    found = explained(text)
    if found is None:
        return None
    if found.renamed is not None:
        return f"{text.strip()} is called {found.renamed} now.\n\n{_containing(found.messages, found.renamed)}"
    if found.lines:
        return "\n\n".join(_told(line) for line in found.lines)
    return _containing(found.messages, text.strip())


def _told(line: Line) -> str:
    diagnosis, role, message = line.diagnosis, line.role, line.message
    rule = {r.name: r for r in discover()}.get(diagnosis or "")
    lines = [_short(line.text), ""]
    benign = role == "benign"
    if diagnosis is None:
        lines.append(f"  tells       {'' if line.help else 'nothing is wrong: '}what NCCL does")
    else:
        code = f" ({rule.code})" if rule else ""
        guess = "" if message else "; no message of the grammar matches, so this is a guess by its words"
        what = ": nothing is wrong by itself" if benign else guess
        lines += [f"  means       {diagnosis}{code}{what}", f"  role        {role}: {_ROLES[role or '']}"]
        harmless = "often: NCCL prints it at INFO and goes on" if line.level == "INFO" else "no"
        lines += [] if benign else [f"  harmless    {harmless}"]
    if message is not None:
        where = f", in {message.source}" if message.source else ""
        lines.append(f"  printed by  {_versions(message.versions)}{where}")
        lines.append(f"  message     {message.name} ({message.origin})")
    if line.values:
        lines.append("  values      " + ", ".join(f"{k} = {v}" for k, v in line.values.items()))
    own = _own_help(line)
    # What holds for the whole diagnosis may not fit a line that says itself what to do.
    brief = own or benign
    behind = [f"\n  more: nccl-insight explain {rule.code}"] if brief and rule else _advice(rule, role, line.values)
    return "\n".join([*lines, *own, *behind])


def _own_help(line: Line) -> list[str]:
    """What the grammar says of this line in particular, before what its diagnosis says of all."""
    if line.help is None:
        return []
    where = f"   ({line.help['where']})" if line.help["where"] else ""
    rows = [
        f"  {part:<6} {text}{where if part == 'check' else ''}"
        for part in ("check", "fix", "do")
        if (text := without_holes(line.help[part]))
    ]
    return ["", *([line.help["says"]] if line.help["says"] else []), *rows]


def _versions(text: str) -> str:
    return (
        "every version"
        if not text
        else f"NCCL {text}".replace("NCCL ofi", "the OFI plugin")
        .replace("NCCL rccl", "RCCL")
        .replace(", rccl", " and RCCL")
    )


def _advice(rule: Rule | None, role: str | None, values: Mapping[str, object]) -> list[str]:
    if rule is None or role is None:
        return []
    number = values.get("xid")
    lines, remedy = ["", rule.summary], ""
    if isinstance(number, int) and (known := xids.meaning(number)):
        switch = number >= xids.FIRST_OF_SWITCHES
        lines = ["", f"{'SXid' if switch else 'Xid'} {number}: {known}"]
        kinds = xids.remedies(number, xids.weight(number, None, switch=switch), switch=switch)
        remedy = said("xid-error.remedy", kinds | {"asked": ""})["next_step"]
    causes = tuple(dict.fromkeys(rule.caused_by))
    if 0 < len(causes) <= _MOST:  # more of them say no more than "anything"
        lines += ["", f"  comes before it  {', '.join(causes)}"]
    for title, heading in (("why it matters", "Why it matters"), ("what to do", "What to do")):
        text = remedy if remedy and heading == "What to do" else " ".join(rule.section(heading).split())
        if text:
            lines += ["", f"  {title}: {text}"]
    lines += ["", f"  more: nccl-insight explain {rule.code}"]
    return lines


def _short(text: str) -> str:
    first = text.split("\n", 1)[0]
    return first if len(first) <= _SHOWN else f"{first[:_SHOWN]}..."


def _containing(found: Sequence[Known], part: str) -> str:
    """The known messages with a part of a text among their fixed words."""
    codes = {r.name: r.code for r in discover()}
    count = f"{len(found)} known messages contain" if len(found) > 1 else "1 known message contains"
    lines = [f"{count} {part!r}:", ""]
    for message in found[:_MOST]:
        lines.append(f"  {_short(message.words)}")
        names = message.diagnoses
        told = ", ".join(f"{n} ({codes[n]})" if n in codes else n for n in names[:4])
        more = f" and {len(names) - 4} more, by its values" if len(names) > 4 else ""
        lines.append(f"      {told + more if told else 'no failure'}; {_versions(message.versions)}")
    if len(found) > _MOST:
        lines.append(f"  ... and {len(found) - _MOST} more; give more of the text")
    return "\n".join(lines)
