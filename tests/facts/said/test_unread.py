"""A release that words its lines in another way: no table vanishes silently, and no verdict is OK."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

import nccl_insight
from nccl_insight.facts.said.unread import unread

RANKS: Final = 4
_INIT: Final = "ncclCommInitRank comm 0x70{r}00 rank {r} nranks 4 cudaDev {r} nvmlDev {r} busId {r}b000 commId 0xfeed1"
_LINES: Final = (
    "NCCL version 2.28.9+cuda12.9",
    "Bootstrap: Using eth0:10.0.0.1<0>",
    "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>",
    "Using network IB",
    f"{_INIT} - Init START",
    "Trees [0] 1/-1/-1->{r}->-1 [1] 1/-1/-1->{r}->-1",
    "Channel 00/0 : {r}[{r}] -> {n}[{n}] via P2P/CUMEM",
    "Connected all rings, use ring PXN 0 GDR 1",
    "2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer",
    f"{_INIT} - Init COMPLETE",
    "comm 0x70{r}00 rank {r} nranks 4 cudaDev {r} busId {r}b000 - Destroy COMPLETE",
)
CHANGES: Final = {
    "a word more": (" - Init START", " - Communicator Init START", "init"),
    "another word": (" - Init COMPLETE", " - Init COMPLETED", "init"),
    "a field in the middle": (r"nranks 4 (cudaDev . nvmlDev)", r"nranks 4 team 0 \1", "init"),
    "a field at the end": (r"(via P2P/CUMEM)", r"\1 qos 2", "connections"),
    "a shorter noun": ("Channel 00/0", "Chan 00/0", "connections"),
    "another order": (r"Channel 00/0 : (\S+) -> (\S+)", r"Channel 0.00: \2 <- \1", "connections"),
    "another head of the text": ("Trees ", "Binary trees ", "trees"),
    "another noun": ("NCCL version", "NCCL library version", "version"),
    "another verb": ("Using network IB", "Selected network IB (v12)", "network"),
    "devices of another kind": (
        r"NET/IB : Using \[0\]mlx5_0:1/IB.*",
        "NET/Socket : Interfaces [0]eth0:10.0.0.1<0>",
        "network devices",
    ),
    "a plain participle": ("NET/IB : Using", "NET/IB : Devices", "network devices"),
    "a longer word": ("coll channels", "collective channels", "channel counts"),
    "bootstrap": ("Bootstrap: Using", "Bootstrap: Listening on", "interfaces"),
}


def _log() -> str:
    return "".join(
        f"node1:{40 + r}:{40 + r} [{r}] NCCL INFO {line.format(r=r, n=(r + 1) % RANKS)}\n"
        for line in _LINES
        for r in range(RANKS)
    )


def test_the_log_as_it_is_known_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(_log())
    run = nccl_insight.load([path])
    assert unread(run) == ()
    assert nccl_insight.analyze(run).status == "ok"


@pytest.mark.parametrize("change", CHANGES)
def test_a_new_wording_is_told(change: str, tmp_path: Path) -> None:
    old, new, about = CHANGES[change]
    text, changed = re.subn(old, new, _log())
    path = tmp_path / "run.log"
    path.write_text(text)
    run = nccl_insight.load([path])
    analysis = nccl_insight.analyze(run)
    assert [(u.about, u.count) for u in unread(run)] == [(about, changed)]
    assert analysis.status == "inconclusive"
    assert f"lines about {about} are worded in a way that is not known here" in analysis.headline
    assert not [f for f in analysis.findings if f.severity.value == "error"]


def test_result_codes_at_the_end_prove_nothing_where_init_is_told_in_other_words(tmp_path: Path) -> None:
    """Healthy jobs print such codes, too (a probe of an optional network): without init lines they are no alarm."""
    codes = "".join(
        f"node1:{40 + r}:{90 + r} [{r}] NCCL INFO transport/net_ib/init.cc:{n} -> 3\n"
        for r in range(RANKS)
        for n in (88, 120)
    )
    for old, new in ((" - Init COMPLETE", " - Init COMPLETED"), (" commId 0xfeed1", " uid feed1")):
        path = tmp_path / "run.log"
        path.write_text(_log().replace(old, new) + codes)
        analysis = nccl_insight.analyze([path])
        assert analysis.status == "inconclusive"
        assert not [f for f in analysis.findings if f.severity.value != "info"]


def test_processes_of_an_unknown_release_are_not_said_to_wait(tmp_path: Path) -> None:
    text = "".join(line for line in _log().splitlines(keepends=True) if re.search("Init|Using|version", line))
    path = tmp_path / "run.log"
    path.write_text(text.replace("ncclCommInitRank comm", "ncclCommInitRank handle"))
    analysis = nccl_insight.analyze([path])
    assert not [f for f in analysis.findings if f.severity.value == "error"]
    assert analysis.status == "inconclusive"
