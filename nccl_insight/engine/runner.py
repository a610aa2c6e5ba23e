"""Runs rules one by one, each in isolation: a rule that fails costs its own verdict and nothing else."""

from collections.abc import Sequence
from dataclasses import replace

from nccl_insight.base.model import CannotJudge, FindingClass, Hit, NotJudged, Severity
from nccl_insight.base.natures import nearness, shown_by
from nccl_insight.engine.draft import Draft
from nccl_insight.engine.more import HOW
from nccl_insight.facts.said.errors import present
from nccl_insight.rules import Rule
from nccl_insight.rules._host_tools import beside, joined
from nccl_insight.tables.run import Run


def available(run: Run, table: str) -> bool:
    """Whether a rule can say something from the table.

    A log without trouble lines is knowledge about ``errors``: the table counts as there when any NCCL
    line was read. So does an exception of a program that says what went wrong.
    """
    if run.has(table):
        return True
    if table != "errors":
        return False
    return (run.has("inputs") and bool(run.table("inputs")["nccl_lines"].sum())) or bool(present(run))


def missing(run: Run, rule: Rule) -> NotJudged | None:
    """Why the rule cannot run, if its tables are all empty."""
    if not rule.needs or any(available(run, table) for table in rule.needs):
        return None
    how = next((HOW[t] for t in rule.needs if t in HOW), "")
    return NotJudged(rule.name, f"no {' or '.join(rule.needs).replace('_', ' ')} in the inputs", how, rule.needs)


def run_rule(run: Run, rule: Rule) -> tuple[list[Draft], list[NotJudged], str | None]:
    """Drafts, what could not be judged, and a note about the tool when the rule itself failed."""
    absent = missing(run, rule)
    tools = joined(run, rule.name, ())
    if absent is not None:
        spoken = [Draft(rule, hit, hit.severity or rule.severity) for hit in tools] or _said(run, rule)
        return spoken, [] if spoken else [absent], None
    drafts: list[Draft] = []
    open_: list[NotJudged] = []
    try:
        for result in rule.check(run):
            if isinstance(result, Hit):
                drafts.append(Draft(rule, result, result.severity or rule.severity))
            elif isinstance(result, CannotJudge):
                open_.append(NotJudged(rule.name, result.reason, result.how_to_enable))
            else:
                raise TypeError(f"rule yielded {type(result).__name__}")
        if not drafts:
            drafts += _said(run, rule)
        if tools:
            hits = joined(run, rule.name, [draft.hit for draft in drafts])
            drafts = [Draft(rule, hit, hit.severity or rule.severity) for hit in hits]
    except Exception as error:
        what = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200].rstrip(": ")
        note = f"rule {rule.code} {rule.name} failed and was left out ({what}); please report this"
        return [], [NotJudged(rule.name, f"the rule failed: {what}", "report this as a bug")], note
    return drafts, open_, None


def _said(run: Run, rule: Rule) -> list[Draft]:
    """What NCCL's own lines say of a diagnosis whose rule was silent and lets them speak; else its silence is final."""
    if not rule.speaks or not run.has("errors") or rule.name not in present(run):
        return []
    todo = " ".join(rule.section("What to do").replace("`", "").split())
    why = " ".join(rule.section("Why it matters").split())
    # Worth knowing at most, where the diagnosis is no more than that.
    most = Severity.INFO if rule.finding_class is FindingClass.INFORMATION else Severity.WARNING
    hits = rule.context(run).said(rule.summary.rstrip("."), why, most, todo or f"nccl-insight explain {rule.code}")
    return [Draft(rule, hit, most) for hit in hits]


def run_rules(run: Run, rules: Sequence[Rule]) -> tuple[list[Draft], list[NotJudged], list[str]]:
    """All rules, in order."""
    drafts: list[Draft] = []
    not_judged: list[NotJudged] = []
    notes: list[str] = []
    for rule in rules:
        found, open_, note = run_rule(run, rule)
        drafts += found
        not_judged += open_
        notes += [note] if note else []
    for sentence in beside(run):
        names = shown_by(sentence.shows)
        fitting = [(nearness(d.name), d.severity.order, n) for n, d in enumerate(drafts) if d.name in names]
        if fitting:
            at = min(fitting)[2]
            drafts[at] = replace(drafts[at], hit=sentence.added(drafts[at].hit))
    return drafts, list(dict.fromkeys(not_judged)), notes
