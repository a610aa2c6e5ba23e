"""What a check is given: the run, the lines that mean its diagnosis, the numbers of its page, and how it reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from nccl_insight.base.model import Action, Confidence, Hit, Severity
from nccl_insight.facts.errors import causes
from nccl_insight.facts.reach import needs_no_network
from nccl_insight.language.help import filled
from nccl_insight.rules._errors import Trouble, trouble
from nccl_insight.rules.page import Page
from nccl_insight.tables.run import Run
from nccl_insight.tables.schema import is_loud

_SAID: Final = ("root", "setting", "caller")


@dataclass(frozen=True)
class Context:
    """A run as one check sees it. ``ctx["share"]`` is a threshold of its page, or what the policy says instead."""

    run: Run
    name: str
    thresholds: Mapping[str, float] = field(default_factory=dict)

    def __getitem__(self, key: str) -> float:
        return self.run.asked.threshold(self.name, key, self.thresholds[key])

    def lines(self, *also: str, but: Sequence[str] = ()) -> Trouble | None:
        """The lines that mean this diagnosis (or ``also`` these), without those of the messages ``but``."""
        return trouble(self.run, self.name, *also, but=but)

    def report(
        self,
        headline: str,
        next_step: str = "",
        *,
        explanation: str = "",
        observed: str = "",
        expected: str = "",
        quiet: Severity | None = Severity.INFO,
        confidence: Confidence | None = None,
        severity: Severity | None = None,
        action: Action | None = None,
        caused_by: tuple[str, ...] = (),
        rows: Trouble | None = None,
        ranks: tuple[int, ...] | None = None,
        hosts: tuple[str, ...] | None = None,
        devices: tuple[str, ...] = (),
    ) -> Iterator[Hit]:
        """One hit for all lines (``rows``, else :meth:`lines`); nothing when there are none.

        ``quiet`` is the severity when all lines are of level INFO (None: the usual one).
        """
        found = rows if rows is not None else self.lines()
        if found is None:
            return
        yield Hit(
            title=found.titled(headline),
            next_step=next_step,
            explanation=explanation,
            observed=observed or found.text,
            expected=expected,
            severity=severity if found.loud or quiet is None else quiet,
            confidence=confidence,
            action=action,
            ranks=found.ranks if ranks is None else ranks,
            hosts=found.hosts if hosts is None else hosts,
            evidence=found.evidence,
            caused_by=caused_by,
            first_s=found.first_s,
            last_s=found.last_s,
            devices=devices,
        )

    def said(self, title: str, explanation: str, severity: Severity, next_step: str = "") -> Iterator[Hit]:
        """What NCCL says itself at WARN or above, where the logic had nothing to add: nothing but the line speaks."""
        rows = causes(self.run).filter(
            (pl.col("cause") == self.name)
            & is_loud(pl.col("level"))
            & pl.col("message").is_not_null()
            & pl.col("role").cast(pl.String).is_in(_SAID)
        )
        if rows.height:
            yield from self.report(
                title,
                next_step,
                explanation=explanation,
                severity=severity,
                confidence=Confidence.MEDIUM,
                rows=Trouble(rows),
            )


def spoken(ctx: Context, page: Page) -> Iterator[Hit]:
    """The finding of a page without logic: the same for all lines that mean it."""
    head, lines = page.head, page.head.get("lines", "all")
    found = ctx.lines() if lines not in ("none", "tools") else None
    if found is None or (lines == "warnings" and not found.loud):
        return
    other = head.get("on_one_host") if needs_no_network(ctx.run) else None
    if "fatal" in head and bool(found.rows["level"].eq("ERROR").any()):
        other = head["fatal"]
    yield from ctx.report(
        filled(head["title"], found.first),
        explanation=" ".join(page.sections["Why it matters"].split("\n\n")[-1].split()),
        expected=head.get("expected", ""),
        quiet=Severity(head.get("quiet", "info")),
        confidence=Confidence.LOW if bool(found.rows["message"].is_null().all()) else None,
        severity=Severity(other) if other else None,
        rows=found,
    )
