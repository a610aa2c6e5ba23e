"""What a single line says by its form, whoever wrote it: an exception, an exit code, a signal, a fatal level, a
complaint, progress, or that a program came to its end. What is known of single programs is in the grammar.
"""

import re
from pathlib import Path
from typing import Final

from nccl_insight.base import late, texts, toml
from nccl_insight.base.objects import object_of
from nccl_insight.base.words import first_group
from nccl_insight.readers.embedded.tracebacks import exception_in

EXCEPTION: Final = "exception"
EXIT: Final = "exit"
SIGNAL: Final = "signal"
FATAL: Final = "fatal"
COMPLAINT: Final = "complaint"
FAILURES: Final = frozenset({EXCEPTION, EXIT, SIGNAL, FATAL})

_PATTERNS: Final = texts.patterns(__file__)
_RE: Final = texts.compiled(__file__)
#: Numbers of signals by names, by what shells and by what others print of them.
SIGNAL_OF: Final = toml.read(Path(__file__).with_name("signals.toml"))
_NAMES: Final = SIGNAL_OF["names"]
GOOD: Final = _PATTERNS["good"]
_GOOD: Final = late.compiled(GOOD)
# A count that goes up, a loss: the program went on.
PROGRESS: Final = _PATTERNS["progress"]
_PROGRESS: Final = late.compiled(PROGRESS)
#: An exception that names the step, and the line of source that raises it, count nothing.
RAISED: Final = r"\b[A-Z][A-Za-z]*(?:Error|Exception): |\braise [A-Z][A-Za-z_.]*\("
_NOT_COUNTED: Final = late.compiled(rf"WARN|ERROR|NCCL |{RAISED}")
_MOST: Final = 1000
SIGNALS: Final = frozenset(_NAMES.values())
# What loggers call the fields of a line that is one JSON object.
_LEVELS: Final = ("level", "levelname", "severity", "lvl", "log_level")
_TEXTS: Final = ("message", "msg", "event", "error", "err", "exception", "exc_info", "exc")


#: What other lines say: form, exit code and signal by their patterns, the first three also of warnings.
_TOLD: Final[tuple[tuple[str, str, int | None, int | None], ...]] = (
    ("killed", SIGNAL, None, 9), ("nonzero", EXIT, 1, None), ("failed", EXIT, None, None),
    ("stated", EXIT, None, None), ("fatal", FATAL, None, None), ("error", COMPLAINT, None, None),
)  # fmt: skip
_BARE: Final = frozenset({"failed", "stated"})  # which the words do not deny


def told_signal(text: str) -> int | None:
    """The signal that a line's words mean (``signals.toml``)."""
    return next((number for word, number in SIGNAL_OF["told"].items() if word in text), None)


def plain(text: str) -> str:
    """A line of a structured log (one JSON object) as words, ``ERROR: message: exception``; others as they are."""
    if not text.startswith("{") or not text.endswith("}"):
        return text
    said = object_of(text)
    level = next((said[k] for k in _LEVELS if isinstance(said.get(k), str)), None)
    inner = said.get("fields")
    said = {**said, **inner} if isinstance(inner, dict) else said
    words = [said[k] for k in _TEXTS if isinstance(said.get(k), str)]
    return ": ".join([level.upper(), *words]) if level and words else text


def form_of(text: str) -> tuple[str, int | None, int | None, str | None] | None:
    """What a line says by its form: ``(form, exit code, signal, exception)``; None where it complains of nothing."""
    text, mentions = _RE["mentioned"].subn("", plain(text.strip())[:_MOST])
    if _RE["trace"].match(text):
        return None
    found = _RE["code"].search(text)
    if found is not None:
        code = int(first_group(found))
        # A negative number is a signal only of a process: functions return negative codes, too.
        ended = code > 0 or re.search(r"(?i)exit|terminat|died|returned", found[0])
        return (EXIT, code if ended else None, None, None) if code else None
    raised = exception_in(text)
    signal = _RE["signal"].search(text)
    if signal is not None and _RE["died"].search(text):
        return SIGNAL, None, int(signal[1]) if signal[1] else _NAMES[signal[2].upper()], raised
    if raised is not None:
        return EXCEPTION, None, None, raised
    if _RE["core"].search(text):
        return SIGNAL, None, told_signal(text) or 11, None
    bare = _RE["none"].sub("", text)
    quiet = bool(mentions) or _RE["warning"].search(text) is not None
    for name, form, status, number in _TOLD[:3] if quiet else _TOLD:
        if _RE[name].search(bare if name in _BARE else text):
            return form, status, number, None
    negative = not quiet and bare == text and _RE["negative"].search(text)
    return (COMPLAINT, None, None, None) if negative else None


def ended_well(text: str) -> bool:
    """Whether a line says that the program, or what it counts, came to its end."""
    code = _RE["code"].search(text)
    if code is not None:
        return int(first_group(code)) == 0
    total = _RE["total"].search(text)
    if total is not None and int(total[1]) >= int(total[2]) > 1:
        return True
    text = plain(text)
    if _GOOD.search(text) is None:
        return False
    return _RE["negative"].search(_RE["none"].sub("", text)) is None


def through(text: str) -> bool:
    """Whether a line says that the whole program, and not one part of its work, came to its end."""
    said = _RE["through"].search(text)
    if said is None:
        return False
    clause = re.split(r"[,;]| - ", text[: said.end()])[-1]
    return _RE["part"].search(clause) is None and _RE["negative"].search(_RE["none"].sub("", text)) is None


def goes_on(text: str) -> bool:
    """Whether a line counts steps or tells a loss: the program went on."""
    return _PROGRESS.search(text) is not None


def step_words(text: str) -> str:
    """The step that a line of progress counts, ``step 7 of 900``; empty where it counts none."""
    found = _RE["counted"].search(text) if _PROGRESS.search(text) and not _NOT_COUNTED.search(text) else None
    return f"{found[1].lower()} {re.sub(' {0,4}(/|of) {0,4}', ' of ', found[2]).rstrip(',')}" if found else ""


def bare_number(text: str) -> bool:
    """Whether a number stands alone on a line, such as an exit status below its label."""
    digits = text.strip().removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= 3


def says(text: str) -> bool:
    """Whether there is a word in the line, not only a rule or a blank."""
    return _RE["says"].search(text) is not None


def clears_up(text: str) -> bool:
    """Whether Python says that it ignores the exception that follows."""
    return text.startswith("Exception ignored in")


def of_traceback(text: str) -> bool:
    """Whether a line can belong to the body of a traceback."""
    return text[:1].isspace() or text.startswith("Traceback (most recent")
