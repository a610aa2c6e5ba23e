"""What keeps checks from judging: guards that the examples of the rules do not reach."""

from __future__ import annotations

from pathlib import Path

import nccl_insight
from nccl_insight.model import CannotJudge, Hit
from nccl_insight.rules.network import ni211_net_socket_by_config
from nccl_insight.rules.runtime import ni513_collective_not_reached

FIXTURES = Path(__file__).parents[1] / "fixtures" / "rules"


def first_log(code: str) -> str:
    """The first log of a rule's fixture, which makes a finding."""
    return (FIXTURES / f"{code}.md").read_text(encoding="utf-8").split("```log\n")[1].split("```")[0]


def test_calls_are_not_counted_in_a_log_that_is_cut(tmp_path: Path) -> None:
    whole, log = first_log("NI513"), tmp_path / "run.log"
    log.write_text(whole)
    found = list(ni513_collective_not_reached.check(nccl_insight.load(log)))
    assert [type(item) for item in found] == [Hit]
    # The last record is cut: the call that rank 1 lacks may have stood behind it.
    log.write_text(whole + "gpu01:4121:4190 [0] NCCL INFO AllReduce: opCo")
    found = list(ni513_collective_not_reached.check(nccl_insight.load(log)))
    assert [type(item) for item in found] == [CannotJudge]
    log.write_text("".join(line for line in whole.splitlines(keepends=True) if "AllReduce" not in line))
    assert list(ni513_collective_not_reached.check(nccl_insight.load(log))) == []


def test_sockets_are_no_choice_where_the_plugin_failed(tmp_path: Path) -> None:
    whole, log = first_log("NI211"), tmp_path / "run.log"
    log.write_text(whole)
    assert list(ni211_net_socket_by_config.check(nccl_insight.load(log)))
    head = whole.splitlines()[0].partition("NCCL INFO")[0]
    failed = "NET/OFI aws-ofi-nccl initialization failed"
    log.write_text(whole + f"{head}NCCL INFO {failed}\n")
    assert list(ni211_net_socket_by_config.check(nccl_insight.load(log))) == []
