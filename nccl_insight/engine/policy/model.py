"""The policy itself: frozen, and how it applies to rules and findings."""

from collections.abc import Mapping
from datetime import date
from fnmatch import fnmatchcase

from nccl_insight.base.data import dataclass, field
from nccl_insight.base.model import Confidence, Finding, Severity
from nccl_insight.inputs.limits import DEFAULT, Limits
from nccl_insight.rules import Rule


@dataclass(frozen=True)
class Ignore:
    """Findings of one diagnosis to keep out of the verdict.

    ``name`` is the diagnosis; ``match`` a glob that title, a host or an evidence text must match, if given;
    ``until`` the last day on which the entry holds.
    """

    name: str
    reason: str
    match: str | None = None
    until: date | None = None

    def covers(self, finding: Finding) -> bool:
        """Whether the entry speaks of this finding (its date is not looked at)."""
        if finding.name != self.name:
            return False
        if self.match is None:
            return True
        texts = (finding.title, *finding.hosts, *(e.text for e in finding.evidence))
        return any(fnmatchcase(text, self.match) for text in texts)

    def expired(self, today: date | None) -> bool:
        """Whether the last day has passed; never when either date is unknown."""
        return self.until is not None and today is not None and today > self.until


@dataclass(frozen=True)
class Policy:
    """Effective settings with their origins.

    ``select``: names of the diagnoses to run, None for all. ``fail_on``: least severity that makes the command exit 1,
    None for never. ``min_coverage``: share of understood NCCL lines (0..1) below which the run counts as not judged.
    ``limits``: how much of an input is read. ``communication``: regular expressions of kernel names that count as
    communication. ``today`` decides about expiry; without it nothing expires.
    """

    select: frozenset[str] | None = None
    ignore: tuple[Ignore, ...] = ()
    severity: Mapping[str, Severity] = field(default_factory=dict)
    thresholds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    fail_on: Severity | None = Severity.ERROR
    min_confidence: Confidence = Confidence.LOW
    min_coverage: float = 0.0
    redact: bool = False
    communication: tuple[str, ...] = ()
    limits: Limits = DEFAULT
    today: date | None = None
    origins: Mapping[str, str] = field(default_factory=dict)

    def selects(self, rule: Rule) -> bool:
        """Whether the rule is to run."""
        return self.select is None or rule.name in self.select

    def severity_of(self, name: str, severity: Severity) -> Severity:
        """The severity after the user's remapping."""
        return self.severity.get(name, severity)

    def silenced(self, finding: Finding) -> tuple[str, str | None] | None:
        """Reason and last day when the finding is to be kept out of the verdict."""
        if finding.confidence.order > self.min_confidence.order:
            least = self.min_confidence.value
            return f"confidence {finding.confidence.value} is below min-confidence {least}", None
        for entry in self.ignore:
            if entry.covers(finding) and not entry.expired(self.today):
                return entry.reason, entry.until.isoformat() if entry.until else None
        return None

    def notes(self) -> tuple[str, ...]:
        """What the reader should know about the policy: entries that no longer hold."""
        return tuple(
            f"ignore entry for {e.name} expired on {e.until} and was not applied ({e.reason})"
            for e in self.ignore
            if e.expired(self.today)
        )

    def fails(self, findings: tuple[Finding, ...]) -> bool:
        """Whether a finding reaches ``fail_on``."""
        return self.fail_on is not None and any(f.severity.order <= self.fail_on.order for f in findings)
