"""The whole way from a run to its analysis."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence

from nccl_insight.advise.expect.machine import parse_nics
from nccl_insight.base.model import Analysis, Finding, Mend, NotJudged, RanksApart, Replayed, Suppressed, ToolInfo
from nccl_insight.base.units import format_ranks, plural
from nccl_insight.base.version import __version__
from nccl_insight.engine.causes import place
from nccl_insight.engine.draft import Draft
from nccl_insight.engine.evidence import collect
from nccl_insight.engine.fill import filled_in
from nccl_insight.engine.help import helped
from nccl_insight.engine.journey import progress
from nccl_insight.engine.measured import copy_sentences, fabric_sentences, measured_sentences
from nccl_insight.engine.more import more_of
from nccl_insight.engine.outline import outline
from nccl_insight.engine.policy import Policy
from nccl_insight.engine.runner import run_rules
from nccl_insight.engine.several import WHOLE, earlier_causes, job_parts, merged_status, once, unjudged, with_causes
from nccl_insight.engine.story import story
from nccl_insight.engine.summary import coverage_of, has_matter, inputs_of, job_of, outputs_of
from nccl_insight.engine.verdict import headline, status_of
from nccl_insight.facts.ahead import begun
from nccl_insight.facts.figures.apart import figures
from nccl_insight.facts.progress import watchdog
from nccl_insight.facts.who.parts import part_run, parts
from nccl_insight.language.load import grammar_digest
from nccl_insight.rules import Rule, discover
from nccl_insight.tables.run import Asked, Run

SCHEMA_VERSION = 1
_MOST_APART = 1000


def analyze(
    run: Run, policy: Policy | None = None, rules: Sequence[Rule] | None = None, symptom: str = "", nics: str = ""
) -> Analysis:
    """Judges a run.

    Args:
        run: the tables.
        policy: what to select, silence and weigh differently; the default judges everything.
        rules: the rules to use, by default all that are installed.
        symptom: ``hang``, ``slow`` or ``crash``, where the user knows: never ok then, and next commands for that.
        nics: NICs of each node as COUNTxGBITS, where the inputs do not tell: what benchmarks should reach.

    Raises:
        UsageError: ``nics`` is not of that form.
        InsightError: an installed rule module is malformed.
    """
    policy = policy or Policy()
    if nics:
        parse_nics(nics)
    run = run.judged_as(Asked(policy.thresholds, symptom, nics))
    with begun(run):
        return _judged(run, policy, rules)


def _judged(run: Run, policy: Policy, rules: Sequence[Rule] | None) -> Analysis:
    installed = list(discover() if rules is None else rules)
    chosen = [rule for rule in installed if policy.selects(rule)]
    coverage = coverage_of(run)
    # Without anything to judge, what the readers noted about the inputs is still told.
    judged = chosen if has_matter(run) else [r for r in chosen if r.needs == ("inputs",)]
    runs = [part_run(run, part) for part in parts(run) if part.judged]
    placed: list[Draft] = []
    open_: list[list[NotJudged]] = []
    notes: dict[str, None] = {}
    own_rules, whole = _by_reach(run, judged)
    earlier = earlier_causes(run, lambda own: place(own, run_rules(own, own_rules)[0], policy.severity_of))
    for own in runs:
        drafts, gaps, said = run_rules(own, own_rules)
        drafts += run_rules(run, whole)[0] if own is runs[0] else []
        found = place(own, drafts, policy.severity_of)
        found = [with_causes(draft, run, earlier, found) for draft in found]
        placed += filled_in(own, helped(own, found))
        open_.append(gaps)
        notes |= dict.fromkeys(said)
    not_judged = unjudged(open_)
    if left := len(installed) - len(chosen):
        notes[f"{plural(left, 'rule')} not selected by the policy"] = None
    placed = once(placed)
    findings, suppressed = _finish(run, placed, policy)
    inputs = inputs_of(run)
    states = [status_of(own, findings, coverage, policy.min_coverage) for own in runs]
    status, reasons = merged_status(states)
    last = runs[0] if len(runs) == 1 else run
    seen = progress(last)
    job = job_of(last)
    mends, replay = replayed(last)
    return Analysis(
        status=status,
        findings=findings,
        job=job,
        coverage=coverage,
        inputs=inputs,
        tool=ToolInfo("nccl-insight", __version__, SCHEMA_VERSION, grammar_digest()),
        suppressed=suppressed,
        not_judged=tuple(not_judged),
        notes=(*measured_sentences(last), *copy_sentences(last), *fabric_sentences(last), *notes, *policy.notes()),
        headline=headline(status, findings, reasons, inputs, not any(d.undecided for d in placed[:1])),
        summary=outline(last),
        reasons=reasons,
        progress=seen,
        more=more_of(last, not_judged, coverage, status, run.asked.symptom, findings, reasons),
        jobs=job_parts(run, earlier),
        apart=tuple(
            RanksApart(f.title, f.median, len(f.apart), tuple((rank, f.values[rank]) for rank in f.apart[:_MOST_APART]))
            for f in figures(last)
            if f.apart
        ),
        what_if=mends,
        replay=replay,
        outputs=outputs_of(run),
        story=story(last, findings, job),
    )


def _by_reach(run: Run, rules: Sequence[Rule]) -> tuple[list[Rule], list[Rule]]:
    """The rules that judge each part of the run by itself, and those that judge several parts together."""
    whole = [rule for rule in rules if rule.name in WHOLE and len(parts(run)) > 1]
    return [rule for rule in rules if rule not in whole], whole


def replayed(run: Run) -> tuple[tuple[Mend, ...], Replayed | None]:
    """What mending would gain, in order, and how the traces were replayed: None where no ranks met in traces."""
    if not run.has("trace_info"):
        return (), None
    from nccl_insight.facts.lateness.replay import what_if  # brings numpy, which logs do not need

    found = what_if(run)
    if not found.ranks:
        return (), None
    mends = tuple(
        Mend(s.text, s.kind, s.ranks, s.group, s.steps, g.step_ns, g.gain_ns, g.gain_share, g.alone_ns)
        for g in found.gains
        for s in [g.scenario]
    )
    return mends, Replayed(found.base_error, found.ranks, found.steps, found.window_ns, found.ideal_ns, found.refused)


def _fingerprint(draft: Draft, ordinals: Mapping[str, int], repeat: int) -> str:
    """Identity of a finding that survives another run's pids, addresses and host names, and redaction.

    16 hex digits of code, name, ranks, place of the communicator in the table and the number among its equals.
    """
    comm = ordinals.get(draft.hit.comm_id, -1) if draft.hit.comm_id is not None else -1
    key = f"{draft.rule.code}|{draft.name}|{format_ranks(draft.hit.ranks, 1 << 30)}|{comm}|{repeat}"
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def _finish(run: Run, drafts: Sequence[Draft], policy: Policy) -> tuple[tuple[Finding, ...], tuple[Suppressed, ...]]:
    ids = run.table("communicators")["comm_id"].drop_nulls().unique(maintain_order=True)
    ordinals = {str(comm): index for index, comm in enumerate(ids)}
    waits = watchdog.begun(run)
    marks: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    findings: list[Finding] = []
    suppressed: list[Suppressed] = []
    for draft, evidence in zip(drafts, collect(run, drafts), strict=True):
        mark = _fingerprint(draft, ordinals, 0)
        marks[mark] += 1
        if marks[mark] > 1:
            mark = _fingerprint(draft, ordinals, marks[mark] - 1)
        numbers[draft.rule.code] += 1
        began = min((waits[at] for r in draft.hit.evidence if (at := (r.input_id, r.line)) in waits), default=None)
        finding = draft.finding(evidence, mark, f"{draft.rule.code}-{numbers[draft.rule.code]}", began)
        silence = policy.silenced(finding)
        if silence is None:
            findings.append(finding)
        else:
            suppressed.append(Suppressed(finding, *silence))
    return tuple(findings), tuple(suppressed)
