"""What strerror() says in other languages: a program that calls setlocale() prints NCCL's reasons in the user's.

The texts stand in ``strerror.txt``.
"""

import re
from functools import cache
from importlib import resources
from typing import Final

import polars as pl

_COLUMNS: Final = ("error_text", "errno_text")
_MOST: Final = 4096


def in_english(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the reasons of system calls in English, for comparisons."""
    columns = [c for c in _COLUMNS if rows.schema.get(c) == pl.String]
    if not columns and "_body" in rows.columns:
        columns = ["_body"]
    for column in columns:
        texts = rows[column].drop_nulls().unique()
        if len(texts) > _MOST:
            continue
        new = {
            text: english
            for text in texts.to_list()
            if (english := _body(text) if column == "_body" else _english().get(text.strip().rstrip(".").lower()))
            is not None
        }
        if new:
            rows = rows.with_columns(pl.col(column).replace(new))
    return rows


@cache
def _english() -> dict[str, str]:
    """The English text of each other one, read for the first log that needs it."""
    found, english = {}, ""
    for line in resources.files(__package__).joinpath("strerror.txt").read_text("utf-8").splitlines():
        if line.startswith(" "):
            found[line.strip()] = english
        elif line and not line.startswith("#"):
            english = line
    return found


@cache
def _any() -> re.Pattern[str]:
    """Any of the texts."""
    return re.compile("|".join(re.escape(t) for t in sorted(_english(), key=len, reverse=True)))


def _body(text: str) -> str | None:
    if text.isascii():
        return None
    said = _any().sub(lambda found: _english()[found[0]], text.lower())
    return said if said != text.lower() else None
