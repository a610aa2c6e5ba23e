# ruff: noqa: E501 - log lines and expected output are long
"""Made-up runs for the renderers: healthy 16 ranks, failing 64 ranks, 1,024 ranks, a traced run.

Nothing here goes through the grammar or the rules, so that renderer tests fail for renderer faults only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from nccl_insight.base.model import (
    Action,
    Analysis,
    Confidence,
    Coverage,
    Evidence,
    Finding,
    FindingClass,
    InputInfo,
    Job,
    NotJudged,
    Role,
    Severity,
    Suppressed,
    ToolInfo,
)
from nccl_insight.engine.steps import steps_of
from nccl_insight.tables import waiting
from nccl_insight.tables.run import Run, build_run
from nccl_insight.views.ranks import PHASES

GPUS = 8
COMM = "0x6b1d3a90c4f2e871"
TOOL = ToolInfo("nccl-insight", "0.1.0", 1, "9f2c4e1ab07d")


@dataclass(frozen=True)
class FakeReader:
    """Serves lines from memory."""

    text: dict[tuple[int, int], str]

    def lines(self, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], str]:
        return {key: self.text[key] for key in wanted if key in self.text}


def finding(
    code: str = "NI223",
    name: str = "ib-qp-timeout",
    severity: Severity = Severity.ERROR,
    *,
    title: str = "Queue pair set-up to 10.1.7.23 timed out on 2 ranks",
    klass: FindingClass = FindingClass.FAILURE,
    role: Role = Role.INDEPENDENT,
    caused_by: str | None = None,
    ranks: tuple[int, ...] = (40, 41),
    hosts: tuple[str, ...] = ("gpu-node-05",),
    evidence: tuple[Evidence, ...] = (),
    confidence: Confidence = Confidence.HIGH,
    action: Action = Action.ISOLATE,
    observed: str = "errno 110 after 20.4 s",
    expected: str = "a connected queue pair in under 1 s",
    next_step: str = "Run `ibping -G 0xb8599f03001a2b3c` from gpu-node-05 to gpu-node-02; if it fails, take the cable's port out.",
    explanation: str = "The HCA retried the address handshake until its timeout. Packets between these two ports do not arrive, so NCCL gave up.",
    sources: tuple[str, ...] = ("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    anchor: str = "",
) -> Finding:
    """A finding with sensible defaults."""
    lines = evidence or (
        Evidence(
            "job-4711/rank40.log",
            214,
            "gpu-node-05:24111:24633 [0] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out errno 110",
            True,
        ),
    )
    return Finding(
        code, name, klass, severity, confidence, action, title, explanation, next_step, observed, expected, "",
        ranks, hosts, COMM, role, caused_by, lines, sources, f"fp-{code}-{name}", anchor or f"{code}-1",
        steps_of(next_step),
    )  # fmt: skip


def _hosts(nodes: int) -> list[str]:
    return [f"gpu-node-{n:02d}" for n in range(1, nodes + 1)]


def cluster_tables(nodes: int, *, channels: int = 4, bad_node: int | None = None) -> dict[str, pl.DataFrame]:
    """Tables of a job with eight GPUs and eight NICs a node; ``bad_node`` falls back to sockets."""
    hosts = _hosts(nodes)
    nranks = nodes * GPUS
    line = iter(range(1, 10_000_000))
    ranks, processes, env, timings, nics, rings, trees, links, counts = ([] for _ in range(9))
    for rank in range(nranks):
        node, dev = divmod(rank, GPUS)
        base = {"input_id": 0, "line": next(line)}
        pid = 24100 + rank
        bad = node == bad_node
        ranks.append({
            **base, "comm_id": COMM, "comm": f"0x55d0{rank:04x}", "host": hosts[node], "pid": pid, "tid": pid + 500,
            "rank": rank, "nranks": nranks, "cuda_dev": dev, "nvml_dev": dev, "bus_id": f"{0x1b + dev * 16:x}000",
            "n_nodes": nodes, "local_rank": dev, "local_ranks": GPUS, "init_started": True,
            "init_complete": not (bad and dev < 2), "destroyed": "no",
        })  # fmt: skip
        processes.append({
            **base, "host": hosts[node], "pid": pid, "launcher_rank": rank,
            "nccl_version": "2.26.2" if bad else "2.27.3", "cuda_version": "12.8", "driver_version": 12080,
            "library": "nccl", "network": "Socket" if bad else "IB",
        })  # fmt: skip
        slow = 4.0 if bad else 1.0
        parts = {
            p: round(v * (1 + (rank % 7) / 40), 4)
            for p, v in zip(PHASES, (0.21, 0.03, 0.18 * slow, 0.02, 0.35, 0.05, 0.42 * slow, 0.02), strict=True)
        }
        timings.append({**base, "comm_id": COMM, "rank": rank, "total_s": round(sum(parts.values()), 4), **parts})
        counts.append({**base, "comm_id": COMM, "rank": rank, "coll_channels": channels, "collnet_channels": 0,
                       "nvls_channels": 8, "p2p_channels": channels, "p2p_channels_per_peer": 2})  # fmt: skip
    for node, host in enumerate(hosts):
        pid = 24100 + node * GPUS
        for name, value in (
            ("NCCL_DEBUG", "INFO"),
            ("NCCL_SOCKET_IFNAME", "bond0"),
            ("NCCL_IB_HCA", "mlx5"),
            ("NCCL_IB_GID_INDEX", "3" if node != 1 else "0"),
        ):
            env.append({"input_id": 0, "line": next(line), "host": host, "pid": pid, "name": name, "value": value,
                        "origin": "environment"})  # fmt: skip
        for dev in range(GPUS):
            nics.append({"input_id": 0, "line": next(line), "host": host, "pid": pid, "network": "IB",
                         "index": dev, "name": f"mlx5_{dev}", "port": 1, "link_layer": "IB", "address": None,
                         "speed_gbit": 400, "gdr": node != bad_node})  # fmt: skip
    for channel in range(channels):
        order = [n * GPUS + (d + channel) % GPUS for n in range(nodes) for d in range(GPUS)]
        for position, rank in enumerate(order):
            rings.append({"input_id": 0, "line": next(line), "comm_id": COMM, "channel": channel,
                          "position": position, "rank": rank, "truncated": False})  # fmt: skip
            other = order[(position + 1) % nranks]
            here, there = rank // GPUS, other // GPUS
            bad = bad_node in (here, there)
            row = {
                "input_id": 0, "line": next(line), "comm_id": COMM, "host": hosts[here],
                "pid": 24100 + rank, "channel": channel, "conn_index": 0, "src_rank": rank,
                "src_dev": str(rank % GPUS), "dst_rank": other, "dst_dev": str(other % GPUS),
                "dev_kind": "nvml_dev", "direction": "send", "transport": "P2P", "method": "CUMEM",
                "network": None, "net_dev": None, "gdr": None, "shared": False, "read": False,
                "pxn_rank": None, "intermediate_rank": None, "via": "P2P/CUMEM",
            }  # fmt: skip
            if here != there:
                row |= {"transport": "NET", "method": None, "network": "Socket" if bad else "IB",
                        "net_dev": (channel * 2) % GPUS, "gdr": not bad,
                        "via": "NET/Socket/0" if bad else f"NET/IB/{(channel * 2) % GPUS}/GDRDMA"}  # fmt: skip
            links.append(row)
        for rank in range(nranks):
            node, dev = divmod(rank, GPUS)
            parent = rank - 1 if dev else (((node - 1) // 2) * GPUS if node else None)
            children = [rank + 1] if dev < GPUS - 1 else []
            children += [c * GPUS for c in (2 * node + 1, 2 * node + 2) if dev == 0 and c < nodes]
            trees.append({"input_id": 0, "line": next(line), "comm_id": COMM, "channel": channel, "tree": 0,
                          "rank": rank, "parent_rank": parent, "child_ranks": children})  # fmt: skip
    topo_nodes, topo_links = [], []
    for dev in range(GPUS):
        base = {"input_id": 0, "host": hosts[0]}
        topo_nodes.append({**base, "line": next(line), "node": f"GPU/{dev}", "kind": "GPU", "index": dev,
                           "bus_id": f"{0x1b + dev * 16:x}000", "rank": dev, "numa": dev // 4})  # fmt: skip
        topo_nodes.append({**base, "line": next(line), "node": f"NIC/{dev}", "kind": "NIC", "index": dev,
                           "bus_id": None, "rank": None, "numa": dev // 4})  # fmt: skip
        topo_nodes.append({**base, "line": next(line), "node": f"PCI/{dev}", "kind": "PCI", "index": dev,
                           "bus_id": None, "rank": None, "numa": dev // 4})  # fmt: skip
        for src, dst, link, bandwidth in (
            (f"GPU/{dev}", f"PCI/{dev}", "PCI", 48.0),
            (f"PCI/{dev}", f"NIC/{dev}", "PCI", 48.0),
            (f"GPU/{dev}", "NVS/0", "NVL", 370.8),
            (f"PCI/{dev}", f"CPU/{dev // 4}", "PCI", 48.0),
        ):
            topo_links.append({**base, "line": next(line), "src": src, "dst": dst, "link": link, "bw_gbps": bandwidth})
    calls = []
    for rank in range(min(nranks, 64)):
        for op, size, times in (("AllReduce", 4, 3), ("AllReduce", 4096, 12), ("AllReduce", 1 << 25, 24),
                                ("AllGather", 1 << 27, 4), ("ReduceScatter", 1 << 27, 4),
                                ("Broadcast", 1 << 20, 2)):  # fmt: skip
            calls += [{"input_id": 0, "line": next(line), "comm_id": COMM, "host": hosts[rank // GPUS],
                       "pid": 24100 + rank, "rank": rank, "op": op, "op_count": n, "count": size // 4,
                       "dtype": "float", "size_bytes": size, "nranks": nranks} for n in range(times)]  # fmt: skip
    return {
        "ranks": pl.DataFrame(ranks), "processes": pl.DataFrame(processes), "env": pl.DataFrame(env),
        "init_timings": pl.DataFrame(timings), "net_devices": pl.DataFrame(nics), "rings": pl.DataFrame(rings),
        "trees": pl.DataFrame(trees, infer_schema_length=None), "connections": pl.DataFrame(links, infer_schema_length=None),
        "channel_counts": pl.DataFrame(counts), "topology_links": pl.DataFrame(topo_links),
        "topology_nodes": pl.DataFrame(topo_nodes, infer_schema_length=None), "calls": pl.DataFrame(calls),
        "communicators": pl.DataFrame({
            "input_id": [0], "line": [1], "comm_id": [COMM], "comm_id_made": [False], "nranks": [nranks],
            "ranks_seen": [nranks], "missing_ranks": [[]], "n_nodes": [nodes], "hosts": [hosts],
            "parent_comm_id": [None], "api": ["CommInitRank"], "nccl_versions": [["2.27.3"]],
            "init_complete": [bad_node is None],
        }),
        "inputs": pl.DataFrame({
            "input_id": [0], "path": ["job-4711/all.log"], "kind": ["nccl_log"], "size_bytes": [8_412_331],
            "sha256": ["5f" * 32], "lines": [61_204], "nccl_lines": [58_000], "parsed_lines": [57_400],
            "unknown_lines": [600], "foreign_lines": [3_200], "last_foreign_line": [61_204],
            "torn_lines": [4], "bad_bytes": [0],
        }),
    }  # fmt: skip


def _job(nodes: int, versions: tuple[str, ...] = ("2.27.3",), networks: tuple[str, ...] = ("IB",)) -> Job:
    return Job(
        versions, nodes * GPUS, nodes, tuple(_hosts(nodes)), nodes * GPUS, networks, 1, ("12.8",), ("570.86.15",)
    )


def _inputs(path: str = "job-4711/all.log", kind: str = "nccl_log") -> tuple[InputInfo, ...]:
    return (InputInfo(path, kind, 8_412_331, "5f" * 32, 61_204),)


def _coverage(unknown: int = 600) -> Coverage:
    templates = (("Bootstrap timings total # (create #, send #)", 420), ("<script>alert(1)</script> # of #", 180))
    parsed = 58_000 - unknown
    return Coverage(61_204, 58_000, parsed, unknown, 3_200, 4, templates if unknown else ())


NOT_JUDGED = (
    NotJudged("exposed-communication", "no trace was given", "give a PyTorch profiler trace of the same job"),
    NotJudged("straggler-rank", "no trace was given", "give a PyTorch profiler trace of the same job"),
    NotJudged("low-bandwidth", "no benchmark or trace was given", "run nccl-tests all_reduce_perf and give its output"),
)


def healthy() -> tuple[Analysis, Run]:
    """16 ranks on two nodes, nothing wrong, one note."""
    run = build_run(cluster_tables(2), FakeReader({}))
    note = finding(
        "NI211", "net-socket-by-config", Severity.INFO, klass=FindingClass.INFORMATION, action=Action.NONE,
        title="NCCL_SOCKET_IFNAME pins bootstrap to bond0 on 2 hosts", ranks=(), hosts=("gpu-node-01", "gpu-node-02"),
        observed="NCCL_SOCKET_IFNAME=bond0", expected="", next_step="Nothing to do unless the interface was renamed.",
        evidence=(Evidence("job-4711/all.log", 31, "gpu-node-01:24100:24100 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to bond0", True),),
    )  # fmt: skip
    analysis = Analysis("ok", (note,), _job(2), _coverage(0), _inputs(), TOOL, not_judged=NOT_JUDGED)
    return analysis, run


def failing() -> tuple[Analysis, Run]:
    """64 ranks on eight nodes; node 5 fell back to sockets and its first two ranks never finished."""
    text = {
        (
            0,
            n,
        ): f"gpu-node-05:24140:24640 [{n % 8}] NCCL INFO Channel {n % 16:02d}/0 : {n % 64}[{n % 8}] -> {(n + 1) % 64}[{(n + 1) % 8}] via P2P/CUMEM"
        for n in range(200, 230)
    }
    text[0, 214] = (
        "gpu-node-05:24140:24640 [0] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out errno 110"
    )
    text[0, 215] = "gpu-node-05:24140:24640 [0] NCCL INFO transport/net_ib.cc:1293 -> 2"
    root = finding(
        role=Role.ROOT,
        anchor="NI223-1",
        evidence=(
            Evidence("job-4711/all.log", 214, text[0, 214], True),
            Evidence("job-4711/all.log", 215, text[0, 215]),
        ),
    )
    cascade = finding(
        "NI501", "peer-died", klass=FindingClass.SECONDARY, role=Role.CASCADE, caused_by="ib-qp-timeout",
        title="62 ranks lost a connection to a peer that had already failed", action=Action.NONE,
        ranks=tuple(r for r in range(64) if r not in (40, 41)), hosts=tuple(_hosts(8)), observed="ncclRemoteError on 62 ranks",
        expected="", next_step="Nothing by itself: fix ib-qp-timeout first.", severity=Severity.WARNING,
        evidence=(Evidence("job-4711/all.log", 228, "gpu-node-01:24100:24600 [0] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer gpu-node-05<10.1.7.23>", True),),
    )  # fmt: skip
    versions = finding(
        "NI102", "version-mix", title="Two NCCL versions in one communicator: 2.27.3 on 56 ranks, 2.26.2 on 8",
        ranks=tuple(range(32, 40)), hosts=("gpu-node-05",), action=Action.CONFIG, observed="2.26.2 on gpu-node-05",
        expected="2.27.3 as on the other 7 hosts", next_step="Start every rank from one container image; `python -c 'import torch; print(torch.cuda.nccl.version())'` tells which one a host has.",
        evidence=(Evidence("job-4711/all.log", 34, "gpu-node-05:24132:24132 [0] NCCL INFO NCCL version 2.26.2+cuda12.8", True),),
        explanation="NCCL's bootstrap messages differ between releases: mixed versions hang or misread each other's data.",
    )  # fmt: skip
    fallback = finding(
        "NI210", "net-socket-fallback", Severity.WARNING, klass=FindingClass.PERFORMANCE, action=Action.CONFIG,
        confidence=Confidence.MEDIUM, title="16 inter-node connections use TCP sockets although 8 InfiniBand NICs were found",
        ranks=tuple(range(32, 40)), hosts=("gpu-node-05",), observed="NET/Socket on 16 of 64 inter-node connections",
        expected="NET/IB with GDRDMA (8 x 400 Gbit/s)", next_step="Check `ls /dev/infiniband` inside the container of gpu-node-05.",
        evidence=(Evidence("job-4711/all.log", 220, text[0, 220], True),),
    )  # fmt: skip
    analysis = Analysis(
        "findings", (root, versions, fallback, cascade), _job(8, ("2.27.3", "2.26.2"), ("IB", "Socket")), _coverage(), _inputs(), TOOL,
        suppressed=(Suppressed(finding("NI106", "env-deprecated", Severity.INFO, title="NCCL_CROSS_NIC is deprecated"), "known on this cluster", "2027-01-01"),),
        not_judged=NOT_JUDGED, notes=("rank 63's log ends in the middle of a line",),
    )  # fmt: skip
    return analysis, build_run(cluster_tables(8, bad_node=4), FakeReader(text))


def thousand() -> tuple[Analysis, Run]:
    """1,024 ranks on 128 nodes, 20 findings."""
    one, _ = failing()
    more = tuple(
        finding("NI241", "nic-shared-by-gpus", Severity.WARNING, klass=FindingClass.PERFORMANCE, action=Action.CONFIG,
                title=f"mlx5_0 of {host} carries the traffic of 4 GPUs", hosts=(host,), ranks=tuple(range(8 * n, 8 * n + 4)),
                anchor=f"NI241-{n + 1}")
        for n, host in enumerate(_hosts(16))
    )  # fmt: skip
    analysis = Analysis("findings", one.findings + more, _job(128), _coverage(), _inputs(), TOOL, not_judged=NOT_JUDGED)
    return analysis, build_run(cluster_tables(128, channels=8, bad_node=17), FakeReader({}))


def traced() -> tuple[Analysis, Run]:
    """8 ranks with a profiler trace: rank 5 is a straggler, a third of the communication is exposed."""
    collectives, steps, benchmarks = [], [], []
    for rank in range(8):
        clock = 1_000_000_000 + rank * 40_000
        for step in range(12):
            start = clock
            late = 9_000_000 if rank == 5 else 0
            for n, (op, size, took) in enumerate((
                ("AllGather", 1 << 26, 420_000), ("AllReduce", 1 << 25, 310_000), ("AllReduce", 1 << 22, 74_000),
                ("ReduceScatter", 1 << 26, 440_000), ("AllReduce", 1 << 12, 21_000),
            )):  # fmt: skip
                clock += 4_000_000 + (late if n == 1 else 0)
                wait = 0 if rank == 5 or n != 1 else 9_000_000
                took += (step * 37 + rank * 11 + n * 5) % 40 * 1000
                factor = {"AllReduce": 1.75}.get(op, 0.875)
                algbw = size / took
                collectives.append({
                    "input_id": rank, "rank": rank, "process_group": "0", "group_ranks": list(range(8)),
                    "seq": step * 5 + n, "op": op, "size_bytes": size, "dtype": "bfloat16", "group_size": 8,
                    "start_ns": clock, "duration_ns": took + wait, "stream": 20, "device": rank,
                    "kernel": f"ncclDevKernel_{op}_Sum_bf16_RING_LL", "algorithm": "RING", "protocol": "SIMPLE",
                    "step": step, "exposed_ns": (took + wait) // 3, "algbw_gbps": algbw, "busbw_gbps": algbw * factor,
                    "skew_ns": late if n == 1 else rank * 1000, "min_duration_ns": took, "source": "kernel",
                    "match_id": step * 5 + n, "wait_ns": wait, "matched_ranks": 8,
                })  # fmt: skip
                clock += took + wait
            clock += 2_000_000
            duration = clock - start
            comm = int(duration * 0.28)
            steps.append({
                "input_id": rank, "rank": rank, "step": step, "start_ns": start, "duration_ns": duration,
                "compute_ns": int(duration * 0.66), "comm_ns": comm, "exposed_comm_ns": comm // 3,
                "memcpy_ns": int(duration * 0.03), "idle_ns": int(duration * 0.2), "overlap_pct": 66.7,
            })  # fmt: skip
    for power in range(10, 34, 2):
        size = 1 << power
        took = 20 + size / 210_000
        algbw = size / took / 1000
        for in_place in (False, True):
            benchmarks.append({
                "input_id": 8, "op": "AllReduce", "size_bytes": size, "count": size // 4, "dtype": "float",
                "red_op": "sum", "root": -1, "in_place": in_place, "time_us": took, "algbw_gbps": algbw,
                "busbw_gbps": algbw * 1.75, "wrong": 0, "nranks": 8,
            })  # fmt: skip
    frame = pl.DataFrame(collectives)
    tables = cluster_tables(1) | {
        "collectives": frame,
        "steps": pl.DataFrame(steps),
        "benchmarks": pl.DataFrame(benchmarks),
        "waits": waiting.waits(frame),
        "collective_ranks": waiting.collective_ranks(frame),
    }
    straggler = finding(
        "NI605", "straggler-rank", Severity.WARNING, klass=FindingClass.PERFORMANCE, action=Action.TRIAGE,
        title="Rank 5 arrives 9.0 ms late at 12 of 12 all-reduces; the others wait for it", ranks=(5,), hosts=("gpu-node-01",),
        observed="9.0 ms of wait per step", expected="under 1 ms", next_step="Compare clocks and data loading of GPU 5: `nvidia-smi -q -i 5 -d CLOCK,PERFORMANCE`.",
        evidence=(Evidence("traces/rank5.json", 0, "searched 480 AllReduce kernels of 8 ranks", True),),
        explanation="All ranks but one spend the time inside the collective, which ends when the last one arrives.",
    )  # fmt: skip
    analysis = Analysis(
        "findings", (straggler,), _job(1), Coverage(), _inputs("traces/rank5.json", "torch_trace"), TOOL,
        not_judged=(NotJudged("ib-qp-timeout", "no NCCL log was given", "set NCCL_DEBUG=INFO"),),
    )  # fmt: skip
    return analysis, build_run(tables)


ALL = {"healthy": healthy, "failing": failing, "thousand": thousand, "traced": traced}
