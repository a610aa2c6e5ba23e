"""A finding tells what its own line says: the help of the message goes before that of the page.

The line is the first of the evidence that means the finding's diagnosis and brings help (grammars, docs/grammar.md
"Help"). A remedy that a line offers itself ("Set X=1 to enable") is told in any case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from nccl_insight.engine.draft import MAX_EVIDENCE, Draft
from nccl_insight.engine.steps import steps_of
from nccl_insight.facts.errors import causes
from nccl_insight.facts.settings import named
from nccl_insight.language.help import Block, Help, default_blocks, filled, own_help
from nccl_insight.language.load import default_grammar
from nccl_insight.model import Hit, Ref, Step
from nccl_insight.tables.normalise.meaning import words
from nccl_insight.tables.run import Run
from nccl_insight.units import rank_words

_TITLE_MOST: Final = 120
# "Set NCCL_X=1 to enable", "consider setting X to Y", "use X=Y", "increase X".
_OFFERED: Final = re.compile(
    r"\b(?:set(?:ting)?|us(?:e|ing)|try(?:ing)?|export|specify|(?:de|in)creas(?:e|ing)) (?:the )?"
    r"(?:environment variable |env(?:ironment)? )?"
    r"[`'\"]?(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+)(?P<value>(?:=| to )[`'\"]?[A-Za-z0-9_./:-]*[A-Za-z0-9])?",
    re.IGNORECASE,
)
_HIDES: Final = re.compile(r"disable (?:this|the) (?:warning|message)|NCCL_DEBUG", re.IGNORECASE)


def helped(run: Run, drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts in the words and with the steps of their own messages, where these have any."""
    if not any(draft.hit.evidence for draft in drafts) or not run.has("errors"):
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
    offered: Step | None = None
    for at, ref in enumerate(draft.hit.evidence[:MAX_EVIDENCE]):
        frame = rows.get((ref.input_id, ref.line))
        if frame is None or (frame := frame.filter(pl.col("cause") == draft.name)).is_empty():
            continue
        values = {k: v for k, v in frame.row(0, named=True).items() if v is not None}
        offered = offered or _offer(str(values.get("text", "")))
        found = _help_of(frame, draft.name, str(values.get("message", "")))
        told = next((told for h in found if (told := _told(h, draft, values))), None)
        if told is not None:
            return _with_offer(replace(told, hit=_first(told.hit, at)), offered)
    return _with_offer(draft, offered)


def _first(hit: Hit, at: int) -> Hit:
    """The hit with that line as its first evidence."""
    refs: tuple[Ref, ...] = hit.evidence
    return replace(hit, evidence=(refs[at], *refs[:at], *refs[at + 1 :])) if at else hit


def _help_of(row: pl.DataFrame, diagnosis: str, message: str) -> list[Help]:
    """Help for a line, the closest first: of its message by a value, of its message, of its diagnosis by a value."""
    by_message = [b.help for b in default_blocks() if message in b.names and _holds(row, b)]
    known = default_grammar().messages
    own = own_help(message, known[message].directives) if message in known else None
    by_diagnosis = [b.help for b in default_blocks() if diagnosis in b.names and _holds(row, b)]
    return [*by_message, *([own] if own else []), *by_diagnosis]


def _holds(row: pl.DataFrame, block: Block) -> bool:
    return not block.cases or words(row.head(1), block.cases)[0] is not None


def _told(help_: Help, draft: Draft, values: Mapping[str, object]) -> Draft | None:
    """The draft as the help puts it; None where the help lacks the values that it needs."""
    said = {part: filled(text, values) for part, text in help_.parts.items()}
    if help_.says and not said["says"]:
        return None
    given = [
        Step(kind, said[kind], said["where"] if kind == "check" else "") for kind in ("check", "fix", "do")
    ]
    steps = tuple(step for step in given if step.text)
    if not steps and not said["says"]:
        return None
    told = replace(draft, steps=steps)
    if not said["says"]:
        return told
    title = said["says"] + _who(draft.hit, said["says"])
    return replace(told, hit=replace(draft.hit, title=title, observed="", expected=""))


def _who(hit: Hit, says: str) -> str:
    """`` (rank 0 on gpu01)``, where the sentence does not say it and has room for it."""
    hosts = named(hit.hosts)
    parts = [p for p in (rank_words(hit.ranks) if hit.ranks else "", hosts) if p and p not in says]
    who = f" ({' on '.join(parts)})" if parts else ""
    return who if len(says) + len(who) <= _TITLE_MOST else ""


def _offer(text: str) -> Step | None:
    """The setting that a line tells to use, as a command or a sentence."""
    match = _OFFERED.search(text)
    if match is None or not match["name"].isupper() or _HIDES.search(text):
        return None
    name, value = match["name"], re.sub(r"^(?:=| to )|[`'\"]", "", match["value"] or "")
    told = "the line itself offers it"
    return Step("fix", f"export {name}={value}", told) if value else Step("do", f"set {name}: {told}")


def _with_offer(draft: Draft, offered: Step | None) -> Draft:
    if offered is None:
        return draft
    name = re.sub(r"^(?:export|set) ([A-Z0-9_]+).*", r"\1", offered.text)
    steps = draft.steps or steps_of(draft.hit.next_step)
    return draft if any(name in step.text for step in steps) else replace(draft, steps=(offered, *steps))
