"""A finding tells what its own line says: the help of the message goes before that of the page.

The line is the first of the evidence that means the finding's diagnosis and brings help (grammars, docs/grammar.md
"Help"); one that only says that something failed comes last. A remedy that a line offers itself ("Set X=1 to enable")
is told in any case.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from nccl_insight.base.advice import advised, offered
from nccl_insight.base.model import Step
from nccl_insight.base.natures import called
from nccl_insight.engine.draft import MAX_EVIDENCE, Draft
from nccl_insight.facts.said.errors import CONSEQUENCE, causes
from nccl_insight.facts.said.topics import plays
from nccl_insight.rules._errors import with_who
from nccl_insight.tables.normalise.help import help_of, steps_of_help
from nccl_insight.tables.run import Run


def helped(run: Run, drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts in the words and with the steps of their own messages, where these have any."""
    if not any(draft.hit.evidence for draft in drafts) or causes(run).is_empty():
        return list(drafts)
    rows = _rows(run, drafts)
    return [_helped(draft, rows) for draft in drafts]


def _rows(run: Run, drafts: Sequence[Draft]) -> dict[tuple[int, int], pl.DataFrame]:
    """The failure lines that are evidence of a draft, by input and line."""
    refs = {(r.input_id, r.line) for d in drafts for r in d.hit.evidence[:MAX_EVIDENCE] if r.line > 0}
    lines = causes(run).filter(
        pl.col("line").is_in({line for _, line in refs}) & (pl.col("role") != "benign").fill_null(True)
    )
    return {
        (int(i), int(n)): frame
        for (i, n), frame in lines.group_by("input_id", "line", maintain_order=True)
        if (i, n) in refs
    }


def _helped(draft: Draft, rows: Mapping[tuple[int, int], pl.DataFrame]) -> Draft:
    offer: Step | None = None
    advice = ""
    found = [(at, rows.get((ref.input_id, ref.line))) for at, ref in enumerate(draft.hit.evidence[:MAX_EVIDENCE])]
    # What only passes a failure on is all there is of it where nothing says why.
    means = {draft.name, CONSEQUENCE if draft.name == called("unexplained") else draft.name}
    own = [(at, frame.filter(pl.col("cause").is_in(means))) for at, frame in found if frame is not None]
    for at, frame in sorted(own, key=lambda one: bool(plays(one[1], "vague").any())):
        if frame.is_empty():
            continue
        text, cause, message = (str(frame[column][0] or "") for column in ("text", "cause", "message"))
        offer, advice = offer or offered(text), advice or advised(text)
        said = None if draft.hit.says_more else help_of(frame.head(1), cause, message)
        if said is not None:
            told, refs = _told(said, draft), draft.hit.evidence
            first = replace(told.hit, evidence=(refs[at], *refs[:at], *refs[at + 1 :]))
            return _with_offer(replace(told, hit=first), offer)
    if advice and not offer and not draft.hit.says_more:
        draft = replace(draft, own_steps=(Step("do", f'as the line itself advises: "{advice}"'), *draft.steps))
    return _with_offer(draft, offer)


def _told(said: Mapping[str, str], draft: Draft) -> Draft:
    """The draft as the help puts it."""
    told = replace(draft, own_steps=steps_of_help(said))
    if not said["says"]:
        return told
    title = with_who(said["says"], draft.hit.ranks, draft.hit.hosts)
    return replace(told, hit=replace(draft.hit, title=title, observed="", expected=""))


def _with_offer(draft: Draft, offer: Step | None) -> Draft:
    if offer is None:
        return draft
    name = re.sub(r"^(?:export|set) ([A-Z0-9_]+).*", r"\1", offer.text)
    return draft if any(name in step.text for step in draft.steps) else replace(draft, own_steps=(offer, *draft.steps))
