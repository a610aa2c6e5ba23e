"""What the engine works on between a rule's hit and the finished finding."""

from __future__ import annotations

import math
from textwrap import shorten

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Action, Confidence, Evidence, Finding, Hit, Role, Severity, Step
from nccl_insight.base.natures import nearness
from nccl_insight.engine.steps import steps_of, text_of
from nccl_insight.facts.said.clock import clock_text
from nccl_insight.rules import Rule

MAX_EVIDENCE = 12
_TITLE_MOST = 160


@dataclass(frozen=True)
class Draft:
    """A hit with its rule, and the place that the cause graph gives it.

    ``since_s``: its first line is no older than that; that line may have no clock, and others be the ``first_s``.
    """

    rule: Rule
    hit: Hit
    severity: Severity
    role: Role = Role.INDEPENDENT
    caused_by: str | None = None
    depth: int = 0
    first_s: float | None = None
    last_s: float | None = None
    since_s: float | None = None
    undecided: bool = False
    own_steps: tuple[Step, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """What to do: as the line's own help says, else the hit, else its next step taken apart."""
        return self.own_steps or self.hit.steps or steps_of(self.hit.next_step)

    @property
    def name(self) -> str:
        """Name of the diagnosis."""
        return self.rule.name

    @property
    def confidence(self) -> Confidence:
        """The hit's confidence, else the rule's."""
        return self.hit.confidence or self.rule.confidence

    @property
    def action(self) -> Action:
        """The hit's action, else the rule's."""
        return self.hit.action or self.rule.action

    @property
    def host(self) -> str:
        """The host, where it names just one; else empty."""
        return self.hit.hosts[0] if len(self.hit.hosts) == 1 else ""

    @property
    def causes(self) -> tuple[str, ...]:
        """Diagnoses that explain this one when present, the hit's own first."""
        return tuple(dict.fromkeys((*self.hit.caused_by, *self.rule.caused_by)))

    @property
    def first(self) -> tuple[int, int]:
        """Input and line of the primary evidence; absences come after all lines."""
        refs = self.hit.evidence
        return (refs[0].input_id, refs[0].line) if refs else (1 << 30, 0)

    @property
    def order(self) -> tuple[int, int, int, int, int, float, tuple[int, int], str, tuple[int, ...]]:
        """Sort key: severity, root before cascade, nearness to the cause, time, first evidence, a fixed tie-break.

        A symptom (a time-out, a closed connection) comes after whatever else was found.
        """
        weight = (self.severity.order, self.depth, int(self.role is Role.CASCADE), nearness(self.name))
        first_s = self.first_s if self.first_s is not None else math.inf
        return *weight, self.confidence.order, first_s, self.first, self.rule.code, self.hit.ranks

    def finding(
        self, evidence: tuple[Evidence, ...], fingerprint: str, anchor: str, begun_s: float | None = None
    ) -> Finding:
        """The finished finding. ``begun_s``: when a wait began of which the first line tells the end."""
        hit, rule = self.hit, self.rule
        steps = self.steps
        explanation = hit.explanation or rule.section("Why it matters")
        title = shorten(hit.title, _TITLE_MOST, placeholder=" ...")
        if title.endswith(" ...") and title != hit.title:
            title = title.rpartition("; ")[0] or title  # whole clauses
            explanation = f"{hit.title}. {explanation}"
        if self.undecided:
            explanation += " Another failure explains the rest as well, and no clock tells which of the two came first."
        return Finding(
            code=rule.code, name=rule.name, finding_class=rule.finding_class, severity=self.severity,
            confidence=self.confidence, action=self.action, title=title,
            explanation=explanation,
            next_step=hit.next_step if steps == steps_of(hit.next_step) else text_of(steps),
            observed=hit.observed, expected=hit.expected, unit=hit.unit, ranks=tuple(sorted(set(hit.ranks))),
            hosts=tuple(sorted(set(hit.hosts))), comm_id=hit.comm_id, role=self.role,
            caused_by=self.caused_by, evidence=evidence,
            sources=tuple(dict.fromkeys((*hit.sources, *rule.sources))), fingerprint=fingerprint,
            anchor=anchor, steps=steps,
            first_time=None if self.first_s is None else clock_text(self.first_s),
            last_time=None if self.last_s is None else clock_text(self.last_s),
            begun_time=None if begun_s is None else clock_text(begun_s),
        )  # fmt: skip
