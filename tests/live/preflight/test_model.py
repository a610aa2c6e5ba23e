"""What a preflight reports."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.base.model import Action
from nccl_insight.live.preflight.model import Check, Result, Status, parse_exit_map
from tests.live.gates import LIMITS, checks, good, node


@pytest.mark.parametrize(
    ("name", "status", "code", "more"),
    [
        ("/dev/shm", Status.FAIL, "NI401", {"shm": (64 << 20, 1 << 20)}),
        ("/dev/shm", Status.WARN, "NI401", {"shm": (64 << 20, 64 << 20)}),
        ("/dev/shm", Status.FAIL, "NI401", {"shm": None}),
        ("memlock", Status.FAIL, "NI407", {"limits": tuple({**LIMITS, resource.RLIMIT_MEMLOCK: 8 << 20}.items())}),
        ("memlock", Status.WARN, "NI407", {"limits": tuple({**LIMITS, resource.RLIMIT_MEMLOCK: 1 << 30}.items())}),
        ("nofile", Status.WARN, "-", {"limits": tuple({**LIMITS, resource.RLIMIT_NOFILE: 1024}.items())}),
        ("stack", Status.WARN, "-", {"limits": tuple({**LIMITS, resource.RLIMIT_STACK: None}.items())}),
        ("environment", Status.WARN, "NI105", {"environ": {"NCCL_SOCKET_IFNAMES": "eth0"}}),
    ],
)
def test_limits_and_settings(tmp_path: Path, name: str, status: Status, code: str, more: dict[str, object]) -> None:
    found = checks(node(good(tmp_path), **more))[name]
    assert (found.status, found.code) == (status, code)
    assert found.fix


@pytest.mark.parametrize(("control", "status"), [(0x1D, Status.WARN), (0x00, Status.PASS)])
def test_acs_of_bridges(tmp_path: Path, control: int, status: Status) -> None:
    """A bridge whose second extended capability is ACS (id 0x000D)."""
    root = good(tmp_path)
    config = bytearray(4096)
    config[0x100:0x104] = (0x0001 | 1 << 16 | 0x140 << 20).to_bytes(4, "little")
    config[0x140:0x144] = (0x000D | 1 << 16).to_bytes(4, "little")
    config[0x146:0x148] = control.to_bytes(2, "little")
    bridge = root / "sys/bus/pci/devices/0000:01:00.0"
    bridge.mkdir(parents=True)
    (bridge / "class").write_text("0x060400\n")
    (bridge / "config").write_bytes(bytes(config))
    assert checks(node(root))["pci acs"].status is status
    (bridge / "config").write_bytes(bytes(config[:64]))
    assert checks(node(root))["pci acs"].status is Status.SKIP


@pytest.mark.parametrize(
    ("records", "status", "words"),
    [
        ("6,1,1,-;usb 1-1: new device\n", Status.PASS, "none since boot"),
        ("4,2,9,-;NVRM: Xid (PCI:0000:1b:00): 31, pid=99, name=python\n", Status.PASS, "of programs"),
        ("4,2,9,-;NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.\n", Status.FAIL, "Xid 79"),
    ],
)
def test_xids_since_boot(tmp_path: Path, records: str, status: Status, words: str) -> None:
    root = good(tmp_path)
    (root / "dev/kmsg").write_text(records)
    found = checks(node(root))["xid"]
    assert found.status is status
    assert words in found.observed


@pytest.mark.parametrize(
    ("text", "code", "becomes"),
    [("slurm", 1, 10), ("slurm", 3, 1), ("nagios", 1, 2), ("nvsentinel", 3, 2), ("3=0,5=1", 5, 1), ("3=0", 1, 1)],
)
def test_exit_maps(text: str, code: int, becomes: int) -> None:
    assert parse_exit_map(text).get(code, code) == becomes


def test_the_worst_of_all_nodes_is_the_highest_for_slurm() -> None:
    codes = parse_exit_map("slurm")
    assert codes[0] < codes[3] < codes[1] < codes[5]
    for text in ("sge", "1", "1=999", ""):
        with pytest.raises(UsageError, match="exit-map"):
            parse_exit_map(text)


# --- results -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "more", "code", "line"),
    [
        ([Check("a", Status.PASS, "x")], {}, 0, "PASS - node=gpu07 action=none exit=0"),
        ([Check("a", Status.WARN, "x", code="NI234", action=Action.TRIAGE)], {}, 0,
         "WARN NI234 node=gpu07 action=triage exit=0"),
        ([Check("a", Status.FAIL, "x", code="NI502", action=Action.ISOLATE)], {}, 1,
         "FAIL NI502 node=gpu07 action=isolate exit=1"),
        ([Check("a", Status.FAIL, "x", code="NI506", action=Action.TRIAGE)], {"timed_out": True}, 5,
         "FAIL NI506 node=gpu07 action=triage exit=5"),
        ([Check("a", Status.SKIP, "x")], {}, 0, "PASS - node=gpu07 action=none exit=0"),
        ([Check("a", Status.SKIP, "x")], {"strict": True}, 3, "SKIP - node=gpu07 action=none exit=3"),
        ([Check("a", Status.PASS, "x")], {"judged": False}, 3, "SKIP - node=gpu07 action=none exit=3"),
    ],
)  # fmt: skip
def test_exit_codes_and_last_line(given: list[Check], more: dict[str, bool], code: int, line: str) -> None:
    result = Result(tuple(given), "quick", "gpu07", **more)
    assert result.code == code
    assert result.last_line() == f"NCCL-INSIGHT preflight {line}"


def test_the_last_line_names_the_node_that_is_bad() -> None:
    bad = Check("node gpu11", Status.FAIL, "slow", code="NI608", action=Action.ISOLATE, node="gpu11")
    assert Result((bad,), "full", "gpu07").last_line().endswith("FAIL NI608 node=gpu11 action=isolate exit=1")


def test_hostile_text_stays_on_its_line() -> None:
    assert "\n" not in Check("a", Status.FAIL, "x\ny\x1b[31m", "z", "do\r\nthis").line()
    assert re.fullmatch(r"\S+ \S+ PASS - node=\S+ action=none exit=0", Result((), "quick", "a b\nc").last_line())
