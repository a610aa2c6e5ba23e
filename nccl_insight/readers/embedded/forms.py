"""What a single line says by its form, whoever wrote it: an exception, an exit code, a signal, a fatal level, a
complaint, progress, or that a program came to its end. What is known of single programs is in the grammar.
"""

import json
import re
from typing import Final

from nccl_insight.base import late
from nccl_insight.readers.embedded.tracebacks import exception_in

EXCEPTION: Final = "exception"
EXIT: Final = "exit"
SIGNAL: Final = "signal"
FATAL: Final = "fatal"
COMPLAINT: Final = "complaint"
FAILURES: Final = frozenset({EXCEPTION, EXIT, SIGNAL, FATAL})

_CODE: Final = late.compiled(
    r"\b(?:exit|exits|exited|exiting|return|returned|returns|terminated|ended|finished|died|failed|aborted|stopped)\b"
    r"[^\n]{0,80}?\b(?:code|status|rc)\b\"?(?: of| is| was)? ?[:=]? ?[(\[]?(-?[0-9]{1,10})\b"
    r"|\b(?:exit|return|error)[ _-]?(?:code|status|value)s?\b\"?(?: of| is| was)?\s*[:=]?\s*[(\[]?\"?(-?[0-9]{1,10})\b"
    r"|\b(?:[a-z]+_)?(?:rc|ret|retcode|returncode|errorlevel)\b\"?\s*[:=]\s*(-?[0-9]{1,10})\b(?!\.[0-9])"
    r"|\bnon-?zero (?:exit )?(?:code|status):? ?\(?([0-9]{1,3})\b"
    r"|\*\*\* \[[^\[\]\n]{0,200}\] Error ([0-9]{1,3})\b"
    r"|\bexit(?:ed|s|ing)? ?\(?([1-9][0-9]{0,2})\)?[.!]?$",
    re.I,
)
_NONZERO: Final = late.compiled(r"\bnon-?zero (?:exit |return )?(?:code|status)\b", re.I)
_NAMES: Final = {
    "HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": 9, "SEGV": 11,
    "PIPE": 13, "TERM": 15, "XCPU": 24,
}  # fmt: skip
_SIGNAL: Final = late.compiled(
    r"\b(?:signal|sig)\b[ :=#(]*(?:number |no\.? )?([0-9]{1,2})\b"
    r"|\b(?:SIG|signal )(HUP|INT|QUIT|ILL|TRAP|ABRT|BUS|FPE|KILL|SEGV|PIPE|TERM|XCPU)\b",
    re.I,
)
_DIED: Final = late.compiled(
    r"\b(?:killed|terminat(?:ed|ion)|died|exit(?:ed|s|ing)?|crash(?:ed)?|caught|fatal|ended|abort(?:ed|ing)?|received|got|"
    r"core dumped|unhandled|stopped|signaled)\b",
    re.I,
)
_CORE: Final = late.compiled(
    r"\b(?:segmentation fault|core dumped|segfault|SIGSEGV|(?<!PCIe )bus error|stack smashing)\b"
    r"|\bterminating (?:due to|with) uncaught\b",
    re.I,
)
# What others ended, for a reason that may follow.
_KILLED: Final = late.compiled(
    r"\b(?:container|executor|process|worker|pod|job|task|application|rank)\b[^\n]{0,40}?"
    r"\bkilled (?:by|for|because)\b",
    re.I,
)
_FATAL: Final = late.compiled(
    r"(?:^|[\[\s|#:(<])(?:FATAL|CRITICAL|CRIT|PANIC|EMERG|ALERT|fatal|panic|critical)\b(?:[\]:|)>\s]|$)"
    r"|(?:^|[\s:\]])F[0-9]{3,4} [0-9:.]{8,}"
    r"|^(?:fatal error|panic|fatal|PANIC|Fatal error):|\bpanicked at\b|\[signal [A-Z]+: "
    r"|\b[Aa]ssertion\b.{0,200}\bfailed\b|\bCheck failed: |\bcheck failure stack trace\b"
)
_ERROR: Final = late.compiled(
    r"(?:^|[\[\s|#:(<=\"])(?:ERROR|ERR|SEVERE|error|Error|err)(?:[\]:|)>\"]|\s|$)"
    r"|(?:^|[\[\s:\]])E[0-9]{3,4} [0-9:.]{8,}"
)
_NEGATIVE: Final = late.compiled(
    r"\b(?:fail(?:ed|s|ing|ure)?|abort(?:ed|ing|s)?|died|dead|killed|killing|crash(?:ed|es)?|lost|timed ?out|timeout|"
    r"unexpected(?:ly)?|unable|cannot|can't|could not|couldn't|refused|denied|evicted|preempt(?:ed|ion)|unreachable|"
    r"uncorrectable|not found|no such|not ready|mismatch|corrupt(?:ed|ion)?|unhealthy|giving up|gave up|exceeded|"
    r"exhausted|wrong|invalid|disconnect(?:ed)?|closed|down|hang|hung|stuck|stall(?:ed|s)?|interrupted|cancel(?:l)?ed|"
    r"revoked|error(?:s|ed)?|exception)\b",
    re.I,
)
# A count of none: "0 errors", "no failures", "Out of bounds values : 0 OK".
_NONE: Final = late.compiled(
    r"\b(?:0|no|none|zero|without(?: any)?) (?:[a-z]+ )?(?:errors?|fail(?:ed|ures?)|exceptions?)\b"
    r"|\b(?:errors?|fail(?:ed|ures?))\s*[:=]\s*(?:0|none|no)\b",
    re.I,
)
GOOD: Final = (
    r"(?i)\b(?:train(?:ing)?|pre-?training|fine-?tun(?:e|ing)|run|job|program|script|benchmark|test(?:s|ing)?|evaluation|"
    r"inference|experiment|workflow|pipeline|task|process|execution|"
    r"all (?:done|ranks|steps|epochs|tests|processes|workers))\b[^\n]{0,60}?"
    r"\b(?:complete[d]?|finish(?:ed)?|done|succe(?:eded|ss|ssful|ssfully)|ended (?:normally|successfully)|passed)\b"
    r"|\b(?:successfully|normally) (?:complete[d]?|finish(?:ed)?|end(?:ed)?|exit(?:ed)?)\b"
    r"|\b(?:complete[d]?|finish(?:ed)?|end(?:ed)?|exit(?:ed|s)?|terminated) (?:successfully|normally|cleanly)\b"
    r"|\bReason:\s+Completed\b|\bcondition met\b|\bshutdown (?:complete|barrier\b.*\bpassed)|'train_runtime':"
    r"|^(?:all )?(?:done|finished|completed|success|succeeded|bye|goodbye)[.!]*$|\bafter training is done\b"
    r"|\bmax_(?:steps|epochs)=[0-9]+` reached|\bsaved (?:the )?final\b"
)
_GOOD: Final = late.compiled(GOOD)
# A counter that came to the total that was announced with it.
_TOTAL: Final = late.compiled(
    r"\b(?:step|steps|iter|iteration|epoch|it|batch|round)s?\b[\s:=\[#]*([0-9]{1,12})\s*(?:/|of)\s*([0-9]{1,12})", re.I
)
# A count that goes up, a loss: the program went on.
PROGRESS: Final = (
    r"(?i)\b(?:step|steps|iter|iteration|epoch|batch|round)s?\b[\s:=\[#]{0,12}[0-9]"
    r"|\bloss\b['\"]?\s*[:=]?\s*[0-9]"
)
_PROGRESS: Final = late.compiled(PROGRESS)
_COUNTED: Final = late.compiled(
    r"(?i)\b((?:step|iter|iteration|epoch|batch|round)s?)\b[\s:=\[#]{0,12}"
    r"([0-9][0-9,]*(?: *(?:/|of) *[0-9,]+)?)(?![0-9.])"
)
_NOT_COUNTED: Final = late.compiled(r"WARN|ERROR|NCCL ")
# That the whole program is through, and what ends before it does.
_THROUGH: Final = late.compiled(
    r"(?i)\b(?:train(?:ing)?|pre-?training|fine-?tuning|run|job|program|script|benchmark|experiment|workflow|pipeline)\b"
    r"[^\n,.;:]{0,24}?\b(?:completed?|finished|done|succeeded|ended (?:normally|successfully))\b"
    r"|'train_runtime':|\bafter training is done\b|`Trainer\.fit` stopped: `max_(?:steps|epochs)=[0-9]+` reached"
    r"|\bexit(?:ed)? (?:successfully|normally|cleanly)\b|\bReason:\s+Completed\b"
)
_PART: Final = late.compiled(
    r"(?i)\b(?:eval\w*|valid\w*|inference|epoch|sav\w+|checkpoint\w*|warm-?up|init\w*|load\w*|step|iter\w*|batch|not|partial\w*)\b"
)
_WARNING: Final = late.compiled(
    r"(?:^|[\[\s|#:(<.])(?:WARNING|WARN|Warning|warning|[A-Za-z]+Warning)(?:[\]:|)>\s]|$)"
    r"|(?:^|[\[\s:\]])[WI][0-9]{3,4} [0-9:.]{8,}|^wandb:|\bINFO\b|\bDEBUG\b|\bNOTICE\b"
)
_SAYS: Final = late.compiled(r"\w")
_MOST: Final = 1000
SIGNALS: Final = frozenset(_NAMES.values())


# Words that a sentence quotes and goes on about: nobody said them now.
# And what would be so if: "If you see SIGTERM received, please ignore".
_MENTIONED: Final = re.compile(
    r'(?<=[\w:,] )"[^"]{8,400}"(?=[ ,;.]+[a-z])|(?:^|[.!?:] )If (?:you|the|this|it|exit) .{1,400}?(?:[.!?] |$)'
)
# A shell that shows the commands it runs.
_TRACE: Final = late.compiled(r"^\++ ")
# What somebody says of the whole, without a code.
_STATED: Final = late.compiled(
    r"\b(?:job|task|step|run|training|workflow|script|program|worker|replica\(s\)|replica|container|pod|process|rank|actor|node|"
    r"shard|service|engine|executor|server|stage|trial)s?\b[^\n]{0,60}?\b(?:failed|FAILED|aborted|crashed|died)\b"
    r"|\bFAILED\s*$|^FAILED\b|^=+ (?:.*, )?[1-9][0-9]* failed\b.*=$",
    re.I,
)


# What loggers call the fields of a line that is one JSON object.
_LEVELS: Final = ("level", "levelname", "severity", "lvl", "log_level")
_TEXTS: Final = ("message", "msg", "event", "error", "err", "exception", "exc_info", "exc")


def plain(text: str) -> str:
    """A line of a structured log (one JSON object) as words, ``ERROR: message: exception``; others as they are."""
    if not text.startswith("{") or not text.endswith("}"):
        return text
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return text
    level = next((said[k] for k in _LEVELS if isinstance(said.get(k), str)), None)
    inner = said.get("fields")
    said = {**said, **inner} if isinstance(inner, dict) else said
    words = [said[k] for k in _TEXTS if isinstance(said.get(k), str)]
    return ": ".join([level.upper(), *words]) if level and words else text


# The same of the whole job, which counts at any level.
_FAILED: Final = late.compiled(
    r"\b(?:job|training|program|script)(?: run)?(?: has)? (?:failed|crashed|aborted)\b", re.I
)


def form_of(text: str) -> tuple[str, int | None, int | None, str | None] | None:
    """What a line says by its form: ``(form, exit code, signal, exception)``; None where it complains of nothing."""
    text, mentions = _MENTIONED.subn("", plain(text.strip())[:_MOST])
    if _TRACE.match(text):
        return None
    found = _CODE.search(text)
    if found is not None:
        code = int(next(g for g in found.groups() if g is not None))
        # A negative number is a signal only of a process: functions return negative codes, too.
        ended = code > 0 or re.search(r"(?i)exit|terminat|died|returned", found[0])
        return (EXIT, code if ended else None, None, None) if code else None
    raised = exception_in(text)
    signal = _SIGNAL.search(text)
    if signal is not None and _DIED.search(text):
        return SIGNAL, None, int(signal[1]) if signal[1] else _NAMES[signal[2].upper()], raised
    if raised is not None:
        return EXCEPTION, None, None, raised
    if _CORE.search(text):
        return SIGNAL, None, 11, None
    if _KILLED.search(text):
        return SIGNAL, None, 9, None
    if _NONZERO.search(text):
        return EXIT, 1, None, None
    if _FAILED.search(_NONE.sub("", text)):
        return EXIT, None, None, None
    if mentions or _WARNING.search(text):
        return None
    if _STATED.search(_NONE.sub("", text)):
        return EXIT, None, None, None
    if _FATAL.search(text):
        return FATAL, None, None, None
    if _ERROR.search(text) or (_NEGATIVE.search(text) and not _NONE.search(text)):
        return COMPLAINT, None, None, None
    return None


def ended_well(text: str) -> bool:
    """Whether a line says that the program, or what it counts, came to its end."""
    code = _CODE.search(text)
    if code is not None:
        return int(next(g for g in code.groups() if g is not None)) == 0
    total = _TOTAL.search(text)
    if total is not None and int(total[1]) >= int(total[2]) > 1:
        return True
    text = plain(text)
    if _GOOD.search(text) is None:
        return False
    return _NEGATIVE.search(_NONE.sub("", text)) is None


def through(text: str) -> bool:
    """Whether a line says that the whole program, and not one part of its work, came to its end."""
    said = _THROUGH.search(text)
    if said is None:
        return False
    clause = re.split(r"[,;]| - ", text[: said.end()])[-1]
    return _PART.search(clause) is None and _NEGATIVE.search(_NONE.sub("", text)) is None


def goes_on(text: str) -> bool:
    """Whether a line counts steps or tells a loss: the program went on."""
    return _PROGRESS.search(text) is not None


def step_words(text: str) -> str:
    """The step that a line of progress counts, ``step 7 of 900``; empty where it counts none."""
    found = _COUNTED.search(text) if _PROGRESS.search(text) and not _NOT_COUNTED.search(text) else None
    return f"{found[1].lower()} {re.sub(' {0,4}(/|of) {0,4}', ' of ', found[2])}" if found else ""


def bare_number(text: str) -> bool:
    """Whether a number stands alone on a line, such as an exit status below its label."""
    digits = text.strip().removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= 3


def says(text: str) -> bool:
    """Whether there is a word in the line, not only a rule or a blank."""
    return _SAYS.search(text) is not None


def clears_up(text: str) -> bool:
    """Whether Python says that it ignores the exception that follows."""
    return text.startswith("Exception ignored in")


def of_traceback(text: str) -> bool:
    """Whether a line can belong to the body of a traceback."""
    return text[:1].isspace() or text.startswith("Traceback (most recent")
