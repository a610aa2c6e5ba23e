"""The result types that pass between rules, engine and renderers: frozen, serializable, free of polars."""

from collections.abc import Iterable, Mapping
from enum import Enum

from nccl_insight.base.data import dataclass, field


class Severity(str, Enum):
    """How much a finding matters to the job."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def order(self) -> int:
        """0 is the most severe."""
        return ("error", "warning", "info").index(self.value)

    @property
    def word(self) -> str:
        """``error``, ``warning`` or ``note``: the word that every output uses, whatever the setting is called."""
        return "note" if self is Severity.INFO else self.value


class Confidence(str, Enum):
    """How sure the tool is that the finding is what it says."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    @property
    def order(self) -> int:
        """0 is the most certain."""
        return ("high", "medium", "low").index(self.value)


class Action(str, Enum):
    """What an operator does about it (after DCGM's error categories)."""

    CONFIG = "config"
    RETRY = "retry"
    ISOLATE = "isolate"
    TRIAGE = "triage"
    MONITOR = "monitor"
    NONE = "none"


class FindingClass(str, Enum):
    """F stops the job, P degrades it, I is benign, S follows from another fault, L is about the input."""

    FAILURE = "F"
    PERFORMANCE = "P"
    INFORMATION = "I"
    SECONDARY = "S"
    INPUT = "L"


class Role(str, Enum):
    """Place of a finding in the fault graph."""

    ROOT = "root"
    CASCADE = "cascade"
    INDEPENDENT = "independent"


@dataclass(frozen=True)
class Ref:
    """A line of an input, as a rule points at it. ``text`` may be left out: the engine reads it back."""

    input_id: int
    line: int
    text: str | None = None


@dataclass(frozen=True)
class Step:
    """One thing to do. ``label``: check (look), fix (change) or do (in words); ``where`` says where, or what it shows.

    ``text`` can be pasted into a shell unless it is do.
    """

    label: str
    text: str
    where: str = ""

    @property
    def is_command(self) -> bool:
        """Whether the text can be pasted into a shell."""
        return self.label != "do"

    @property
    def needs_root(self) -> bool:
        """Whether an administrator has to run it."""
        return self.is_command and self.text.startswith("sudo ")

    @property
    def while_running(self) -> bool:
        """Whether it tells something only while the processes of the job live."""
        return self.where.startswith("while the job")


@dataclass(frozen=True)
class Hit:
    """What a rule reports; the engine adds code, name and class and makes a :class:`Finding` of it.

    ``title`` is one sentence with figures. ``observed``/``expected`` are short, with units.
    ``evidence`` is in reading order, the first being the primary one. Where the evidence is that something
    is missing, ``absence`` says what was searched and where. ``caused_by`` names diagnoses that explain
    this one when they are present (a cascade). ``severity`` overrides the rule's default. ``first_s`` and ``last_s``:
    seconds since 1970 of its first and last line, where the lines have a clock. ``devices``: ``host/device`` of the
    network devices that it is about; a link event explains an error of the same device only. ``deliberate``: a person
    or a scheduler did it on purpose: no fault, and yet the cause of all that processes report on their way out.
    ``says_more``: it tells more than each of its lines, so that the help of a line does not take its place.
    ``steps``: what to do; where there are none, ``next_step`` is taken apart, and without one the page says.
    """

    title: str
    next_step: str = ""
    explanation: str = ""
    observed: str = ""
    expected: str = ""
    unit: str = ""
    severity: Severity | None = None
    confidence: Confidence | None = None
    action: Action | None = None
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    comm_id: str | None = None
    evidence: tuple[Ref, ...] = ()
    absence: str | None = None
    caused_by: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    first_s: float | None = None
    last_s: float | None = None
    devices: tuple[str, ...] = ()
    deliberate: bool = False
    says_more: bool = False
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class CannotJudge:
    """A rule had a reason not to decide: ``reason`` says why, ``how_to_enable`` what would let it."""

    reason: str
    how_to_enable: str = ""


@dataclass(frozen=True)
class Evidence:
    """One piece of evidence as reported. ``line`` is 0 for evidence of absence."""

    input: str
    line: int
    text: str
    primary: bool = False


@dataclass(frozen=True, repr=False)
class Finding:
    """One diagnosis with everything a reader needs (public JSON, schema version 1).

    ``first_time`` is the clock of its first line; ``begun_time`` when the wait began that ended there.
    """

    code: str
    name: str
    finding_class: FindingClass
    severity: Severity
    confidence: Confidence
    action: Action
    title: str
    explanation: str
    next_step: str
    observed: str
    expected: str
    unit: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    comm_id: str | None
    role: Role
    caused_by: str | None
    evidence: tuple[Evidence, ...]
    sources: tuple[str, ...]
    fingerprint: str
    anchor: str = ""
    steps: tuple[Step, ...] = ()
    first_time: str | None = None
    last_time: str | None = None
    begun_time: str | None = None

    def __repr__(self) -> str:
        return f"<{self.severity.word}[{self.code}] {self.name}: {self.title}>"

    def _repr_html_(self) -> str:
        """Severity, title, first line and next step, for notebooks."""
        from html import escape

        lines = "".join(f"<pre>{escape(f'{e.input}:{e.line}: {e.text}'[:600])}</pre>" for e in self.evidence[:2])
        step = f"<p><b>Next:</b> <code>{escape(self.next_step[:600])}</code></p>" if self.next_step else ""
        head = f"<b>{self.severity.word}[{escape(self.code)}] {escape(self.name)}</b>: {escape(self.title[:600])}"
        return f"<div><p>{head}</p>{lines}{step}</div>"


@dataclass(frozen=True)
class Suppressed:
    """A finding that the policy silenced, kept visible."""

    finding: Finding
    reason: str
    until: str | None = None


@dataclass(frozen=True)
class NotJudged:
    """A diagnosis that was not evaluated, and why. ``needs``: the tables that it reads, where all are empty."""

    name: str
    reason: str
    how_to_enable: str = ""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Coverage:
    """Physical lines by fate: ``lines == parsed + unknown + foreign + torn``."""

    lines: int = 0
    nccl_lines: int = 0
    parsed: int = 0
    unknown: int = 0
    foreign: int = 0
    torn: int = 0
    unknown_templates: tuple[tuple[str, int], ...] = ()

    @property
    def understood(self) -> float:
        """Share of NCCL lines that a grammar rule understood, 0..1 (1 when there is none)."""
        return self.parsed / self.nccl_lines if self.nccl_lines else 1.0


@dataclass(frozen=True)
class InputInfo:
    """One input file."""

    path: str
    kind: str
    size_bytes: int
    sha256: str
    lines: int
    taken_for: str = ""
    command: str = ""
    nccl_lines: int = 0


@dataclass(frozen=True)
class Milestones:
    """How far one rank of one communicator got: the line of each step in its input, None where no line shows it.

    ``end``: destroyed, aborted, cut, silent (others got further) or running.
    """

    comm_id: str | None
    rank: int
    host: str | None
    pid: int | None
    launched: int | None
    bootstrapped: int | None
    init_started: int | None
    init_completed: int | None
    connected: int | None
    first_call: int | None
    last_call: int | None
    destroyed: int | None
    end: str = "running"
    input_id: int = 0


@dataclass(frozen=True)
class Progress:
    """How far the job got. ``text``: one line; ``end``: how the output ends; ``total``: ranks of all communicators.

    ``counts``: ranks by step; ``ranks``: one row per rank, the first some thousand; ``silent``: ranks of the job that
    say nothing more while others go on.
    """

    text: str
    end: str = ""
    total: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    ranks: tuple[Milestones, ...] = ()
    silent: tuple[int, ...] = ()

    @property
    def line(self) -> str:
        """The whole in one line."""
        return "; ".join(part for part in (self.text, self.end) if part)


@dataclass(frozen=True)
class Moment:
    """One event of the story of a job.

    ``kind``: start, init, last step, sign, cause, gave up, died, effect or end. ``time``: the clock of its line
    (``2025-06-01 10:00:00``; ``after`` or ``before`` that of a line near by; empty where no line near has one);
    ``time_s``: the same in seconds since 1970 where it is exact; ``about``: worked out from other lines. ``anchor``: of
    the finding that it is.
    """

    kind: str
    text: str
    time: str = ""
    time_s: float | None = None
    about: bool = False
    evidence: Evidence | None = None
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    anchor: str = ""


@dataclass(frozen=True)
class RanksApart:
    """A figure that every rank has one of, and the ranks whose figure stands apart from the others'.

    ``count``: how many these are; ``ranks``: their figures by rank, of the first thousand.
    """

    figure: str
    median: float
    count: int
    ranks: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Mend:
    """What one change would gain over the recorded time of a job, by the replay of its traces.

    ``kind``: rank, ranks, host, compute, group, pair, rail or step; ``ranks``: who is mended (none: single steps of
    all). ``alone_ns``: the gain if this alone is mended; ``gain_ns``: together with everything before it in the list;
    ``gain_share``: ``gain_ns`` of the recorded time; ``step_ns``: the mean time of a step then.
    """

    scenario: str
    kind: str
    ranks: tuple[int, ...]
    group: str | None
    steps: tuple[int, ...]
    step_ns: int
    gain_ns: int
    gain_share: float
    alone_ns: int


@dataclass(frozen=True)
class Replayed:
    """How a job was replayed from its traces.

    ``base_error``: difference of the replayed to the recorded time when nothing is changed, as a share; ``ideal_ns``:
    the time if all work and all transfers were even; ``refused``: why nothing is predicted.
    """

    base_error: float | None
    ranks: int
    steps: int
    window_ns: int
    ideal_ns: int | None
    refused: str


@dataclass(frozen=True)
class More:
    """What to add or to do next, and what that enables: names of checks, or a question that it answers."""

    add: str
    enables: str
    checks: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobPart:
    """One job, or one attempt of it, where the inputs hold several. ``judged``: its findings are in the analysis."""

    label: str
    inputs: tuple[str, ...]
    nranks: int | None
    nccl_versions: tuple[str, ...]
    judged: bool
    reached: str = ""


@dataclass(frozen=True)
class Job:
    """What the run looks like. ``ranks_seen``: of ``nranks``, where the rest may be on nodes that no line names."""

    nccl_versions: tuple[str, ...] = ()
    nranks: int | None = None
    n_nodes: int | None = None
    hosts: tuple[str, ...] = ()
    gpus: int | None = None
    networks: tuple[str, ...] = ()
    communicators: int = 0
    cuda_versions: tuple[str, ...] = ()
    driver_versions: tuple[str, ...] = ()
    ranks_seen: int | None = None

    @property
    def line(self) -> str:
        """``64 ranks on 8 nodes, NCCL 2.27.3``; empty when nothing is known."""
        nodes = f"{self.n_nodes:,} node{'' if self.n_nodes == 1 else 's'}" if self.n_nodes else ""
        size = nodes
        if self.nranks is not None:
            seen = f"{self.ranks_seen:,} of " if self.ranks_seen else ""
            size = f"{seen}{self.nranks:,} rank{'' if self.nranks == 1 else 's'}" + (f" on {nodes}" if nodes else "")
        versions = "NCCL " + " and ".join(self.nccl_versions) if self.nccl_versions else ""
        return ", ".join(filter(None, (size, versions)))


@dataclass(frozen=True)
class ToolInfo:
    """Provenance of the analysis."""

    name: str
    version: str
    schema_version: int
    grammar_hash: str


@dataclass(frozen=True)
class ToolOutput:
    """What one output of a host tool says: ``says`` in a phrase, ``facts`` the first as (device, name, value, unit)."""

    input: str
    line: int
    host: str | None
    tool: str
    what: str
    says: str
    facts: tuple[tuple[str, str, str, str], ...]


def loud_of(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings that are no notes."""
    return tuple(f for f in findings if f.severity is not Severity.INFO)


def causes_of(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The loud ones that follow from no other; all of them where each does."""
    loud = loud_of(findings)
    return tuple(f for f in loud if f.role is not Role.CASCADE) or loud


@dataclass(frozen=True)
class Analysis:
    """The whole result; renderers read it and views of the run, nothing else.

    ``status``: findings, ok, inconclusive, running (followed while it grows) or not_judged. ``headline``: the cause in
    words, without the word of the verdict. ``summary``: the job in a few lines. ``reasons``: why the status is not ok
    though nothing was found. ``more``: what to add to see more. ``apart``: the ranks that the figures of the report
    mark. ``outputs``: what host tools say. ``story``: what happened in which order.
    """

    status: str
    findings: tuple[Finding, ...]
    job: Job
    coverage: Coverage
    inputs: tuple[InputInfo, ...]
    tool: ToolInfo
    suppressed: tuple[Suppressed, ...] = ()
    not_judged: tuple[NotJudged, ...] = ()
    redacted: bool = False
    notes: tuple[str, ...] = field(default=())
    headline: str = ""
    summary: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    progress: Progress | None = None
    more: tuple[More, ...] = ()
    jobs: tuple[JobPart, ...] = ()
    apart: tuple[RanksApart, ...] = ()
    what_if: tuple[Mend, ...] = ()
    replay: Replayed | None = None
    outputs: tuple[ToolOutput, ...] = ()
    story: tuple[Moment, ...] = ()

    @property
    def verdict(self) -> str:
        """``FAIL``, ``WARN``, ``OK``, ``INCONCLUSIVE``, ``RUNNING`` or ``NOT JUDGED``."""
        if self.status in ("not_judged", "inconclusive", "running"):
            return self.status.replace("_", " ").upper()
        if self.count(Severity.ERROR):
            return "FAIL"
        return "WARN" if self.count(Severity.WARNING) else "OK"

    @property
    def loud(self) -> tuple[Finding, ...]:
        """The findings that are no notes."""
        return loud_of(self.findings)

    @property
    def causes(self) -> tuple[Finding, ...]:
        """The loud ones that follow from no other; all of them where each does."""
        return causes_of(self.findings)

    def count(self, severity: Severity) -> int:
        """Number of findings of one severity."""
        return sum(f.severity is severity for f in self.findings)
