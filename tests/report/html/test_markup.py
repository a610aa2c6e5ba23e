"""HTML filled into templates, so that nothing reaches the page unescaped."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from nccl_insight.report.html import markup
from nccl_insight.report.html.markup import environment, json_block, prose

REPORT = Path(markup.__file__).parents[1]
TEMPLATES = sorted([*REPORT.glob("html/templates/*"), *REPORT.glob("templates/*")])
TABLE = (
    '{% import "macros.html" as m %}{% call(row) m.table("Ranks", ["Rank", "Wait"], rows, total, [1]) %}'
    '<th scope="row">{{ row[0] }}</th><td class="n">{{ row[1] }}</td>{% endcall %}'
)


def _filled(template: str, **values: object) -> str:
    return environment().from_string(template).render(values)


def test_numbers_beyond_64_bits_are_written() -> None:
    block = str(json_block("x", {"sum": 2**70, "plain": 2**62, "flag": True}))
    assert json.loads(re.sub("<[^>]*>", "", block)) == {"sum": 2.0**70, "plain": 2**62, "flag": True}


def test_only_markup_reaches_the_page_unescaped() -> None:
    assert _filled("<p>{{ a }}{{ b }}{{ c }}</p>", a="a < b & c", b=None, c=7) == "<p>a &lt; b &amp; c7</p>"
    assert _filled("{{ x | join }}{{ br }}", x=["<i>", "&"], br=Markup("<br>")) == "&lt;i&gt;&amp;<br>"
    assert _filled('<a title="{{ x }}">', x='"><script>') == '<a title="&quot;&gt;&lt;script&gt;">'
    assert _filled("<a title='{{ x }}'>", x="'\x1b[31m\u202e") == "<a title='&#x27;\\u202e'>"
    assert prose("run `a < b` now") == "run <code>a &lt; b</code> now"


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_turns_escaping_off(template: Path) -> None:
    text = template.read_text(encoding="utf-8")
    assert not re.search(r"\|\s*(?:safe|striptags|forceescape|tojson|xmlattr)\b|autoescape|Markup", text)
    # An attribute without quotes would end at a space of its value.
    assert template.suffix != ".html" or not re.search(r"=\{\{", re.sub(r"\{%.*?%\}", "", text))


def test_a_value_that_a_template_lacks_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        _filled("{{ not_given }}")


def test_headings_can_be_linked_to() -> None:
    chapter = '{% import "macros.html" as m %}{% call m.chapter("here", "A & B") %}text{% endcall %}'
    assert '<h2 id="here">A &amp; B</h2>text' in _filled(chapter)
    panel = '{% import "macros.html" as m %}{% call m.panel("here", "T", "q") %}text{% endcall %}'
    assert _filled(panel) == '<section class="q" aria-labelledby="here"><h2 id="here">T</h2>text</section>'


def test_a_table_says_how_many_rows_it_leaves_out() -> None:
    short = _filled(TABLE, rows=[["0", 5], ["<1>", 6]], total=1_003)
    assert '<p class="more">and 1,001 more; the JSON output has all of them</p>' in short
    assert '<th scope="row">&lt;1&gt;</th><td class="n">6</td>' in short
    assert '<th scope="col">Rank</th><th scope="col" class="n">Wait</th>' in short
    assert "more" not in _filled(TABLE, rows=[["0", 5]], total=1)
