"""Output of host tools, alone, several in one file, prefixed, and beside a log of the job."""

from __future__ import annotations

from pathlib import Path

import pytest

from nccl_insight.base.model import Analysis, Severity
from nccl_insight.readers import host_tools
from nccl_insight.share import api

IBSTAT = """CA 'mlx5_{n}'
\tCA type: MT4129
\tNumber of ports: 1
\tPort 1:
\t\tState: {state}
\t\tPhysical state: {physical}
\t\tRate: {rate}
\t\tBase lid: 12
\t\tLink layer: InfiniBand
"""
UP = IBSTAT.format(n=0, state="Active", physical="LinkUp", rate=400)
DOWN = IBSTAT.format(n=1, state="Down", physical="Polling", rate=10)
ACS = """17:01.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0) (prog-if 00 [Normal decode])
\tBus: primary=17, secondary=19, subordinate=19, sec-latency=0
\tCapabilities: [148 v1] Access Control Services
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir{sign} CmpltRedir{sign} UpstreamFwd{sign} EgressCtrl- DirectTrans-
19:00.0 3D controller: NVIDIA Corporation GH100 [H100 PCIe] (rev a1)
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 32GT/s, Width x{width}
"""
STACK = """Process 4250: python3 train.py
Python v3.12.12 (/usr/bin/python3.12)

Thread 4250 (active): "MainThread"
    read (fsspec/implementations/local.py:321)
    __getitem__ (data.py:64)
    fetch (torch/utils/data/_utils/fetch.py:52)
    __next__ (torch/utils/data/dataloader.py:708)
    main (train.py:90)
"""


def analyze(folder: Path, **files: str) -> Analysis:
    """The analysis of files given by name and text."""
    paths = []
    for name, text in files.items():
        path = folder / f"{name}.txt"
        path.write_text(text)
        paths.append(path)
    return api.analyze(api.load(paths))


def names(analysis: Analysis) -> dict[str, Severity]:
    return {finding.name: finding.severity for finding in analysis.findings}


def facts_of(text: str) -> dict[tuple[str | None, str], str]:
    """Values by (device, name), as the readers alone give them."""
    found = host_tools.read(list(enumerate(text.splitlines(), 1)))
    return {(device, name): value for _, _, device, name, value, _, _ in found.facts}


def test_a_port_that_is_down_is_found_and_one_that_is_up_is_not(tmp_path: Path) -> None:
    bad = analyze(tmp_path, ports=UP + DOWN)
    assert [o.tool for o in bad.outputs] == ["ibstat"]
    assert names(bad)["ib-port-error"] is Severity.WARNING
    assert "mlx5_1" in bad.findings[0].title
    (kind,) = {i.kind for i in bad.inputs}
    assert kind == "host_tool"
    assert not names(analyze(tmp_path, ports=UP))


@pytest.mark.parametrize("front", ["gpu07: ", "[1,3]<stdout>:", "2026-11-20T08:00:00Z ", "> "])
def test_what_a_launcher_puts_in_front_changes_no_fact(front: str) -> None:
    plain = facts_of(UP + DOWN)
    assert plain[("mlx5_1/1", "port.state")] == "Down"
    assert facts_of("".join(front + line for line in (UP + DOWN).splitlines(True))) == plain


def test_hosts_of_headings_and_prefixes() -> None:
    text = f"=== gpu07 ===\n{UP}=== gpu08 ===\n{DOWN}"
    found = host_tools.read(list(enumerate(text.splitlines(), 1)))
    assert {(host, device, value) for _, host, device, name, value, _, _ in found.facts if name == "port.state"} == {
        ("gpu07", "mlx5_0/1", "Active"),
        ("gpu08", "mlx5_1/1", "Down"),
    }


def test_two_outputs_in_one_file(tmp_path: Path) -> None:
    analysis = analyze(tmp_path, both=f"$ ibstat\n{UP}$ sudo lspci -vvv\n{ACS.format(sign='+', width=16)}")
    assert [o.tool for o in analysis.outputs] == ["ibstat", "lspci"]
    assert "p2p-acs-iommu-hang" in names(analysis)


def test_pcie_width_and_acs(tmp_path: Path) -> None:
    narrow = analyze(tmp_path, lspci=ACS.format(sign="-", width=4))
    assert set(names(narrow)) == {"pcie-link-degraded"}
    assert "x4" in narrow.findings[0].title
    assert not names(analyze(tmp_path, lspci=ACS.format(sign="-", width=16)))


def test_a_cut_output_keeps_what_it_has() -> None:
    text = (UP + DOWN).encode()
    whole = facts_of(text.decode())
    for size in range(0, len(text), 37):
        cut = facts_of(text[:size].decode())
        assert all(whole.get(key, "").startswith(value) or key[1] == "port.rate" for key, value in cut.items())


def test_a_value_that_a_tool_could_not_read_is_no_fact() -> None:
    text = "==============NVSMI LOG==============\nGPU 00000000:07:00.0\n    Remapped Rows\n        Pending : {}\n"
    assert facts_of(text.format("Yes")) == {("0000:07:00.0", "gpu.remap.pending"): "Yes"}
    assert facts_of(text.format("[Unknown Error]")) == {}


def test_stacks_say_where_a_process_stands(tmp_path: Path) -> None:
    path = tmp_path / "stack.txt"
    path.write_text(STACK)
    run = api.load([path])
    assert run.table("stacks").select("pid", "depth", "function", "line_number").row(0) == (4250, 0, "read", 321)
    assert "process 4250" in api.analyze(run).outputs[0].says


def test_the_stack_of_a_collective_is_torchs_and_no_debuggers(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(
        "[rank0]:[E1118 20:32:23.957466207 ProcessGroupNCCL.cpp:667] Stack trace of the failed collective: \n"
        "#0 all_reduce from /opt/torch/distributed/distributed_c10d.py:2501\n#1 <module> from /app/train.py:88\n\n"
    )
    run = api.load([path])
    assert run.table("stacks").select("depth", "function", "file", "line_number").rows() == [
        (0, "all_reduce", "/opt/torch/distributed/distributed_c10d.py", 2501),
        (1, "<module>", "/app/train.py", 88),
    ]
    assert [output.tool for output in api.analyze(run).outputs] == ["torch"]


def test_output_within_a_log_is_cited(tmp_path: Path) -> None:
    log = "".join(
        f"gpu07:42{r}0:42{r}1 [{r}] NCCL INFO Bootstrap : Using eth0:10.0.0.7<0>\n"
        f"gpu07:42{r}0:42{r}1 [{r}] NCCL INFO ncclCommInitRank comm 0x5{r} rank {r} nranks 2 cudaDev {r} busId "
        f"{r}000 commId 0xabc - Init START\n"
        for r in range(2)
    )
    beside = analyze(tmp_path, job=log, lspci=ACS.format(sign="+", width=16))
    (acs,) = [f for f in beside.findings if f.name == "p2p-acs-iommu-hang"]
    assert any(e.input.endswith("lspci.txt") for e in acs.evidence)
    within = analyze(tmp_path, job=log + ACS.format(sign="+", width=16))
    (acs,) = [f for f in within.findings if f.name == "p2p-acs-iommu-hang"]
    assert any(e.input.endswith("job.txt") for e in acs.evidence)


def test_rows_are_bounded() -> None:
    flood = UP + "".join(f"\t\tState: Down\n\tPort {n}:\n" for n in range(60_000))
    found = host_tools.read(list(enumerate(flood.splitlines(), 1)))
    assert len(found.facts) <= 50_000


def test_a_line_of_a_log_begins_no_output() -> None:
    lines = (
        "gpu07:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.7<0>",
        "[rank0]: RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled system error",
        "step 120 loss 2.31 lr 3e-4 12.1 TFLOP/s",
        "WARNING: Running as root",
        "",
    )
    assert host_tools.read(list(enumerate(lines, 1))).outputs == []


REPORTS = (
    ("sysctl", "net.core.rmem_max = 16777216\n", (None, "sysctl.net.core.rmem_max"), "16777216"),
    ("fi_info", "provider: efa\n    domain: rdmap79s0-rdm\n", (None, "fi.domain"), "rdmap79s0-rdm"),
    (
        "ucx_info",
        "# Memory domain: mlx5_0\n#      Transport: rc_mlx5\n#         Device: mlx5_0:1\n#  System device: mlx5_0 "
        "(0)\n",
        ("mlx5_0:1", "ucx.system_device"),
        "mlx5_0 (0)",
    ),
    (
        "mlxlink",
        "Operational Info\n----------------\nState           : Polling\nPhysical state  : LinkDown\n"
        "Recommendation  : Negotiation failure\n",
        ("", "port.state"),
        "Down",
    ),
    (
        "systemctl status",
        "× nvidia-imex.service - NVIDIA IMEX service\n     Active: failed (Result: exit-code) since Tue\n",
        ("nvidia-imex", "service.active"),
        "failed (Result: exit-code) since Tue",
    ),
    (
        "lstopo",
        'Machine (1008GB total)\n  Package L#1\n    NUMANode L#1 (P#1 504GB)\n    PCI 0c:00.0 (InfiniBand)\n'
        '      OpenFabrics "mlx5_0"\n',
        ("mlx5_0", "topology.numa_node"),
        "1",
    ),
    (
        "iperf3",
        "[ ID] Interval           Transfer     Bitrate         Retr\n"
        "[  5]   0.00-2.00   sec  2.19 GBytes  9.41 Gbits/sec    7             sender\n",
        ("sender", "tcp.bandwidth"),
        "9.41",
    ),
    (
        "iblinkinfo",
        'CA: gpu-12 mlx5_0:\n      0xb83f     13    1[  ] ==( 4X  53.125 Gbps Active/  LinkUp)==>   3   18[  ] "sw-01" '
        "( Could be 106.25 Gbps)\n",
        ("gpu-12 mlx5_0 port 1", "link.could_be"),
        "Could be 106.25 Gbps",
    ),
    (
        "ibdiagnet",
        "-I- Discovering ... 412 nodes\n-E- lid=0x0017 dev=4129 gpu-12/mlx5_0/U1/P1\n        symbol_error_counter  : "
        "41003\n",
        ("gpu-12/mlx5_0/U1/P1", "counter.symbol_error_counter"),
        "41003",
    ),
    ("nvcc --version", "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 12.4, V12.4.131\n",
        (None, "cuda.toolkit_version"), "12.4"),
    (
        "nvidia-smi -q -x",
        '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n\t<gpu id="00000000:19:00.0">\n'
        "\t\t<ecc_errors>\n\t\t\t<volatile>\n\t\t\t\t<dram_uncorrectable>4</dram_uncorrectable>\n",
        ("0000:19:00.0", "gpu.ecc.volatile.dram_uncorrectable"),
        "4",
    ),
    (
        "dcgmi nvlink",
        "| NVLINK Error Counts  |\n| GPU 3                |\n| Link 0               |            |\n| Replay Error | "
        "377 |\n",
        ("GPU 3", "nvlink.0.replay_error"),
        "377",
    ),
    ("ulimit -a", "-t: cpu time (seconds)              unlimited\n-l: locked-in-memory size (kbytes)  64\n",
        (None, "limit.memlock"), "65536"),
    (
        "squeue, sinfo",
        "REASON               USER      TIMESTAMP           NODELIST\n"
        "Xid 79 gpu 3         root      2026-11-19T22:10:03 h100-07\n",
        ("h100-07", "node.reason"),
        "Xid 79 gpu 3",
    ),
    ("amd-smi monitor", "GPU  POWER  GPU_TEMP  MEM_TEMP\n  0  248 W     55 °C     48 °C\n"
        "  1  121 W     41 °C     40 °C\n",
        ("GPU 1", "gpu.gpu_temp"), "41 °C"),
    (
        "amd-smi",
        "GPU: 0\n    ECC:\n        TOTAL_UNCORRECTABLE_COUNT: 3\n    ECC_BLOCKS:\n        UMC:\n            "
        "UNCORRECTABLE_COUNT: 3\n",
        ("GPU 0", "gpu.ecc.uncorrectable.umc"),
        "3",
    ),
    ("ibportstate", "# Port info: Lid 2 port 25\nLinkState:.......................Down\n"
        "PhysLinkState:...................Polling\n", ("lid 2/25", "port.physical_state"), "polling"),
    (
        "kubectl get -o yaml",
        '{\n    "apiVersion": "v1",\n    "kind": "Pod",\n    "metadata": {\n        "name": "train-3"\n'
        '    },\n    "status": {\n        "containerStatuses": [\n            {\n                "lastState": {\n'
        '                    "terminated": {\n                        "exitCode": 137,\n'
        '                        "reason": "OOMKilled"\n',
        ("train-3", "pod.last_state.exit_code"),
        "137",
    ),
    (
        "journalctl",
        "Aug 17 06:18:00 n17 systemd-networkd[5398]: ib6: Lost carrier\n"
        "Aug 17 06:18:06 n17 systemd-networkd[5398]: ib6: Gained carrier\n",
        ("ib6", "kernel.link"),
        "up",
    ),
    ("switch log", "Aug 20 13:08:44.1 leaf3 NOTICE swss#orchagent: :- PfcWdActionHandler: PFC Watchdog "
        "detected PFC storm on port Ethernet4, queue index 3, queue id 0x15 and port id 0x10.\n",
        ("Ethernet4", "switch.pfc_storm"), "queue index 3"),
)  # fmt: skip


def _matrix(cells: dict[tuple[int, int], str], usual: str, gpus: int = 4) -> str:
    rows = [f"        {'    '.join(f'GPU{n}' for n in range(gpus))}    CPU Affinity"]
    for row in range(gpus):
        values = "    ".join("X" if row == at else cells.get((row, at), usual) for at in range(gpus))
        rows.append(f"GPU{row}    {values}    0-51")
    return "\n".join(rows) + "\n"


def _dmon(busy: int) -> str:
    rows = [f"    {n}    500     60     {busy if n == 2 else 99}   {345 if n == 2 else 1980}" for n in range(4)]
    return "\n".join(["# gpu    pwr  gtemp     sm   pclk", "# Idx      W      C      %    MHz", *rows, ""])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (_matrix({(1, 2): "SYS", (2, 1): "SYS"}, "NV18"), "nvlink-degraded"),
        (_matrix({}, "NV18"), None),
        (_matrix({(0, 1): "NV4", (1, 0): "NV4", (2, 3): "NV4", (3, 2): "NV4"}, "SYS"), None),
        (_dmon(busy=99), "gpu-throttled"),
        (_dmon(busy=0), None),
        ("GPU 6: NVIDIA A100-SXM4-80GB (UUID: GPU-9667d95e)\n"
            "NVML: Unable to retrieve NVLink information as all links are inactive\n", "nvlink-degraded"),
        ("nvbandwidth Version: v0.7\nRunning device_to_device_memcpy_read_ce.\n"
            " Invalid value when checking the pattern at 0x7\n", "wrong-results"),
    ],
)  # fmt: skip
def test_one_device_or_pair_unlike_the_others(tmp_path: Path, text: str, name: str | None) -> None:
    loud = {n for n, level in names(analyze(tmp_path, report=text)).items() if level is not Severity.INFO}
    assert loud == ({name} if name else set())


@pytest.mark.parametrize(("tool", "text", "key", "value"), REPORTS, ids=[r[0] for r in REPORTS])
def test_reports(tool: str, text: str, key: tuple[str | None, str], value: str) -> None:
    found = host_tools.read(list(enumerate(text.splitlines(), 1)))
    assert [o["tool"] for o in found.outputs] == [tool]
    assert facts_of(text)[(key[0] or None, key[1])] == value


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (REPORTS[4][1], "mnnvl-imex-missing"),
        (REPORTS[7][1], "nic-speed-mismatch"),
        (REPORTS[8][1], "link-errors"),
        (REPORTS[10][1], "cuda-hardware-error"),
        (REPORTS[11][1], "nvlink-degraded"),
        (REPORTS[13][1], "host-check-failed"),
    ],
)
def test_reports_that_are_a_fault_by_themselves(tmp_path: Path, text: str, name: str) -> None:
    assert names(analyze(tmp_path, report=text))[name] is not Severity.INFO


def test_facts_beside_a_finding_of_the_log(tmp_path: Path) -> None:
    log = (
        "gpu-07:42:42 [0] NCCL INFO Bootstrap: Using eth0:10.1.4.17<0>\n"
        "gpu-07:42:62 [0] transport/net_ib.cc:123 NCCL WARN NET/IB : mlx5_1:1 Got async event : port error\n"
    )
    kernel = "[12005.100000] mlx5_core 0000:5e:00.1 ens1f1np1: Link down\n"
    (port,) = [f for f in analyze(tmp_path, run=log, dmesg=kernel).findings if f.name == "ib-port-error"]
    assert any(e.input.endswith("dmesg.txt") for e in port.evidence)
