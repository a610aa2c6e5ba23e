"""What a line itself tells its reader to do: a setting to use, or a sentence of advice."""

import re
from typing import Final

from nccl_insight.base import late
from nccl_insight.base.model import Step

# "Set NCCL_X=1 to enable", "consider setting X to Y", "launch app with X=Y", "increase X".
_OFFERED: Final = late.compiled(
    r"(?:\b(?:set(?:ting)?|us(?:e|ing)|try(?:ing)?|export|specify|(?:de|in)creas(?:e|ing))"
    r"|(?:^|[.:;!,] |\bplease )(?:re)?(?:launch|run|start)(?: (?:the|your|app|job|program|again)){0,3} with) (?:the )?"
    r"(?:environment variable |env(?:ironment)? )?"
    r"[`'\"]?(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+)"
    r"(?:(?P<words> to (?:an?|the|your) [a-z]+(?: [a-z]+)?)|(?P<value>(?:=| to )[`'\"]?[A-Za-z0-9_./:-]*[A-Za-z0-9]))?",
    re.IGNORECASE,
)
_HIDES: Final = late.compiled(
    r"(?i)disable (?:this|the) (?:warning|message)|NCCL_DEBUG|CUDA_LAUNCH_BLOCKING|_LOG_LEVEL|for more info"
    r"|(?:n't|\bnot|unable to|failed to|error|when|while) (?:set(?:ting)?|us(?:e|ing)|try(?:ing)?) "
)
_BETWEEN: Final = late.compiled(r"(?<=[.!?;])\s+(?=[A-Z])|(?<=Error: )|(?<=Exception: )|\n\s*\n|\n {2,}|\n-+$")
_ADVISES: Final = late.compiled(
    r"^(?:Please|Set (?![A-Z0-9]+_)|Try|Make sure|Ensure|Consider|Check|Verify|Add|Install|Upgrade|Update|Downgrade"
    r"|Increase|Reduce|Decrease|Use|Pass|Specify|Provide|Disable|Enable|Remove|Select|Choose|Switch to|Reinstall"
    r"|Change|Lower|Raise|Adjust|Either|Instead|Don't|You (?:may|might|should|need|must|can)"
    r"|To (?:resolve|fix|avoid|work around) )\b|\bplease [a-z]|[,:;] (?:try|make sure|consider|instead|use|set|pass"
    r"|increase|reduce|decrease|lower|raise|you (?:may|should|need|must)) "
)
_ELSEWHERE: Final = late.compiled(
    r"(?i)\b(?:report|file an issue|open an issue|bug|https?:|documentation|docs|traceback|stack ?trace|debug(?:ging)?"
    r"|disable (?:this|the) (?:warning|message)|for details|for more|try again|logs?|see above|ignore"
    r"|NCCL_DEBUG|CUDA_LAUNCH_BLOCKING|TORCH_USE_CUDA_DSA)\b"
)
_MOST: Final = 240
# An option, a name in quotes of code, a name of several words.
_NAMED: Final = late.compiled(
    r"(?<![\w.-])--[a-z][\w-]{2,40}|(?<=`)[A-Za-z][\w.-]{2,40}(?=[`=(])|(?<![\w./-])[a-z]\w*(?:\.\w+)*_\w+(?!\w|/|\.\w)"
)


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
