"""What a message means: the cases of the grammar, the columns of errors and parse, the fallback for unknown lines."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import nccl_insight
from nccl_insight.base.errors import GrammarError
from nccl_insight.inputs.find import find_inputs
from nccl_insight.language.lint import lint
from nccl_insight.language.load import read_grammar
from nccl_insight.readers.nccl_log.objects import parse_objects
from nccl_insight.tables.normalise.meaning import meanings
from tests.checks import NAMES

FIELDS = "NAME: /[A-Za-z0-9_]+/\nINT: /-?[0-9]+/\nTEXT: /[^\\n]+/\nerrno: INT\nfunction: NAME\nerror_text: TEXT\n"
SHARED = """//! define: qp
//! when: errno = 110 => ib-qp-timeout root
//! when: errno = 100..102 => ib-qp-unreachable root
//! when: error_text ~ Timed Out => ib-qp-timeout root

"""
RULE = """//! table: errors
//! diagnosis: ib-verbs-failed
//! role: root
//! when: level = INFO => benign
//! when: function = modify_qp => @qp
//! when: source = ras.cc => ras-port-in-use
//! when: function !~ qp | cq & errno = 12 => resource-exhausted effect
failed: "call " function " errno " errno [ " " error_text ]
"""


def judged(*rows: tuple[str, int, str | None, str, str | None], rule: str = RULE) -> list[tuple[str, str]]:
    grammar = read_grammar({"fields.lark": FIELDS, "meanings.lark": SHARED, "x.lark": rule})
    assert lint(grammar, NAMES) == []
    frame = pl.DataFrame(
        rows,
        schema={"function": pl.String, "errno": pl.Int64, "error_text": pl.String, "_level": pl.String,
                "_source": pl.String},
        orient="row",
    )  # fmt: skip
    return list(meanings(frame, grammar.messages["failed"]).iter_rows())


def test_the_first_case_that_holds_decides() -> None:
    assert judged(
        ("modify_qp", 110, None, "WARN", None),
        ("modify_qp", 101, None, "WARN", None),
        ("modify_qp", 5, "it timed out", "WARN", None),
        ("modify_qp", 5, None, "WARN", "a/ras.cc:12 (run)"),
        ("modify_qp", 5, None, "WARN", "a/xras.cc:12"),
        ("poll_cq", 12, None, "WARN", None),
        ("malloc", 12, None, "WARN", None),
        ("modify_qp", 110, None, "INFO", None),
    ) == [
        ("ib-qp-timeout", "root"),
        ("ib-qp-unreachable", "root"),
        ("ib-qp-timeout", "root"),
        ("ras-port-in-use", "root"),
        ("ib-verbs-failed", "root"),
        ("ib-verbs-failed", "root"),
        ("resource-exhausted", "effect"),
        ("ib-verbs-failed", "benign"),
    ]


def test_defaults_of_a_file_hold_for_its_silent_messages() -> None:
    rule = "//! default-diagnosis: nccl-internal-error\n//! default-role: root\n\n"
    rule += '//! table: errors\nfailed: "call " function " errno " errno [ " " error_text ]\n'
    assert judged(("a", 1, None, "WARN", None), rule=rule) == [("nccl-internal-error", "root")]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("//! when: errno = 1", "TEST & TEST"),
        ("//! when: errno => x", "cannot read the test"),
        ("//! when: errno = 1 => @none", "no table of cases"),
        ("//! when: errno = 1| => x root", "empty value"),
        ("//! when: errno = 1 => x wrong", "diagnosis and a role"),
        ("//! role: sometimes", "role"),
    ],
)
def test_what_cannot_be_read_is_refused(line: str, says: str) -> None:
    rule = f'//! diagnosis: plain-note\n//! role: root\n{line}\nfailed: "call " errno\n'
    with pytest.raises(GrammarError, match=says):
        read_grammar({"fields.lark": FIELDS, "x.lark": rule})


def test_errors_and_parse_agree(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(
        "h1:1:2 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n"
        "h1:1:2 [0] misc/ibvwrap.cc:42 NCCL WARN Call to ibv_reg_mr failed with error Bad address\n"
        "h1:1:2 [0] transport/nvls.cc:42 NCCL WARN Cuda failure 999 'unknown error'\n"
        "h1:1:2 [0] transport/nvls.cc:42 NCCL WARN Cuda failure 999 'unknown err\n"
        "h1:1:2 [0] graph/search.cc:1 NCCL WARN Could not find a path for pattern 4, falling back to simple order\n"
        "h1:1:2 [0] x.cc:1 NCCL WARN Flux capacitor lost: no space left on device\n"
        "h1:1:2 [0] x.cc:1 NCCL WARN Flux capacitor lost for no reason\n"
    )
    objects = [json.loads(o) for o in parse_objects(find_inputs([str(log)]))]
    assert objects[0]["diagnosis"] is None
    assert objects[0]["role"] is None
    errors = nccl_insight.load([log]).table("errors")
    told = [(o["line"], o["diagnosis"], o["role"]) for o in objects if o["diagnosis"]]
    assert told == list(errors.select("line", "diagnosis", "role").iter_rows())
    assert told == [
        (2, "ib-reg-mr-failed", "root"),
        (3, "nvls-multicast-failed", "root"),
        (4, "nvls-multicast-failed", "root"),
        (5, "topo-search-fallback", "root"),
        (6, "shm-too-small", "root"),
        (7, "unexplained-failure", "root"),
    ]


def test_parse_keeps_values_that_no_column_takes(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(
        "h1:1:2 [0] NCCL INFO Proxy response for opId=0x7f0056660ad9 doesn't match any expected response\n"
        "h1:1:2 [0] NCCL INFO RAS non-terminating socket with eth0 is not current: status 54 -- internal error?\n"
        "h1:1:2 [0] NCCL INFO Symmetric task cell count 87 does not match remaining cell count 56\n"
        "h1:1:2 [0] x.cc:1 NCCL WARN Flux capacitor lost at rank 7\n"
    )
    fields = [json.loads(o)["fields"] for o in parse_objects(find_inputs([str(log)]))]
    assert fields[0]["opId"] == "0x7f0056660ad9"
    assert fields[1]["status"] == 54
    assert fields[2]["count"] == [87, 56]
    assert fields[3] == {}
