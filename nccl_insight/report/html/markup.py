"""HTML filled into templates; nothing reaches the page unescaped but what is :class:`markupsafe.Markup`."""

from functools import cache
from html import escape

import orjson
from jinja2 import Environment
from markupsafe import Markup

from nccl_insight.report import fill as templates
from nccl_insight.report import words
from nccl_insight.report.sanitize import sanitize

LIMIT = 4000


def fill(name: str, **values: object) -> Markup:
    """The template of that name in ``templates`` with its values; a value that it asks for and lacks is an error."""
    return Markup(environment().get_template(name).render(values))


@cache
def environment() -> Environment:
    """How the templates of the page are filled in."""
    return templates.environment(_escaped, {"driver": words.driver, "prose": prose}, _source)


def _source(name: str) -> str:
    """A template without line breaks and the space around them; comments keep the lines of an error right."""
    return "{#\n#}".join(line.strip() for line in templates.template(name, "nccl_insight.report.html").splitlines())


def _escaped(text: str) -> str:
    """Sanitized and escaped, for text and for attributes alike."""
    return escape(sanitize(text, LIMIT), quote=True)


def prose(text: str) -> Markup:
    """Prose of a rule: pieces between backticks become ``<code>``."""
    parts = [(code, Markup(_escaped(piece))) for code, piece in words.code_parts(text)]
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
