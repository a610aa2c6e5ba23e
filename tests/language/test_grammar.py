"""The grammar as a whole: determinism, samples, one rule a line, lark reads the same files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import nccl_insight
from nccl_insight.base.errors import GrammarError
from nccl_insight.language import index
from nccl_insight.language.catalog import Catalog, default_catalog
from nccl_insight.language.compile import check, outline
from nccl_insight.language.lint import lint
from nccl_insight.language.load import default_grammar, grammar_digest, grammar_files, read_grammar
from nccl_insight.language.reference import Reference
from nccl_insight.language.syntax import Message
from nccl_insight.readers.nccl_log.extract import extract, row_of
from nccl_insight.report.line import explain_text
from nccl_insight.tables.normalise import NORMALISERS
from nccl_insight.tables.sql import current, select
from tests import message_samples
from tests.checks import NAMES

GRAMMAR = default_grammar()
FIELDS = r"""
INT: /-?[0-9]+/
HEX: /[0-9a-f]+/
TEXT: /[^\r\n]+/
WORD: /[^ \r\n]+/
rank: INT
nranks: INT
reason: TEXT
host: WORD
kind: "Abort" | "Destroy"
"""


def problems(rule: str) -> list[str]:
    grammar = read_grammar({"fields.lark": FIELDS, "a.lark": f"one: {rule}\n"})
    return check(grammar, grammar.messages["one"])


def test_grammar_is_clean() -> None:
    assert [str(p) for p in lint(GRAMMAR, NAMES)] == []


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


@pytest.mark.parametrize("file", sorted(message_samples.by_file()))
def test_samples_give_their_values(file: str) -> None:
    catalog = default_catalog()
    for rule, samples in message_samples.by_file()[file].items():
        dtypes = dict(catalog.compiled(rule).columns)
        for sample in samples:
            match = catalog.try_rule(rule, sample.text.rstrip())
            assert match is not None, (rule, sample.text)
            assert row_of(match, dtypes) == sample.values, (rule, sample.text)


def test_no_sample_without_a_rule() -> None:
    assert sorted(set(message_samples.by_rule()) - set(GRAMMAR.messages)) == []


def test_samples_stand_under_the_name_of_their_grammar_file() -> None:
    for file, rules in message_samples.by_file().items():
        assert {GRAMMAR.messages[rule].origin.split(":")[0] for rule in rules} == {f"{file}.lark"}


def test_directives_name_things_that_exist() -> None:
    for message in GRAMMAR.messages.values():
        for step in message.directives.get("normalise", "").replace(",", " ").split():
            assert step in NORMALISERS, f"{message.name}: normaliser {step}"


def test_directives_at_the_head_of_a_file_hold_for_its_messages() -> None:
    head = "//! default-table: errors\n//! default-headless: yes\n\n"
    rules = 'one: "a " rank\n\n//! table: none\n//! headless: no\n//! diagnosis: x\n//! role: root\ntwo: "b " rank\n'
    grammar = read_grammar({"fields.lark": FIELDS, "a.lark": head + rules, "b.lark": 'three: "c " rank\n'})
    found = {name: (m.table, m.headless) for name, m in grammar.messages.items()}
    assert found == {"one": ("errors", True), "two": (None, False), "three": (None, False)}
    assert grammar.columns["rank"].name == "rank"


@pytest.mark.parametrize(
    "rule",
    [
        '"rank " rank " of " nranks',
        '"failed " reason " errno " rank',
        '"comm - " kind " COMPLETE"',
        '"on " host [" rank " rank]',
        '"value " reason "."',
    ],
)
def test_accepted_shapes(rule: str) -> None:
    assert problems(rule) == []


@pytest.mark.parametrize(
    ("rule", "word"),
    [
        ('"rank " rank "0" nranks', "could swallow"),
        ('"a" rank nranks', "may start with"),
        ('"x " ("ab" | "abc") " y"', "told apart"),
        ('"x " ["1" ] rank', "told apart"),
        ('rank " " rank', "stands twice"),
        ('"a " (rank " ")*', "repeat"),
    ],
)
def test_refused_shapes(rule: str, word: str) -> None:
    assert any(word in problem for problem in problems(rule))


NOTATIONS = (
    FIELDS
    + """
//! column: rank
rank_padded: PADDED
//! type: int
PADDED: /0[0-9]+/
//! column: reason
reason_word: WORD
"""
)


def test_a_column_may_stand_in_several_branches_and_notations() -> None:
    rule = 'one: "lost " ( "rank " rank | "#" rank "!" | "padded" rank_padded ) [ ": " reason ]\n'
    grammar = read_grammar({"fields.lark": NOTATIONS, "a.lark": rule})
    catalog = Catalog(grammar)
    texts = {"lost rank 3": 3, "lost #4!": 4, "lost padded005: gone": 5, "lost it": None}
    for text, rank in texts.items():
        match = catalog.match(text)
        assert (match and int(match.captures["rank"])) == rank
        parsed = Reference(grammar).parse("one", text)
        assert (parsed and int(parsed.captures["rank"])) == rank
    # Few texts go through Python's engine, many through polars.
    for times in (1, 600):
        rows = pl.Series(list(texts) * times)
        accepted, columns = extract(catalog.compiled("one"), rows)
        assert accepted.to_list() == [True, True, True, False] * times
        found = {column.name: column.to_list() for column in columns}
        assert found == {"rank": [3, 4, 5, None] * times, "reason": [None, None, "gone", None] * times}


@pytest.mark.parametrize(
    ("rule", "word"),
    [
        ('"a " rank " b" rank_padded', "stands twice"),
        ('"a " ( "x " rank | "y " host ) " b " rank', "stands twice"),
        ('"a " ( "x " reason | "y " reason ", z " rank )', "ends before different texts"),
    ],
)
def test_one_way_through_a_rule_has_a_column_once(rule: str, word: str) -> None:
    grammar = read_grammar({"fields.lark": NOTATIONS, "a.lark": f"one: {rule}\n"})
    assert any(word in problem for problem in check(grammar, grammar.messages["one"]))


def test_a_notation_has_the_type_of_its_column() -> None:
    with pytest.raises(GrammarError, match="no column rank of type str"):
        read_grammar({"fields.lark": FIELDS + "//! column: rank\nrank_word: WORD\n", "a.lark": 'one: "a"\n'})


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("one: NOPE\n", "neither a column nor a terminal"),
        ('one: ("a"\n', "not closed"),
        ("  one\n", "not a definition"),
        ('//! shape: x\none: "a"\n', "unknown directive"),
        ('one: "a"\none: "b"\n', "already defined"),
        ('one: "a" | \n', "empty branch"),
    ],
)
def test_syntax_errors_say_where(text: str, word: str) -> None:
    with pytest.raises(GrammarError, match=word):
        read_grammar({"fields.lark": FIELDS, "a.lark": text})


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
    assert min(len(k) for k in default_catalog().headless_keys()) >= 3


def test_the_index_of_a_rule_is_the_same_with_and_without_parsing_it() -> None:
    grammar = default_grammar()
    unparsed = [m for m in grammar.messages.values() if m.literals is not None]
    assert len(unparsed) > 500
    for message in unparsed:
        parsed = Message(message.name, message.expr, message.origin, message.directives)
        assert outline(grammar, message) == outline(grammar, parsed), message.name


@pytest.mark.parametrize(
    ("body", "literals"),
    [
        ('"Chains " rank " of " "n " nranks', ("Chains ", None, " of n ", None)),
        ('"tail " [ rank " x" ] ( "a" | "b" )', ("tail ", None, None)),
        ('"one" | "two"', None),
        ('"one"? "two"', None),
        ('"go" ( " on" )', None),
        ("rank", None),
    ],
)
def test_literals_without_parsing(body: str, literals: tuple[str | None, ...] | None) -> None:
    grammar = read_grammar({"fields.lark": FIELDS, "a.lark": f"one: {body}\n"})
    assert grammar.messages["one"].literals == literals


def test_the_packaged_grammar_reads_as_a_whole() -> None:
    whole = read_grammar(grammar_files())
    assert list(whole.messages) == list(default_grammar().messages)
    assert whole.digest == default_grammar().digest == grammar_digest()


def test_older_names_of_messages() -> None:
    files = {
        "fields.lark": FIELDS,
        "a.lark": '//! alias: was_so, was_thus\nis_so: "so " rank\nwas_thus: "thus " rank\n',
    }
    grammar = read_grammar(files)
    assert grammar.renamed == {"was_so": "is_so", "was_thus": "is_so"}
    assert [p.text for p in lint(grammar, NAMES)] == ["the alias was_thus is another message's name"]


def test_explain_and_query_take_older_names(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("n1:1:2 [0] NCCL WARN comm 0x55 has already been destroyed\n")
    told = explain_text("err_comm_already_been")
    assert told is not None
    assert told.startswith("err_comm_already_been is called err_comm_already_destroyed now.\n")
    assert "has already been destroyed" in told
    sql = "select line from errors where message = 'err_comm_already_been'"
    assert nccl_insight.load(log).table("errors")["message"].to_list() == ["err_comm_already_destroyed"]
    assert select(nccl_insight.load(log), sql)["line"].to_list() == [1]
    assert current(sql)[1] == {"err_comm_already_been": "err_comm_already_destroyed"}


def _index_in(folder: Path, program: str) -> str:
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environ |= {"PYTHONPYCACHEPREFIX": str(folder), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", program], check=True, env=environ, capture_output=True, text=True)
    assert not done.stderr, done.stderr
    return done.stdout


def test_the_second_start_reads_what_the_first_kept(tmp_path: Path) -> None:
    program = (
        "from nccl_insight.language.catalog import default_catalog, kept_index\n"
        "print(kept_index() is not None)\n"
        "catalog = default_catalog()\n"
        "print(sorted(catalog.outlines.items()), list(catalog.grammar.messages), catalog.headless_keys())\n"
        "print(catalog.match('comm 0x55d1 rank 3 nranks 8 cudaDev 3 busId 1b000 - Abort COMPLETE'))\n"
    )
    first, *told = _index_in(tmp_path, program).splitlines()
    second, *told_again = _index_in(tmp_path, program).splitlines()
    assert (first, second) == ("False", "True")
    assert told == told_again
    assert "rank" in told[-1]


def test_an_index_is_used_with_its_own_key_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outlines = {"one": index.Outline(("Chains ",), " of ", 11, False)}
    made = index.Index([("one", '"Chains " rank " of " nranks', {"table": "rings"}, "a.lark:1")], outlines)
    path = tmp_path / "new" / "index.json"
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    index.keep(path, "key", made)
    assert not path.exists()
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    index.keep(path, "key", made)
    assert [p.name for p in path.parent.iterdir()] == ["index.json"]
    found = index.kept(path, "key")
    assert found is not None
    assert found.outlines == outlines
    assert [tuple(row) for row in found.definitions] == made.definitions
    assert index.kept(path, "another") is None
    path.write_bytes(path.read_bytes()[:-20])
    assert index.kept(path, "key") is None
    (tmp_path / "file").write_text("x")
    index.keep(tmp_path / "file" / "index.json", "key", made)
    assert index.key_of("a") != index.key_of("b")
