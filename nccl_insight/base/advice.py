"""What a line itself tells its reader to do: a setting to use, or a sentence of advice."""

import re
from typing import Final

from nccl_insight.base import late, texts
from nccl_insight.base.model import Step

_PATTERNS: Final = texts.patterns(__file__)
# "Set NCCL_X=1 to enable", "consider setting X to Y", "launch app with X=Y", "increase X".
_OFFERED: Final = late.compiled(_PATTERNS["offered"])
_HIDES: Final = late.compiled(_PATTERNS["hides"])
_BETWEEN: Final = late.compiled(_PATTERNS["between"])
_ADVISES: Final = late.compiled(_PATTERNS["advises"])
_ELSEWHERE: Final = late.compiled(_PATTERNS["elsewhere"])
_MOST: Final = 240
# An option, a name in quotes of code, a name of several words.
_NAMED: Final = late.compiled(_PATTERNS["named"])


def offered(text: str) -> Step | None:
    """The setting that a line tells to use, as a command or a sentence."""
    match = _OFFERED.search(text)
    if match is None or not match["name"].isupper() or _HIDES.search(text):
        return None
    name, value = match["name"], re.sub(r"^(?:=| to )|[`'\"]", "", match["value"] or "")
    told = "the line itself offers it"
    return (
        Step("fix", f"export {name}={value}", told)
        if value
        else Step("do", f"set {name}{match['words'] or ''}: {told}")
    )


def advised(text: str) -> str:
    """The sentences of a message that tell its reader what to do; empty where it only tells what happened.

    Where to report, to read or to debug is no advice, and no sentence that is cut off.
    """
    found = [" ".join(s.split()) for s in _BETWEEN.split(text) if _ADVISES.search(s) and not _ELSEWHERE.search(s)]
    kept = " ".join(s for s in found if s.endswith((".", "!", "`", "'", '"', ")")))
    return kept if len(kept) <= _MOST else ""


def named(text: str) -> str:
    """The options, settings and keys that a message names, up to three in their order; empty where it names none."""
    return ", ".join(list(dict.fromkeys(match[0] for match in _NAMED.finditer(text)))[:3])
