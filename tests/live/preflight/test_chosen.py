"""Checks by name (``--only``), and checks of the site's own (``--plugin``)."""

from __future__ import annotations

import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.base.model import Action
from nccl_insight.live.preflight import chosen
from nccl_insight.live.preflight.model import Check, Status
from nccl_insight.live.preflight.node import Node


def test_a_check_that_says_nothing_passes_where_it_could_look() -> None:
    well = [Check("gpu health", Status.PASS, "8 GPUs"), Check("nics", Status.SKIP, "no RDMA device")]
    found = {c.name: c.status for c in chosen.only(["ecc", "nic down"], well)}
    assert found == {"ecc": Status.PASS, "nic down": Status.SKIP}
    hot = [Check("clocks", Status.WARN, "GPU 1: slowed down by heat")]
    assert {c.name: c.status for c in chosen.only(["ecc", "clocks"], hot)} == {
        "clocks": Status.WARN,
        "ecc": Status.PASS,
    }


@pytest.mark.parametrize(
    ("script", "status", "action", "says"),
    [
        ("echo scratch is mounted", Status.PASS, Action.NONE, "scratch is mounted"),
        ("echo 91% full; exit 1", Status.WARN, Action.TRIAGE, "91% full"),
        ("echo not mounted; exit 2", Status.FAIL, Action.TRIAGE, "not mounted"),
        ("echo dead disk action=isolate; exit 2", Status.FAIL, Action.ISOLATE, "dead disk"),
        ("echo no tool >&2; exit 3", Status.SKIP, Action.NONE, "no tool"),
        ("exit 2", Status.FAIL, Action.TRIAGE, "exit code 2"),
        ("sleep 30", Status.FAIL, Action.TRIAGE, "no answer within 1 s"),
    ],
)
def test_checks_of_the_site(script: str, status: Status, action: Action, says: str) -> None:
    name, command = chosen.plugin_of(f"scratch=sh -c '{script}'")
    found = chosen.run_plugin(Node({}), name, command, 1)
    assert (found.name, found.status, found.action) == ("scratch", status, action)
    assert says in found.observed


@pytest.mark.parametrize("text", ["scratch", "=x", "scratch=", "scratch='", "scratch=/no/such/command --x"])
def test_checks_of_the_site_that_make_no_sense(text: str) -> None:
    with pytest.raises(UsageError, match="--plugin"):
        chosen.plugin_of(text)
