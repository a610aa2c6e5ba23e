"""The grammar as a whole: determinism, samples, one rule a line, lark reads the same files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import nccl_insight
from nccl_insight.language.catalog import default_catalog
from nccl_insight.language.lint import lint
from nccl_insight.language.load import read_grammar
from nccl_insight.readers.nccl_log.extract import row_of
from nccl_insight.report.line import explain_text
from nccl_insight.tables.normalise import NORMALISERS
from nccl_insight.tables.sql import current, select
from tests import message_samples
from tests.checks import NAMES
from tests.language.grammars import FIELDS, GRAMMAR


def test_grammar_is_clean() -> None:
    assert [str(p) for p in lint(GRAMMAR, NAMES)] == []


@pytest.mark.parametrize("file", sorted(message_samples.by_file()))
def test_samples_give_their_values(file: str) -> None:
    catalog = default_catalog()
    for rule, samples in message_samples.by_file()[file].items():
        dtypes = dict(catalog.compiled(rule).columns)
        for sample in samples:
            match = catalog.try_rule(rule, sample.text.rstrip())
            assert match is not None, (rule, sample.text)
            assert row_of(match, dtypes) == sample.values, (rule, sample.text)


def test_directives_name_things_that_exist() -> None:
    for message in GRAMMAR.messages.values():
        for step in message.directives.get("normalise", "").replace(",", " ").split():
            assert step in NORMALISERS, f"{message.name}: normaliser {step}"


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
    environ |= {"PYTHONPYCACHEPREFIX": str(folder), "XDG_CACHE_HOME": str(folder / "caches")}
    environ |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", program], check=True, env=environ, capture_output=True, text=True)
    assert not done.stderr, done.stderr
    return done.stdout


def test_the_second_start_reads_what_the_first_kept(tmp_path: Path) -> None:
    program = (
        "from nccl_insight.base import kept\n"
        "from nccl_insight.language.catalog import default_catalog\n"
        "print(kept.place('outlines').is_file(), kept.place('grammar').is_file())\n"
        "catalog = default_catalog()\n"
        "print(sorted(catalog.outlines.items()), list(catalog.grammar.messages), catalog.headless_keys)\n"
        "print(catalog.match('comm 0x55d1 rank 3 nranks 8 cudaDev 3 busId 1b000 - Abort COMPLETE'))\n"
    )
    first, *told = _index_in(tmp_path, program).splitlines()
    second, *told_again = _index_in(tmp_path, program).splitlines()
    assert (first, second) == ("False False", "True True")
    assert told == told_again
    assert "rank" in told[-1]
