"""HTML built from values, so that nothing reaches the page unescaped."""

from __future__ import annotations

import json
import re

from nccl_insight.report.html.markup import button, chapter, el, join, json_block, panel, prose, table, unseen


def test_numbers_beyond_64_bits_are_written() -> None:
    block = str(json_block("x", {"sum": 2**70, "plain": 2**62, "flag": True}))
    assert json.loads(re.sub("<[^>]*>", "", block)) == {"sum": 2.0**70, "plain": 2**62, "flag": True}


def test_only_markup_reaches_the_page_unescaped() -> None:
    assert el("p", "a < b & c", None, 7, el("b", "x")) == "<p>a &lt; b &amp; c7<b>x</b></p>"
    assert join(["<i>", ["&", el("br")]]) == "&lt;i&gt;&amp;<br>"
    assert el("a", "x", title='"><script>') == '<a title="&quot;&gt;&lt;script&gt;">x</a>'


def test_names_and_values_of_attributes() -> None:
    assert el("div", class_="n", aria_label="x", hidden=True, id=None, open=False) == (
        '<div class="n" aria-label="x" hidden></div>'
    )
    assert el("input", "no child", value=0) == '<input value="0">'
    assert prose("run `a < b` now") == "run <code>a &lt; b</code> now"
    assert unseen("more") == '<span class="live">more</span>'


def test_headings_can_be_linked_to() -> None:
    assert '<h2 id="here">A &amp; B</h2>' in chapter("here", "A & B", "text")
    assert panel("here", "T", "text", class_="q") == (
        '<section class="q" aria-labelledby="here"><h2 id="here">T</h2>text</section>'
    )
    assert 'type="button"' in button("copy", "Copy", "the command")


def test_a_table_says_how_many_rows_it_leaves_out() -> None:
    short = table("Ranks", ["Rank", "Wait"], [["0", 5], ["<1>", 6]], total=1_003, numeric=[1])
    assert '<p class="more">and 1,001 more; the JSON output has all of them</p>' in short
    assert '<th scope="row">&lt;1&gt;</th><td class="n">6</td>' in short
    assert '<th scope="col">Rank</th><th scope="col" class="n">Wait</th>' in short
    assert "more" not in table("Ranks", ["Rank"], [["0"]], total=1)
