"""The help that the grammar has for one line, with its values filled in."""

from collections.abc import Iterator, Mapping

import polars as pl

from nccl_insight.base.advice import advised, named
from nccl_insight.base.model import Step
from nccl_insight.language.help import Help, default_blocks, filled, own_help
from nccl_insight.language.load import default_grammar
from nccl_insight.language.meanings import Case
from nccl_insight.tables.normalise.meaning import words


def help_of(row: pl.DataFrame, diagnosis: str, message: str) -> Mapping[str, str] | None:
    """``says``, ``check``, ``where``, ``fix`` and ``do`` of the closest help for a line (one row), or None.

    The closest is that of its message by a value, then of its message, then of its diagnosis by a value. Help whose
    ``says`` lacks a value is passed over; other parts are empty where a value is unknown.
    """
    values = {name: value for name, value in row.row(0, named=True).items() if value is not None}
    values["advice"] = advised(f"{values.get('text', '')} {values.get('help_text', '')}")
    values["option"] = named(str(values.get("error_text") or values.get("text", "")))
    for help_ in _closest(row, diagnosis, message):
        said = {part: filled(text, values) for part, text in help_.parts.items()}
        if (said["says"] or not help_.says) and any(said[p] for p in ("says", "check", "fix", "do")):
            return said
    return None


def steps_of_help(said: Mapping[str, str]) -> tuple[Step, ...]:
    """The steps of a help, as :func:`help_of` gives it."""
    given = (
        Step(kind, said.get(kind, ""), said.get("where", "") if kind == "check" else "")
        for kind in ("check", "fix", "do")
    )
    return tuple(step for step in given if step.text)


def _closest(row: pl.DataFrame, diagnosis: str, message: str) -> Iterator[Help]:
    yield from _held(row, message)
    known = default_grammar().messages
    if message in known and (own := own_help(message, known[message].directives)):
        yield own
    yield from _held(row, diagnosis)


def _held(row: pl.DataFrame, name: str) -> Iterator[Help]:
    """The help of the blocks for a name whose cases hold, in order; one query for all that stand behind the last."""
    blocks = [*default_blocks(name)]
    while said := words(row, [c for b in blocks for c in b.cases or (Case((), b.help.name),)])[0]:
        at = next(n for n, b in enumerate(blocks) if b.help.name == said)
        yield blocks[at].help
        del blocks[: at + 1]
