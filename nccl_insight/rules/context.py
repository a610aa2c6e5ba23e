"""What a check is given: the run, the lines that mean its diagnosis, the numbers of its page, and how it reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import polars as pl

from nccl_insight.base.data import dataclass, field
from nccl_insight.base.model import CannotJudge, Confidence, Hit, Ref, Severity
from nccl_insight.base.natures import names
from nccl_insight.base.pages import Page
from nccl_insight.base.words import words
from nccl_insight.facts.fabric.reach import needs_no_network
from nccl_insight.facts.said.errors import causes, present
from nccl_insight.facts.said.mentions import mentions
from nccl_insight.facts.setup.settings import hosts_of, ranks_of, refs
from nccl_insight.language.help import filled
from nccl_insight.rules._errors import Trouble, trouble
from nccl_insight.rules._notes import noted
from nccl_insight.rules.says import said
from nccl_insight.tables.run import Run
from nccl_insight.tables.schema import is_loud

# What a check yields: what it found, or why it cannot judge.
Hits: TypeAlias = Iterator[Hit | CannotJudge]
_SAID: Final = ("root", "setting", "caller")
# What a check may say itself of a hit, in place of its page.
_FIELDS: Final = {field.name for field in dataclasses.fields(Hit)} - {"ranks", "hosts", "evidence"}


class Placed(Protocol):
    """Whatever knows its ranks, hosts and lines."""

    @property
    def ranks(self) -> tuple[int, ...]: ...
    @property
    def hosts(self) -> tuple[str, ...]: ...
    @property
    def evidence(self) -> tuple[Ref, ...]: ...


# What shows it, of rows the first lines; whom it is about: ranks (numbers) and hosts (names), or rows of them.
Seen: TypeAlias = Placed | pl.DataFrame | Iterable[Ref]
Whom: TypeAlias = Placed | pl.DataFrame | Iterable[int | str | None] | None


def hit(seen: Seen, title: str, whom: Whom = None, **fields: Any) -> Hit:
    """A finding on what was seen: rows with their lines, ranks and hosts, or anything that knows these.

    Args:
        seen: what shows it; of rows the first three lines.
        title: one sentence with figures.
        whom: whom it is about where that is not who was seen: ranks (numbers) and hosts (names), or other rows.
        fields: more of :class:`nccl_insight.base.model.Hit`.
    """
    ranks, hosts, lines = _told(seen, whom)
    return Hit(title, ranks=ranks, hosts=hosts, evidence=lines, **fields)


def _told(seen: Seen, whom: Whom) -> tuple[tuple[int, ...], tuple[str, ...], tuple[Ref, ...]]:
    """Ranks, hosts and lines of a finding."""
    about = seen if whom is None else whom
    lines = refs(seen) if isinstance(seen, pl.DataFrame) else seen if isinstance(seen, Iterable) else seen.evidence
    if isinstance(about, pl.DataFrame):
        # Figures worked out from tables may be of no rank and no host.
        ranks = ranks_of(about) if about.schema.get("rank") else ()
        hosts = hosts_of(about) if about.schema.get("host") else ()
    elif isinstance(about, Iterable):
        named = [one for one in about if one is not None]
        ranks = tuple(one for one in named if isinstance(one, int))
        hosts = tuple(one for one in named if isinstance(one, str))
    else:
        ranks, hosts = about.ranks, about.hosts
    return ranks, hosts, tuple(lines)


def says(name: str, seen: Seen, /, whom: Whom = None, **given: Any) -> Hit:
    """A finding in the words that a page has for ``name.key``, with these values; fields of a hit are as given here.

    The words know the finding's ``ranks`` and ``hosts``.
    """
    ranks, hosts, lines = _told(seen, whom)
    fields = worded(name, {"ranks": ranks, "hosts": hosts} | given)
    return Hit(fields.pop("title"), ranks=ranks, hosts=hosts, evidence=lines, **fields)


def worded(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a hit in these words; fields that are given stand as they are."""
    return said(name, given) | {field: value for field, value in given.items() if field in _FIELDS}


@dataclass(frozen=True)
class Context:
    """A run as one check sees it. ``ctx["share"]`` is a threshold of its page, or what the policy says instead."""

    run: Run
    name: str
    thresholds: Mapping[str, float] = field(default_factory=dict)
    head: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, key: str) -> float:
        return self.run.asked.threshold(self.name, key, self.thresholds[key])

    def names(self, key: str) -> tuple[str, ...]:
        """The diagnoses that a key of the page's front matter means by their names and natures."""
        return names(*words(self.head.get(key, "")))

    def lines(self, *also: str, but: Sequence[str] = ()) -> Trouble | None:
        """The lines that mean this diagnosis (or ``also`` these), without those of the messages ``but``."""
        return trouble(self.run, self.name, *also, but=but)

    hit = staticmethod(hit)

    def says(self, key: str, seen: Seen, /, whom: Whom = None, **given: Any) -> Hit:
        """A finding in the words of this page, which know its thresholds: see :func:`says`."""
        return says(f"{self.name}.{key}", seen, whom, **({k: self[k] for k in self.thresholds} | given))

    def tells(
        self,
        key: str,
        /,
        *,
        rows: Trouble | None = None,
        whom: Iterable[int | str | None] | None = None,
        quiet: Severity | None = Severity.INFO,
        **given: Any,
    ) -> Iterator[Hit]:
        """:meth:`report` in the words of this page."""
        fields = worded(f"{self.name}.{key}", given)
        yield from self.report(fields.pop("title"), rows=rows, whom=whom, quiet=quiet, **fields)

    def cannot(self, key: str, /, **given: Any) -> CannotJudge:
        """Why it cannot be judged, in the words of this page."""
        return CannotJudge(**said(f"{self.name}.{key}", given))

    def report(
        self,
        headline: str,
        *,
        rows: Trouble | None = None,
        whom: Iterable[int | str | None] | None = None,
        quiet: Severity | None = Severity.INFO,
        **fields: Any,
    ) -> Iterator[Hit]:
        """One hit for all lines (``rows``, else :meth:`lines`); nothing when there are none.

        ``quiet`` is the severity when all lines are of level INFO (None: the usual one).
        """
        found = rows if rows is not None else self.lines()
        if found is None:
            return
        if not found.loud and quiet is not None:
            fields["severity"] = quiet
        fields["observed"] = fields.get("observed") or found.text
        fields |= {"first_s": found.first_s, "last_s": found.last_s}
        yield hit(found, found.titled(headline), whom, **fields)

    def candidate(self, title: str, beside: Trouble | None, advised: str, *, stated: bool = False) -> Iterator[Hit]:
        """A cause outside of the log that loud lines of others often have: information of low confidence.

        A warning of medium confidence where NCCL's own advice names it (``advised``) or a setting speaks for it
        (``stated``).
        """
        if beside is None or not beside.loud:
            return
        sure = stated or not mentions(self.run, "advice", advised).is_empty()
        yield from self.report(
            title,
            severity=Severity.WARNING if sure else Severity.INFO,
            confidence=Confidence.MEDIUM if sure else Confidence.LOW,
            rows=beside,
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
                next_step=next_step,
                explanation=explanation,
                severity=severity,
                confidence=Confidence.MEDIUM,
                rows=Trouble(rows),
            )


def _got_over(run: Run, rows: pl.DataFrame) -> bool:
    """Whether every process of these lines completed an init after them."""
    process = ["input_id", "host", "pid"]
    done = run.table("milestones").group_by(process).agg(pl.col("init_completed").max())
    after = rows.select(*process, "line").join(done, on=process, how="left")
    return bool((after["init_completed"] > after["line"]).fill_null(False).all())


def _last_paragraph(page: Page, heading: str) -> str:
    return " ".join(page.sections[heading].split("\n\n")[-1].split())


def spoken(ctx: Context, page: Page) -> Iterator[Hit]:
    """The finding of a page without logic: the same for all lines that mean it."""
    head, lines = page.head, page.head.get("lines", "all")
    if "noted" in head:
        told, refs = noted(ctx.run, ctx.name)
        if told:
            shown = refs[: int(head["noted"])]
            yield ctx.says("found", shown, absence=None if shown else told[0], texts=told)
        return
    if "beside" in head:
        if present(ctx.run).isdisjoint(ctx.names("unless")):
            yield from ctx.candidate(head["title"], trouble(ctx.run, *ctx.names("beside")), head["advised"])
        if "stated" in head:
            why = _last_paragraph(page, "How it decides")
            yield from ctx.report(head["stated"], explanation=why, severity=Severity.ERROR, confidence=Confidence.HIGH)
        return
    found = ctx.lines() if lines not in ("none", "tools") else None
    if found is None or (lines == "warnings" and not found.loud):
        return
    yield from ctx.report(
        filled(head["title"], found.first),
        explanation=head.get("explanation") or _last_paragraph(page, "Why it matters"),
        quiet=Severity(head.get("quiet", "info")),
        confidence=Confidence.LOW if bool(found.rows["message"].is_null().all()) else None,
        severity=_weight(ctx, page, found.rows),
        rows=found,
    )


def _weight(ctx: Context, page: Page, rows: pl.DataFrame) -> Severity | None:
    """Another severity than the usual one, where the page names it for such a run or the user asked for the symptom."""
    other = page.head.get("on_one_host") if needs_no_network(ctx.run) else None
    if "got_over" in page.head and _got_over(ctx.run, rows):
        other = page.head["got_over"]
    if "fatal" in page.head and bool(rows["level"].eq("ERROR").any()):
        other = page.head["fatal"]
    if ctx.run.asked.symptom and ctx.run.asked.symptom in page.words("leads_to"):
        other = "warning"
    return Severity(other) if other else None
