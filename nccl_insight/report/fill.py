"""Templates of the reports filled in: every value is made safe on its way, only what is marked passes as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from nccl_insight.base.units import (
    capital,
    format_bytes,
    format_gbps,
    format_ns,
    format_ranks,
    listed,
    plural,
    rank_words,
)
from nccl_insight.report import story, words
from nccl_insight.report.sanitize import one_line, sanitize, scrub

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def environment(
    safe: Callable[[str], str], filters: Mapping[str, Callable[..., Any]], read: Callable[[str], str] | None = None
) -> Environment:
    """How templates are read and filled in. The library is imported for who fills one in, not at each start.

    Args:
        safe: makes the text of a value safe for what is written.
        filters: those of the format, beside the units and words that all share.
        read: the text of a template by its name; those of this room's ``templates`` where none is given.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    def finished(value: object) -> object:
        return value if hasattr(value, "__html__") else marked("" if value is None else safe(str(value)))

    made = Environment(
        loader=FunctionLoader(read or template),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finished,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    shared = (capital, format_bytes, format_gbps, format_ns, format_ranks, listed, one_line, plural, rank_words, scrub)
    made.filters |= {f.__name__: f for f in shared} | {"thousands": "{:,}".format} | dict(filters)
    made.globals |= {"words": words, "story": story}
    return made


def text(name: str, **values: object) -> str:
    """The template of that name as text without markup."""
    return _plain().get_template(name).render(values)


@cache
def _plain() -> Environment:
    return environment(sanitize, {})


def template(name: str, room: str = "nccl_insight.report") -> str:
    """Text of a template of a room."""
    return resources.files(room).joinpath("templates").joinpath(name).read_text(encoding="utf-8")


def marked(text: str) -> Markup:
    """Text that is safe already."""
    from markupsafe import Markup

    return Markup(text)
