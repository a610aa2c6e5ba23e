"""What the readers of launch scripts produce, and what ``lint`` reports."""

from __future__ import annotations

from nccl_insight.advise.settings.check import Issue
from nccl_insight.advise.settings.lint.words import Room
from nccl_insight.base.data import dataclass, field
from nccl_insight.base.model import Severity


@dataclass(frozen=True)
class Setting:
    """A variable given a value somewhere in a file.

    ``how`` says by which means. ``exported``: processes started later inherit it. ``conditional``: inside an
    if, loop, case or function, so it may not apply. ``complete`` is False when part of the value is known only
    at run time; ``value`` then holds the text as written. ``dead``: in code that nothing runs. ``seq`` orders
    settings and launches as they are run.
    """

    name: str
    value: str
    line: int
    how: str
    exported: bool = True
    conditional: bool = False
    complete: bool = True
    scope: str = ""
    dead: bool = False
    seq: int = 0


@dataclass(frozen=True)
class Launch:
    """A command that starts processes: program name, its words (expanded where possible), line."""

    program: str
    words: tuple[str, ...]
    line: int
    conditional: bool = False
    complete: bool = True
    seq: int = 0


@dataclass(frozen=True)
class Embedded:
    """A file of another kind that a script holds or writes. ``open``: a shell puts values in before."""

    line: int
    text: str
    kind: str
    path: str = ""
    open: bool = False


@dataclass
class Script:
    """A file as far as it was understood. Filled by one reader, then only read.

    ``ran``: where programs that may read the environment were run, as ``seq``. ``named``: variables that commands name
    or put in; ``assigned``: those that got a value. ``taken``: nodes of Python whose type counts. ``room``: shared with
    what is inside.
    """

    path: str
    kind: str
    settings: list[Setting] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    directives: list[tuple[int, str]] = field(default_factory=list)
    not_evaluated: list[tuple[int, str]] = field(default_factory=list)
    mentioned: set[str] = field(default_factory=set)
    exported_later: set[str] = field(default_factory=set)
    named: list[tuple[int, str]] = field(default_factory=list)
    assigned: set[str] = field(default_factory=set)
    taken: set[int] = field(default_factory=set)
    problems: list[tuple[int, Issue]] = field(default_factory=list)
    embedded: list[Embedded] = field(default_factory=list)
    ran: list[int] = field(default_factory=list)
    version: str | None = None
    room: Room = field(default_factory=Room)

    @property
    def seq(self) -> int:
        """Place of what comes next, in the order of running."""
        return len(self.settings) + len(self.launches) + len(self.ran)

    def ours(self, before: int = 1 << 62) -> list[Setting]:
        """Settings of the script itself, not those inside containers or of one command; ``before`` a place of it."""
        shell = (s for s in self.settings if s.exported and not s.scope and not s.how.startswith("#") and not s.dead)
        return [setting for setting in shell if setting.seq < before]

    def take(self, inner: Script) -> None:
        """Adds what a text within this one tells that holds for the whole file."""
        self.problems += inner.problems
        self.embedded += inner.embedded
        self.not_evaluated += inner.not_evaluated
        self.named += inner.named
        self.assigned |= inner.assigned


@dataclass(frozen=True)
class LintFinding:
    """One thing to report: where, how bad, what, why, what to do."""

    path: str
    line: int
    issue: Issue
    text: str = ""

    @property
    def severity(self) -> Severity:
        """Severity of the issue."""
        return self.issue.severity


@dataclass(frozen=True)
class LintResult:
    """Everything about one file (or one environment). ``prints``: what NCCL will write with these settings."""

    path: str
    kind: str
    findings: tuple[LintFinding, ...]
    settings: tuple[Setting, ...]
    not_evaluated: tuple[tuple[int, str], ...]
    version: str | None
    judged: bool = True
    prints: tuple[str, ...] = ()

    def count(self, severity: Severity) -> int:
        """Number of findings of one severity."""
        return sum(f.severity is severity for f in self.findings)
