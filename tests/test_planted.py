"""Twelve planted faults: all found in one log, each found alone, and nothing claimed of healthy jobs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

import nccl_insight
from nccl_insight.base.model import Analysis, Finding, Severity
from tests import planted


@dataclass(frozen=True)
class Expected:
    """What a planted condition must be called, and whom the finding must name."""

    name: str
    host: str | None
    ranks: tuple[int, ...]


EXPECTED = {
    "socket-host": Expected("mixed-networks", "ember-02", (4, 5, 6, 7)),
    "no-gdr-host": Expected("gdr-not-used", "ember-03", (8, 11)),
    "p2p-off-rank": Expected("p2p-disabled-by-env", "ember-01", (2,)),
    "shm-rank": Expected("p2p-not-available", "ember-01", (3,)),
    "few-channels-host": Expected("channel-count-mismatch", "ember-04", (12, 13, 14, 15)),
    "slow-init-rank": Expected("init-slow", "ember-02", (6,)),
    "stops-after-op-50": Expected("collective-not-reached", "ember-01", (1,)),
    "ib-old": Expected("ib-completion-retry-exceeded", "ember-03", (9,)),
    "ib-new": Expected("ib-completion-retry-exceeded", "ember-04", (13,)),
    "refused": Expected("bootstrap-connect-refused", "ember-02", (7,)),
    "shm-full": Expected("shm-too-small", "ember-04", (14,)),
    "watchdog": Expected("watchdog-timeout", None, (0,)),
}
# What else may be said of a condition when it stands alone.
ALSO = {"socket-host": {"net-socket-fallback"}, "p2p-off-rank": {"env-mismatch"}}
# "Init timings" came with 2.22: before it a log without timestamps cannot show which rank was slow.
UNSEEN = {("2.19.4", "slow-init-rank")}


def analysis_of(text: str, folder: Path) -> Analysis:
    path = folder / "run.log"
    path.write_text(text, encoding="utf-8")
    analysis = nccl_insight.analyze([path])
    assert not analysis.notes
    return analysis


def loud(analysis: Analysis) -> list[Finding]:
    return [f for f in analysis.findings if f.severity is not Severity.INFO]


def named(analysis: Analysis, expected: Expected) -> bool:
    """Whether a finding at warning or error has the name, the host and the ranks."""
    return any(
        f.name == expected.name
        and (expected.host is None or expected.host in f.hosts)
        and set(expected.ranks) <= set(f.ranks)
        for f in loud(analysis)
    )


def test_the_generator_plants_what_is_expected() -> None:
    assert set(EXPECTED) == set(planted.CONDITIONS)
    assert len(planted.CONDITIONS) == 12


@pytest.mark.parametrize("era", planted.ERAS)
def test_healthy_job_is_silent(era: str, tmp_path: Path) -> None:
    analysis = analysis_of(planted.log(era), tmp_path)
    assert [f.title for f in loud(analysis)] == []
    assert analysis.status == "ok"
    assert analysis.coverage.unknown == 0


@pytest.mark.parametrize("era", planted.ERAS)
def test_all_twelve_in_one_log(era: str, tmp_path: Path) -> None:
    analysis = analysis_of(planted.log(era, planted.CONDITIONS), tmp_path)
    missed = [c for c, e in EXPECTED.items() if (era, c) not in UNSEEN and not named(analysis, e)]
    assert missed == []
    assert analysis.status == "findings"


@pytest.mark.parametrize("era", planted.ERAS)
def test_differences_on_other_hosts_are_no_cause(era: str, tmp_path: Path) -> None:
    """P2P switched off on ember-01 explains neither sockets on ember-02 nor channels on ember-04."""
    analysis = analysis_of(planted.log(era, planted.CONDITIONS), tmp_path)
    cause = {f.name: f.caused_by for f in analysis.findings}
    assert cause["env-mismatch"] == "p2p-disabled-by-env"
    assert cause["mixed-networks"] is None
    assert cause["channel-count-mismatch"] is None
    assert cause["gdr-not-used"] is None


@pytest.mark.part(3)
@pytest.mark.parametrize("condition", planted.CONDITIONS)
@pytest.mark.parametrize("era", planted.ERAS)
def test_each_alone(era: str, condition: str, tmp_path: Path) -> None:
    analysis = analysis_of(planted.log(era, [condition]), tmp_path)
    if (era, condition) in UNSEEN:
        assert loud(analysis) == []
        return
    expected = EXPECTED[condition]
    assert named(analysis, expected), [f.title for f in analysis.findings]
    others = {f.name for f in loud(analysis)} - {expected.name}
    assert others <= ALSO.get(condition, set())
    first = next(f for f in loud(analysis) if f.name == expected.name)
    assert first.next_step
    assert first.evidence[0].line > 0


SINGLE_NODE_SOCKET = "".join(
    f"""\
box7:5100{d}:5100{d} [{d}] NCCL INFO Bootstrap : Using eno1:192.168.40.7<0>
box7:5100{d}:5100{d} [{d}] NCCL INFO NET/IB : No device found.
box7:5100{d}:5100{d} [{d}] NCCL INFO NET/Socket : Using [0]eno1:192.168.40.7<0>
box7:5100{d}:5100{d} [{d}] NCCL INFO Using network Socket
box7:5100{d}:5100{d} [{d}] NCCL INFO comm 0x5581a0{d}0 rank {d} nranks 2 cudaDev {d} nvmlDev {d} busId {d + 1}000 commId 0x7713a9 - Init START
box7:5100{d}:5100{d} [{d}] NCCL INFO Channel 00/0 : {d}[{d}] -> {1 - d}[{1 - d}] via P2P/IPC
box7:5100{d}:5100{d} [{d}] NCCL INFO Connected all rings
box7:5100{d}:5100{d} [{d}] NCCL INFO comm 0x5581a0{d}0 rank {d} nranks 2 cudaDev {d} nvmlDev {d} busId {d + 1}000 commId 0x7713a9 - Init COMPLETE
box7:5100{d}:5100{d} [{d}] NCCL INFO comm 0x5581a0{d}0 rank {d} nranks 2 cudaDev {d} busId {d + 1}000 - Destroy COMPLETE
"""  # noqa: E501
    for d in (0, 1)
)


def _two_hosts(network: str, using: str, first: str, second: str) -> str:
    """Two hosts of two GPUs each whose cross-host lines use the given transports in turn."""
    lines = []
    for rank in range(4):
        host, dev = f"fen-{rank // 2}", rank % 2
        head = f"{host}:6200{rank}:6200{rank} [{dev}] NCCL INFO "
        who = f"comm 0x7f30{rank}c0 rank {rank} nranks 4 cudaDev {dev} nvmlDev {dev} busId {dev + 1}b000"
        peer = (rank + 1) % 4
        pair = f"{rank}[{dev}] -> {peer}[{peer % 2}]"
        lines += [f"{head}Bootstrap : Using eth0:10.61.0.{rank // 2 + 4}<0>"]
        lines += [f"{head}{line}" for line in using.splitlines()]
        lines += [f"{head}Using network {network}", f"{head}{who} commId 0x11ad3302 - Init START"]
        for channel in range(4):
            via = (first, second)[channel % 2]
            if dev == 1:
                lines.append(f"{head}Channel {channel:02}/0 : {pair} [send] via {via}")
            else:
                source = (rank - 1) % 4
                back = f"{source}[{source % 2}] -> {rank}[{dev}]"
                lines.append(f"{head}Channel {channel:02}/0 : {back} [receive] via {via}")
                lines.append(f"{head}Channel {channel:02}/0 : {pair} via P2P/IPC")
        lines += [
            f"{head}Connected all rings",
            f"{head}4 coll channels, 0 nvls channels, 4 p2p channels, 2 p2p channels per peer",
        ]
        lines += [f"{head}{who} commId 0x11ad3302 - Init COMPLETE"]
        lines += [f"{head}{who.replace(f' nvmlDev {dev}', '')} - Destroy COMPLETE"]
    return "\n".join(lines) + "\n"


HEALTHY = {
    "one node without a fast network": SINGLE_NODE_SOCKET,
    "PXN through another GPU": _two_hosts(
        "IB",
        "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.61.0.4<0>",
        "NET/IB/0/GDRDMA",
        "NET/IB/1(1)/GDRDMA",
    ),
    "a plugin whose name has blanks": _two_hosts(
        "AWS Libfabric",
        "NET/OFI Initializing aws-ofi-nccl 1.7.4-aws\nNET/OFI Selected Provider is efa (found 4 nics)",
        "NET/AWS Libfabric/0/GDRDMA",
        "NET/AWS Libfabric/1/GDRDMA",
    ),
}


@pytest.mark.parametrize("title", HEALTHY)
def test_healthy_inputs_that_look_odd_are_silent(title: str, tmp_path: Path) -> None:
    analysis = analysis_of(HEALTHY[title], tmp_path)
    assert [f.title for f in loud(analysis)] == []


@pytest.mark.parametrize(
    ("title", "vias"),
    [
        ("one node without a fast network", {"P2P/IPC"}),
        ("PXN through another GPU", {"NET/IB/0/GDRDMA", "NET/IB/1(1)/GDRDMA", "P2P/IPC"}),
        ("a plugin whose name has blanks", {"NET/AWS Libfabric/0/GDRDMA", "NET/AWS Libfabric/1/GDRDMA", "P2P/IPC"}),
    ],
)
def test_odd_transports_are_read(title: str, vias: set[str], tmp_path: Path) -> None:
    """The silence above is not for want of reading."""
    path = tmp_path / "run.log"
    path.write_text(HEALTHY[title], encoding="utf-8")
    assert set(nccl_insight.load([path]).table("connections").get_column("via")) == vias
