"""The gate: node checks on made-up file trees, expectations, exit codes, and the collective with fake ranks."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import resource
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import pytest

import nccl_insight.live.preflight
from nccl_insight.advise.settings.lint import lint_text
from nccl_insight.base import texts
from nccl_insight.base.errors import UsageError
from nccl_insight.base.model import Action, Severity
from nccl_insight.live.capture.environment import World
from nccl_insight.live.capture.parent import Launch, make_directory
from nccl_insight.live.capture.plan import Plan
from nccl_insight.live.capture.processes import Output
from nccl_insight.live.preflight import chosen, expect, outputs
from nccl_insight.live.preflight.bench import diagnostics, measure, plan_for
from nccl_insight.live.preflight.gate import deadline_s
from nccl_insight.live.preflight.model import Check, Result, Status, parse_exit_map
from nccl_insight.live.preflight.node import Node
from nccl_insight.live.preflight.quick import facts_of, quick_checks

FAKE = Path(__file__).parents[2] / "fake_rank.py"
DOCS = Path(__file__).parents[3] / "docs" / "jobs"
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
LIMITS = {
    resource.RLIMIT_MEMLOCK: None,
    resource.RLIMIT_NOFILE: 65536,
    resource.RLIMIT_STACK: 8 << 20,
    resource.RLIMIT_NPROC: None,
}


@dataclass(frozen=True)
class FakeNode(Node):
    """A node whose limits and file system sizes are given."""

    limits: tuple[tuple[int, int | None], ...] = tuple(LIMITS.items())
    shm: tuple[int, int] | None = (64 << 30, 60 << 30)
    answer: Output = field(default_factory=lambda: Output("missing"))

    def tool(self, *argv: str, timeout_s: float = 5.0) -> Output:
        return self.answer

    def nvml(self, timeout_s: float = 4.0) -> Output:
        return Output("missing")

    def limit(self, which: int) -> int | None:
        return dict(self.limits)[which]

    def size_of(self, path: str) -> tuple[int, int] | None:
        return self.shm


def good(root: Path, gpus: int = 8, nics: int = 8) -> Path:
    """The files of a healthy machine."""
    files = {
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release",
        "proc/cmdline": "root=/dev/sda iommu=pt",
        "proc/sys/kernel/numa_balancing": "0",
        "sys/module/nvidia_peermem/version": "570",
        "sys/class/iommu/dmar0/x": "",
    }
    for n in range(gpus):
        files[f"dev/nvidia{n}"] = ""
        files[f"proc/driver/nvidia/gpus/0000:{n:02x}:00.0/information"] = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ: 1"
    for n in range(nics):
        base = f"sys/class/infiniband/mlx5_{n}/ports/1"
        files |= {
            f"{base}/state": "4: ACTIVE",
            f"{base}/rate": "400 Gb/sec (4X NDR)",
            f"{base}/link_layer": "InfiniBand",
        }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def node(root: Path, **more: object) -> FakeNode:
    return FakeNode(environ=more.pop("environ", {}), root=root, name="gpu07", kernel="6.8.0", **more)  # type: ignore[arg-type]


def checks(subject: Node) -> dict[str, Check]:
    return {c.name: c for c in quick_checks(subject)}


# --- checks of the node --------------------------------------------------------------------------------------


def test_a_good_node_passes(tmp_path: Path) -> None:
    found = checks(node(good(tmp_path)))
    assert {c.status for n, c in found.items() if n not in ("libraries", "pci acs", "xid", "gpu health", "clock")} == {
        Status.PASS
    }
    assert "8 GPUs, NVIDIA H100 80GB HBM3, driver 570.124.06" in found["gpus"].observed
    assert "8 of 8 RDMA ports active, 400 Gb/s, InfiniBand" in found["nics"].observed


def test_facts_of_a_good_node(tmp_path: Path) -> None:
    facts = facts_of(node(good(tmp_path)))
    assert (facts["gpus"], facts["nics"], facts["nic_gbit"], facts["driver"]) == (8.0, 8.0, 400.0, "570.124.06")
    assert facts["gpu_model"] == "NVIDIA H100 80GB HBM3"
    assert facts["memlock_gib"] == float("inf")


def test_without_anything_nothing_passes_for_gpus(tmp_path: Path) -> None:
    found = checks(node(tmp_path))
    for name in ("gpus", "nics", "gpudirect", "pci acs", "iommu"):
        assert found[name].status is Status.SKIP


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


def test_ports_that_are_down_or_uneven(tmp_path: Path) -> None:
    root = good(tmp_path, nics=2)
    ports = root / "sys/class/infiniband"
    (ports / "mlx5_1/ports/1/rate").write_text("100 Gb/sec (4X EDR)")
    assert checks(node(root))["nics"].code == "NI220"
    for n in range(2):
        (ports / f"mlx5_{n}/ports/1/state").write_text("1: DOWN")
    assert checks(node(root))["nics"].status is Status.FAIL


def test_gpudirect_by_dma_buf_or_not_at_all(tmp_path: Path) -> None:
    root = good(tmp_path)
    (root / "sys/module/nvidia_peermem/version").unlink()
    (root / "sys/module/nvidia_peermem").rmdir()
    assert "DMA-BUF" in checks(node(root))["gpudirect"].observed
    (root / "proc/driver/nvidia/version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  X")
    found = checks(node(root))
    assert (found["gpudirect"].status, found["gpudirect"].code) == (Status.WARN, "NI234")
    assert "driver 535.104.05" in found["gpus"].observed


def test_iommu_without_passthrough(tmp_path: Path) -> None:
    root = good(tmp_path)
    (root / "proc/cmdline").write_text("root=/dev/sda intel_iommu=on")
    assert checks(node(root))["iommu"].status is Status.WARN


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


def test_a_lost_gpu_fails_the_node(tmp_path: Path) -> None:
    root = good(tmp_path)
    base = root / "proc/driver/nvidia/gpus/0000:03:00.0/information"
    base.write_text("Model: \t\t NVIDIA H100 80GB HBM3\nGPU UUID: \t GPU-????????-????-????-????-????????????\n")
    found = checks(node(root))["lost gpus"]
    assert (found.status, found.action) == (Status.FAIL, Action.ISOLATE)
    assert "0000:03:00.0" in found.observed
    assert facts_of(node(root))["gpus"] == 7.0


def test_a_gpu_that_reads_as_all_ones_is_lost(tmp_path: Path) -> None:
    root = good(tmp_path)
    device = root / "sys/bus/pci/devices/0000:05:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0xffff\n")
    assert "0000:05:00.0" in checks(node(root))["lost gpus"].observed


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


@pytest.mark.parametrize(("width", "fires"), [("8", True), ("16", False)])
def test_a_narrow_slot(tmp_path: Path, width: str, fires: bool) -> None:
    root = good(tmp_path)
    device = root / "sys/bus/pci/devices/0000:02:00.0"
    device.mkdir(parents=True)
    for name, text in (("vendor", "0x10de"), ("current_link_width", width), ("max_link_width", "16")):
        (device / name).write_text(text)
    assert ("pcie width" in checks(node(root))) is fires


ROW = "{}, 00000000:{:02X}:00.0, {ecc}, {pending}, No, {hot}, Not Active, Default, {mig}, {used}, 16, 16\n"


@pytest.mark.parametrize(
    ("change", "name", "status"),
    [
        ({"ecc": "4"}, "ecc", Status.FAIL),
        ({"pending": "Yes"}, "row remapping", Status.WARN),
        ({"hot": "Active"}, "clocks", Status.WARN),
        ({"mig": "Enabled"}, "mig", Status.WARN),
        ({"used": "30211"}, "gpu memory", Status.WARN),
    ],
)
def test_the_health_of_a_gpu(tmp_path: Path, change: dict[str, str], name: str, status: Status) -> None:
    fine = {"ecc": "0", "pending": "No", "hot": "Not Active", "mig": "[N/A]", "used": "4"}
    rows = [ROW.format(n, n, **{**fine, **(change if n == 3 else {})}) for n in range(8)]
    subject = node(good(tmp_path), answer=Output("ok", "".join(rows)))
    found = checks(subject)[name]
    assert found.status is status
    assert "GPU 3" in found.observed
    healthy = node(tmp_path, answer=Output("ok", "".join(ROW.format(n, n, **fine) for n in range(8))))
    assert checks(healthy)["gpu health"].status is Status.PASS


def test_a_driver_tool_that_hangs_fails_the_node(tmp_path: Path) -> None:
    found = checks(node(good(tmp_path), answer=Output("hung")))["driver"]
    assert (found.status, found.action) == (Status.FAIL, Action.ISOLATE)
    failed = checks(node(tmp_path, answer=Output("failed", error="Failed to initialize NVML: Driver mismatch\n")))
    assert "Driver mismatch" in failed["driver"].observed


def test_little_locked_memory_is_no_failure_where_nothing_needs_rdma(tmp_path: Path) -> None:
    root = good(tmp_path)
    for n in range(8):
        (root / f"sys/class/infiniband/mlx5_{n}/ports/1/link_layer").write_text("Ethernet")
    small = tuple({**LIMITS, resource.RLIMIT_MEMLOCK: 8 << 20}.items())
    assert checks(node(root, limits=small))["memlock"].status is Status.WARN
    wanted = node(root, limits=small, environ={"NCCL_IB_HCA": "mlx5"})
    assert checks(wanted)["memlock"].status is Status.FAIL


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


# --- expectations --------------------------------------------------------------------------------------------

FACTS: dict[str, str | float | None] = {
    "gpus": 8.0, "nics": 8.0, "driver": "570.124.06", "nccl": "2.27.3+cuda12.9", "busbw": 361.37, "transport": "IB",
    "gpu_model": "NVIDIA H100 80GB HBM3", "memlock_gib": float("inf"), "nofile": 1048576.0, "ranks": 8.0,
}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["gpus=8", "gpus>=4", "nics!=4", "driver>=570", "nccl>=2.20", "nccl=2.27", "nccl<2.28", "busbw>=300",
     "transport=ib", "transport!=Socket", "memlock_gib=unlimited", "gpu_model=NVIDIA H100 80GB HBM3", "nofile>=65536"],
)  # fmt: skip
def test_expectations_that_hold(text: str) -> None:
    (check,) = expect.compare([expect.parse(text)], FACTS, "standard")
    assert check.status is Status.PASS


@pytest.mark.parametrize(
    ("text", "observed", "expected"),
    [
        ("gpus=4", "8", "= 4"), ("nics>=16", "8", ">= 16"), ("driver>=575", "570.124.06", ">= 575"),
        ("nccl>=2.28", "2.27.3", ">= 2.28"), ("busbw>=400", "361.37 GB/s", ">= 400 GB/s"),
        ("transport=Socket", "IB", "= Socket"), ("gpu_model=NVIDIA A100", "NVIDIA H100", "= NVIDIA A100"),
        ("memlock_gib<=1", "inf", "<= 1"),
    ],
)  # fmt: skip
def test_wrong_expectations_say_both_figures(text: str, observed: str, expected: str) -> None:
    (check,) = expect.compare([expect.parse(text)], FACTS, "standard")
    assert check.status is Status.FAIL
    assert observed in check.line()
    assert expected in check.line()


def test_what_a_level_cannot_know_is_skipped_and_not_a_pass() -> None:
    unknown = expect.compare([expect.parse("busbw>=300")], {**FACTS, "busbw": None}, "quick")
    assert unknown[0].status is Status.SKIP
    assert "level standard" in unknown[0].observed
    result = Result(tuple(unknown), "quick", "n")
    assert (result.code, result.verdict) == (3, Status.SKIP)


@pytest.mark.parametrize(
    "text", ["gpu=8", "gpus", "gpus=many", "nccl>=new", "transport>=IB", "=8", "gpus=8=9x", "busbw>=300 GB"]
)
def test_expectations_that_make_no_sense(text: str) -> None:
    with pytest.raises(UsageError):
        expect.parse(text)


def test_recorded_expectations_hold_on_the_node_they_came_from(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    count = expect.save(path, FACTS)
    loaded = expect.load(path)
    assert count == len(loaded) == len(FACTS)
    assert {c.status for c in expect.compare(loaded, FACTS, "standard")} == {Status.PASS}
    worse = {**FACTS, "gpus": 7.0, "busbw": 200.0, "driver": "550.1", "transport": "Socket", "nofile": 1024.0}
    failed = {c.name for c in expect.compare(loaded, worse, "standard") if c.status is Status.FAIL}
    assert failed == {"expect gpus", "expect busbw", "expect driver", "expect transport", "expect nofile"}


def test_expectation_files(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text('[expect]\ngpus = 8\nbusbw = ">=300"\nnccl = [">=2.20", "!=2.27.1"]\n')
    assert [str(e) for e in expect.load(path)] == ["gpus=8", "busbw>=300", "nccl>=2.20", "nccl!=2.27.1"]
    for text in ("[expect]\ngpus = true\n", "gpus = 8\n", "[expect\n"):
        path.write_text(text)
        with pytest.raises(UsageError, match=r"site\.toml"):
            expect.load(path)


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


def sample() -> Result:
    return Result(
        (
            Check("gpus", Status.PASS, "8 GPUs"), Check("xid", Status.FAIL, 'GPU "1"\x1b', code="NI515"),
            Check("dcgm", Status.SKIP, "not installed"), Check("clock", Status.WARN, "not synchronized"),
        ), "quick", "gpu07", facts={"gpus": 8.0, "nofile": float("inf"), "busbw": 360.0},
    )  # fmt: skip


def test_a_result_for_ci_systems() -> None:
    suite = ElementTree.fromstring(outputs.to_junit(sample()).split("\n", 1)[1])[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "1", "1")
    assert "\x1b" not in outputs.to_junit(sample())


def test_a_result_for_prometheus() -> None:
    text = outputs.to_prometheus(sample())
    assert 'nccl_insight_preflight_exit_code{node="gpu07",level="quick"} 1\n' in text
    assert 'nccl_insight_preflight_check{node="gpu07",check="xid",code="NI515"} 2\n' in text
    assert 'fact="busbw"} 360\n' in text
    assert "nofile" not in text
    for line in text.splitlines():
        assert line.startswith("#") or re.fullmatch(r'[a-z_]+\{([a-z]+="[^"]*",?)+\} [-0-9.e+]+', line)


def test_a_node_that_lost_bandwidth_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    assert outputs.trend(path, "gpu07", {"busbw": 100.0}) == []
    for day, rate in enumerate((402.0, 398.0, 400.0, 401.0)):
        outputs.remember(path, Result((), "standard", "gpu07", facts={"busbw": rate}), f"2026-05-0{day + 1}T08:00Z")
    outputs.remember(path, Result((), "standard", "gpu08", facts={"busbw": 10.0}), "2026-05-05T08:00Z")
    with path.open("a") as stream:
        stream.write('{"cut": \n')
    assert outputs.trend(path, "gpu07", {"busbw": 395.0}) == []
    (found,) = outputs.trend(path, "gpu07", {"busbw": 352.0})
    assert "lost 12% since 2026-05-01" in found.observed
    assert outputs.trend(path, "gpu09", {"busbw": 1.0}) == []


def test_single_checks_and_reports_from_the_command_line(tmp_path: Path) -> None:
    done = cli("--only", "memlock,ecc", "--report", "junit=a.xml", "--history", "h.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {line.split()[1]: line.split()[0] for line in done.stdout.splitlines()[:-1]} == {
        "memlock": done.stdout.split()[0],
        "ecc": "SKIP",
    }
    unknown = cli("--only", "xids", cwd=tmp_path)
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "did you mean 'xid'?" in unknown.stderr
    assert ElementTree.parse(tmp_path / "a.xml").getroot().tag == "testsuites"
    assert json.loads((tmp_path / "h.jsonl").read_text())["level"] == "quick"
    assert cli("--report", "pdf=a.pdf", cwd=tmp_path).returncode == 2


def test_names_of_checks_are_those_that_the_checks_have() -> None:
    """Every name in the sources can be asked for."""
    sources = Path(nccl_insight.live.preflight.__file__).parent
    text = "".join((sources / f"{name}.py").read_text() for name in ("gpus", "health", "fabric", "quick"))
    made = re.findall(
        r'\bCheck\(\s*"([a-z /]+)"|^\s+\("([a-z ]+)", "[a-z_]+", Status|_different\(gpus, "[a-z_]+", "([a-z ]+)"',
        text,
        re.M,
    )
    words = texts.of_file(sources / "checks.txt")
    told = {words[key].get("name") for key in re.findall(r'\bcheck_of\(\s*"([a-z0-9-]+)"', text)}
    names = {*(next(filter(None, groups)) for groups in made), *filter(None, told)}
    assert len(names) > 40
    assert chosen.names_of(",".join(sorted(names))) == sorted(names)


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


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Output("missing"), None),
        (Output("hung"), Status.SKIP),
        (Output("failed", "Error: unable to connect to host engine"), Status.SKIP),
        (Output("ok", "| Software | Pass |\n| PCIe  | Pass - All |\n"), Status.PASS),
        (Output("ok", "| Software | Pass |\n| Memory | Fail - GPU 2 |\n"), Status.FAIL),
    ],
)
def test_the_diagnosis_of_dcgm(answer: Output, status: Status | None) -> None:
    found = diagnostics(lambda *argv, timeout_s: answer)
    assert [c.status for c in found] == ([] if status is None else [status])


# --- with a collective ---------------------------------------------------------------------------------------


def judged(tmp_path: Path, mode: str, deadline: float = 20.0) -> tuple[dict[str, Check], Result]:
    child = (sys.executable, str(FAKE), mode)
    done = measure(Plan(), Launch(make_directory(tmp_path / "c"), 4, deadline, dict(os.environ), child=child))
    return {c.name: c for c in done.checks}, Result(
        done.checks, "standard", "n", timed_out=done.timed_out, facts=done.facts
    )


def test_a_collective_that_works(tmp_path: Path) -> None:
    found, result = judged(tmp_path, "well")
    assert found["all-reduce"].status is Status.PASS
    assert found["correctness"].status is Status.PASS
    assert "360 GB/s" in found["bandwidth"].observed
    assert (result.facts["busbw"], result.facts["nccl"], result.facts["ranks"]) == (360.0, "2.21.5", 4.0)
    assert result.code == 0


def test_a_collective_that_hangs(tmp_path: Path) -> None:
    found, result = judged(tmp_path, "hang-all", deadline=2.0)
    assert found["all-reduce"].status is Status.FAIL
    assert result.code == 5
    assert result.last_line().endswith("exit=5")


def test_wrong_results_fail(tmp_path: Path) -> None:
    found, result = judged(tmp_path, "wrong")
    assert found["correctness"].status is Status.FAIL
    assert "1 of 2 results wrong" in found["correctness"].observed
    assert result.code == 1


def test_a_slow_link_is_reported(tmp_path: Path) -> None:
    found, _ = judged(tmp_path, "slow")
    assert (found["expected busbw"].status, found["expected busbw"].code) == (Status.WARN, "NI640")


def cli(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nccl_insight", "preflight", *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=cwd,
        check=False,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""},
    )


def test_the_quick_level_without_a_gpu_judges_nothing(tmp_path: Path) -> None:
    done = cli(cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout.strip().splitlines()[-1].endswith("action=none exit=3")
    assert "NCCL-INSIGHT preflight SKIP" in done.stdout
    wrong = cli("--expect", "gpus=8", "--format", "json", cwd=tmp_path)
    assert wrong.returncode == 1
    document = json.loads(wrong.stdout)
    (failed,) = [c for c in document["checks"] if c["status"] == "FAIL"]
    assert (failed["observed"], failed["expected"]) == ("0", "= 8")


def test_the_full_level_needs_a_launcher(tmp_path: Path) -> None:
    done = cli("--level", "full", cwd=tmp_path)
    assert done.returncode == 2
    assert "launcher" in done.stderr


@needs_torch
def test_gloo_gate_records_and_checks_its_own_expectations(tmp_path: Path) -> None:
    first = cli("--level", "standard", "--backend", "gloo", "--write-expect", "site.toml", cwd=tmp_path)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "busbw" not in (tmp_path / "site.toml").read_text()  # timings of CPU tensors are no expectation
    again = cli("--level", "standard", "--backend", "gloo", "--expect-file", "site.toml", cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    wrong = cli("--level", "standard", "--backend", "gloo", "--expect", "ranks=3", cwd=tmp_path)
    assert wrong.returncode == 1
    assert "FAIL  expect ranks" in wrong.stdout


# --- job script parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(p.name for p in DOCS.glob("*") if p.suffix in (".sh", ".sbatch", ".yaml")))
def test_job_script_parts_are_clean(name: str) -> None:
    path = DOCS / name
    result = lint_text(path.name, path.read_text())
    assert [f for f in result.findings if f.issue.severity in (Severity.ERROR, Severity.WARNING)] == []
    if path.suffix in (".sh", ".sbatch"):
        subprocess.run(["bash", "-n", str(path)], check=True)


def test_job_script_parts_exist() -> None:
    assert {p.suffix for p in DOCS.glob("*")} >= {".sh", ".sbatch", ".yaml", ".md"}


def test_operations_and_sizes_can_be_chosen(tmp_path: Path) -> None:
    plan = plan_for("nccl", together=True, ops=("all_to_all",), sizes=(1 << 30,))
    assert (plan.ops, plan.sizes, plan.pair_bytes) == (("all_to_all",), (1 << 30,), 64 << 20)
    for options, says in (
        (("--ops", "all_reduce"), "go with --level standard or full"),
        (("--level", "standard", "--ops", "allsum"), "'allsum' is not known"),
        (("--level", "standard", "--sizes", "8,many"), "'many' is not a number of bytes"),
    ):
        result = cli(*options, cwd=tmp_path)
        assert (result.returncode, says in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize(("ranks", "seconds"), [(2, 120), (8, 120), (64, 240), (4096, 480)])
def test_the_deadline_of_a_job_grows_with_the_logarithm_of_its_ranks(ranks: int, seconds: int) -> None:
    assert deadline_s("full", World(0, ranks, 0, "n1", 29500)) == seconds
