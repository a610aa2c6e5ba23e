"""All rules together."""

from __future__ import annotations

from nccl_insight.language.catalog import Catalog, default_catalog
from nccl_insight.language.load import read_grammar
from tests import message_samples
from tests.language.grammars import FIELDS, GRAMMAR


def test_every_rule_has_samples_that_only_it_accepts() -> None:
    catalog = default_catalog()
    wrong: list[str] = []
    for name in sorted(GRAMMAR.messages):
        samples = message_samples.by_rule().get(name, [])
        if not samples:
            wrong.append(f"{name}: no sample")
        for text in (sample.text.rstrip() for sample in samples):
            found = [c for c in catalog.candidates(text) if catalog.try_rule(c, text)]
            accepted = [c for c in found if c == name or not catalog.grammar.messages[c].last_resort]
            if accepted != [name]:
                wrong.append(f"{name}: {text[:80]!r} accepted by {accepted}")
    assert wrong == []


def test_a_string_ends_at_the_first_occurrence() -> None:
    grammar = read_grammar({"fields.lark": FIELDS, "a.lark": 'one: "failed " reason " errno " rank\n'})
    catalog = Catalog(grammar)
    found = catalog.match("failed no route errno 113")
    assert found is not None
    assert found.captures == {"reason": "no route", "rank": "113"}
    assert catalog.match("failed no errno 1 route errno 113") is None


def test_blanks_may_be_folded() -> None:
    grammar = read_grammar({"fields.lark": FIELDS, "a.lark": 'one: "Chains  " rank "  of " nranks\n'})
    catalog = Catalog(grammar)
    assert catalog.match("Chains 3 of 4") is None
    found = catalog.match_collapsed("Chains 3 of 4")
    assert found is not None
    assert found.captures == {"rank": "3", "nranks": "4"}


def test_a_rule_over_lines_takes_its_first_line_alone() -> None:
    grammar = read_grammar({"fields.lark": FIELDS, "a.lark": 'one: "bind failed " rank ".\\nAsk " host\n'})
    catalog = Catalog(grammar)
    whole = catalog.match("bind failed 3.\nAsk node1")
    alone = catalog.match("bind failed 3.")
    assert whole is not None
    assert alone is not None
    assert whole.captures == {"rank": "3", "host": "node1"}
    assert alone.captures == {"rank": "3"}


def test_a_first_line_alone_needs_no_literal_of_the_others() -> None:
    rules = 'one: "bind failed " rank ".\\nA longer text of the second line " host\n'
    rules += 'two: "bind lost " rank [ "\\non " host ] "."\n'
    catalog = Catalog(read_grammar({"fields.lark": FIELDS, "a.lark": rules}))
    for text in ("bind failed 3.", "bind failed 3.\nA longer text of the second line node1", "bind lost 3"):
        found = catalog.match(text)
        assert found is not None, text
        assert found.captures["rank"] == "3"


def test_only_rules_whose_literal_stands_in_a_text_are_tried() -> None:
    rules = 'one: "Using network " host\ntwo: "Using " nranks " threads"\n'
    catalog = Catalog(read_grammar({"fields.lark": FIELDS, "a.lark": rules}))
    assert catalog.candidates("Using network IB") == ["one"]
    assert catalog.candidates("Using 8 threads") == ["two"]
    assert catalog.candidates("Using 8") == []


def test_headless_rules_have_a_key() -> None:
    """A headless rule is only tried on lines that hold one of the keys, so every key must be distinctive."""
    assert min(len(k) for k in default_catalog().headless_keys) >= 3
