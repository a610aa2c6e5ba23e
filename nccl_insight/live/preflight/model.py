"""What a preflight reports: checks, their outcome, and the result as lines and an exit code."""

import dataclasses
import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from nccl_insight.base import texts
from nccl_insight.base.data import dataclass, field
from nccl_insight.base.errors import ExitCode, UsageError
from nccl_insight.base.model import Action


class Status(str, Enum):
    """Outcome of a check. SKIP is never a pass: its reason is in the detail."""

    PASS = "PASS"
    FAIL = "FAIL"
    WARN = "WARN"
    SKIP = "SKIP"


@dataclass(frozen=True)
class Check:
    """One check. ``code`` is that of the diagnosis it stands for, ``fix`` what a person does about it.

    ``node`` is the node that it is about, where that is not the one that checks.
    """

    name: str
    status: Status
    observed: str
    expected: str = ""
    fix: str = ""
    code: str = "-"
    action: Action = Action.NONE
    node: str = ""

    def line(self) -> str:
        """The check as one line of text."""
        text = f"{self.status.value:<5} {self.name:<16} {self.observed}"
        if self.status in (Status.FAIL, Status.WARN):
            text += f"; expected {self.expected}" if self.expected else ""
            text += f"; do: {self.fix}" if self.fix else ""
        return re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text)


_WORDS = Path(__file__).with_name("checks.txt")
_FIELDS = {field.name for field in dataclasses.fields(Check)} - {"name"}


def check_of(key: str, /, of: str = "", **given: Any) -> Check:
    """A check in the words that ``checks.txt`` has under a key, with these values; its fields are as given here.

    ``of``: its name, where the text has none.
    """
    own = {"name": of, "action": "none"} | texts.fields(texts.of_file(_WORDS)[key], given, _FIELDS)
    return Check(**(own | {"status": Status(own["status"]), "action": Action(own["action"])}))


_ORDER = {Action.ISOLATE: 0, Action.TRIAGE: 1}


@dataclass(frozen=True)
class Result:
    """The whole preflight. ``judged`` is False where there was nothing to judge (no GPU)."""

    checks: tuple[Check, ...]
    level: str
    node: str
    judged: bool = True
    timed_out: bool = False
    strict: bool = False
    facts: Mapping[str, str | float | None] = field(default_factory=dict)

    @property
    def failed(self) -> tuple[Check, ...]:
        """Checks that failed."""
        return tuple(c for c in self.checks if c.status is Status.FAIL)

    @property
    def code(self) -> ExitCode:
        """The exit code: 5 on a hang, 1 on a failed check, 3 where nothing was judged.

        An expectation that could not be looked at counts as not judged; if strict, so does any skipped check.
        """
        if self.timed_out:
            return ExitCode.TIMEOUT
        if self.failed:
            return ExitCode.FINDINGS
        skipped = [c for c in self.checks if c.status is Status.SKIP]
        unmet = any(c.name.startswith("expect ") for c in skipped)
        return ExitCode.NOT_JUDGED if not self.judged or unmet or (self.strict and skipped) else ExitCode.OK

    @property
    def verdict(self) -> Status:
        """FAIL, else SKIP where the exit code says not judged, else WARN, else PASS."""
        if self.failed or self.timed_out:
            return Status.FAIL
        if self.code is ExitCode.NOT_JUDGED:
            return Status.SKIP
        return Status.WARN if any(c.status is Status.WARN for c in self.checks) else Status.PASS

    def last_line(self) -> str:
        """The machine-readable line for launch scripts."""
        # What takes the node out of service comes before what its user can mend.
        first = min(self.failed, key=lambda c: (_ORDER.get(c.action, len(_ORDER)), c.code == "-"), default=None)
        if first is None and self.verdict is Status.WARN:
            first = next(c for c in self.checks if c.status is Status.WARN)
        action = first.action if first else Action.NONE
        node = re.sub(r"[^A-Za-z0-9._-]", "_", (first.node if first else "") or self.node) or "unknown"
        return (
            f"NCCL-INSIGHT preflight {self.verdict.value} {first.code if first else '-'} node={node} "
            f"action={action.value} exit={int(self.code)}"
        )


#: Conventions of other gates: our exit code -> theirs. ``slurm``: the worst is the highest, which srun returns.
#: ``nagios``: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN. ``nvsentinel``: 0 passed, 1 failed, 2 configuration error.
EXIT_MAPS: Mapping[str, Mapping[int, int]] = {
    "slurm": {0: 0, 3: 1, 2: 2, 1: 10, 5: 11, 4: 12},
    "nagios": {0: 0, 1: 2, 5: 2, 3: 3, 2: 3, 4: 3},
    "nvsentinel": {0: 0, 1: 1, 5: 1, 2: 2, 3: 2, 4: 2},
}


def parse_exit_map(text: str) -> Mapping[int, int]:
    """A named convention, or pairs such as ``3=0,5=1``; codes that are not named stay.

    Raises UsageError: it is neither.
    """
    if text in EXIT_MAPS:
        return EXIT_MAPS[text]
    pairs = {}
    for item in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,3})=([0-9]{1,3})\s*", item)
        if match is None or int(match[2]) > 255:
            raise UsageError(f"--exit-map {text!r} is not known; use {', '.join(EXIT_MAPS)}, or pairs such as 3=0,5=1")
        pairs[int(match[1])] = int(match[2])
    return pairs
