"""HTML filled into templates; nothing reaches the page unescaped but what is :class:`markupsafe.Markup`."""

from functools import cache
from html import escape
from importlib import resources

import orjson
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from nccl_insight.base.units import format_bytes, format_ranks, listed, plural
from nccl_insight.report import story, words
from nccl_insight.report.sanitize import one_line, sanitize, scrub

LIMIT = 4000


def fill(name: str, **values: object) -> Markup:
    """The template of that name in ``templates`` with its values; a value that it asks for and lacks is an error."""
    return Markup(environment().get_template(name).render(values))


@cache
def environment() -> Environment:
    """How templates are read and filled in; their filters, and the words that they may ask for."""
    made = Environment(loader=FunctionLoader(_source), autoescape=True, undefined=StrictUndefined, finalize=_safe)
    made.filters |= {f.__name__: f for f in (format_bytes, format_ranks, listed, one_line, plural, prose, scrub)}
    made.filters |= {"driver": words.driver, "thousands": "{:,}".format}
    made.globals |= {"words": words, "story": story}
    return made


def _source(name: str) -> str:
    """A template without line breaks and the space around them; comments keep the lines of an error right."""
    text = resources.files("nccl_insight.report.html").joinpath("templates").joinpath(name).read_text(encoding="utf-8")
    return "{#\n#}".join(line.strip() for line in text.splitlines())


def _safe(value: object) -> Markup:
    """A value on its way to the page: sanitized and escaped, for text and for attributes alike."""
    if isinstance(value, Markup):
        return value
    return Markup("" if value is None else escape(sanitize(str(value), LIMIT), quote=True))


def prose(text: str) -> Markup:
    """Prose of a rule: pieces between backticks become ``<code>``."""
    parts = [(code, _safe(piece)) for code, piece in words.code_parts(text)]
    return Markup("").join(Markup(f"<code>{piece}</code>") if code else piece for code, piece in parts)


def json_block(element_id: str, value: object) -> Markup:
    """A data block that no text in it can end: ``<``, ``>``, ``&`` and line separators are escaped."""
    text = orjson.dumps(_clean(value)).decode()
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(f'<script type="application/json" id="{escape(element_id)}">{text}</script>')


def _clean(value: object) -> object:
    if isinstance(value, str):
        return sanitize(value)
    if isinstance(value, dict):
        return {sanitize(str(key)): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    # Sums of absurd numbers leave the 64 bits that the writer takes.
    return float(value) if isinstance(value, int) and value.bit_length() > 63 else value
