"""explain-log: the facts of small logs in words, guesses marked as guesses."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from nccl_insight.base.units import listed
from nccl_insight.facts.who.placement import Layout, layout
from nccl_insight.report import explain_log
from nccl_insight.report.explain_log import chain
from nccl_insight.share import api
from nccl_insight.tables.run import Run, build_run
from nccl_insight.views.log import log
from tests import runs

SHARED = runs.SHARED
FIRST = "ncclCommInitRank comm 0x55 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x77"
SECOND = "ncclCommInitRank comm 0x66 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x77"
LOG = """gpu01:10:10 [0] NCCL INFO NCCL version 2.21.5+cuda12.4
gpu01:10:10 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.
gpu01:10:10 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
gpu01:10:10 [0] NCCL INFO Using network Socket
gpu02:11:11 [0] NCCL INFO Using network Socket
gpu01:10:10 [0] NCCL INFO {first} - Init START
gpu02:11:11 [0] NCCL INFO {second} - Init START
gpu01:10:10 [0] NCCL INFO Channel 00/02 :    0   1
gpu01:10:10 [0] NCCL INFO Channel 01/02 :    0   1
gpu01:10:10 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0
gpu02:11:11 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [receive] via NET/Socket/0
gpu01:10:10 [0] NCCL INFO 2 coll channels, 0 collnet channels, 0 nvls channels, 2 p2p channels, 1 p2p channels per peer
gpu01:10:10 [0] NCCL INFO {first} - Init COMPLETE
gpu02:11:11 [0] NCCL INFO {second} - Init COMPLETE
"""


def parts(run: Run) -> dict[str, str]:
    return {title: "\n".join(lines) for title, lines in explain_log.sections(log(run)).items()}


def test_a_small_job(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(LOG.format(first=FIRST, second=SECOND))
    told = parts(api.load([path]))
    assert "2 ranks on 2 hosts (gpu01, gpu02)" in told["The job"]
    assert "2.21.5" in told["The job"]
    assert "1 communicator of 2 ranks" in told["Communicators"]
    assert "Network in use: Socket." in told["Network"]
    assert "rank 0 (gpu01) sends to 1 over the network Socket" in told["Who talks to whom over what"]
    assert "2 rings, in one order" in told["Rings and trees"]
    assert "0 > 1 > 0" in told["Rings and trees"]
    assert "2 channels for collectives" in told["Algorithms and channels"]
    assert "NCCL_IB_DISABLE=1 (default 0" in told["Settings in force"]
    assert "add COLL" in told["What the log cannot tell"]


def test_hostile_text_stays_on_its_line() -> None:
    env = pl.DataFrame(
        {
            "input_id": [0], "line": [1], "host": ["a\x1b[2J"], "pid": [1], "name": ["NCCL_SOCKET_IFNAME"],
            "value": ["eth0\n\x1b]0;x\x07Settings"], "origin": ["environment"],
        }
    )  # fmt: skip
    text = explain_log.render(log(build_run({"env": env})))
    assert "\x1b" not in text
    assert "- NCCL_SOCKET_IFNAME=eth0" in text


def test_an_empty_run_is_told_too() -> None:
    assert "No communicator is in the log." in explain_log.render(log(build_run({})))


@pytest.mark.parametrize(
    ("found", "nranks", "world", "expected"),
    [
        ((0, 1, 2, 3), 4, 8, Layout("block")), ((4, 5, 6, 7), 4, 8, Layout("block")), ((2, 3), 2, 8, Layout("block")),
        ((1, 2), 2, 8, Layout("other")), ((0, 4), 2, 8, Layout("stride", 4)), ((1, 3, 5, 7), 4, 8, Layout("stride", 2)),
        ((0, 1, 5), 3, 8, Layout("other")), ((), 4, 8, Layout("other")), ((3,), 1, 8, Layout("single")),
        ((0, 1), 2, 2, Layout("world")),
    ],
)  # fmt: skip
def test_layouts(found: tuple[int, ...], nranks: int, world: int, expected: Layout) -> None:
    assert layout(found, nranks, world) == expected


def test_lists() -> None:
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"
    assert chain([0, 3, 1]) == "0 > 3 > 1 > 0"


def test_width_wraps_long_lines() -> None:
    text = explain_log.render(log(build_run({})), width=50)
    assert max(len(line) for line in text.splitlines()) <= 50


@pytest.mark.skipif(not (SHARED / "simulated").is_dir(), reason="the simulated logs : set NCCL_INSIGHT_REFERENCE_DATA")
def test_groups_are_guessed_and_said_to_be_guesses() -> None:
    told = parts(api.load([SHARED / "simulated" / "2.21.5-8gpu-split-tp4-dp2.log.gz"]))["Communicators"]
    assert "2 communicators of 4 ranks on 1 host each" in told
    assert "tensor parallelism (TP), a guess" in told
    assert "4 communicators of 2 ranks on 1 host each" in told
    assert "data parallelism (DP), a guess" in told
