# ruff: noqa: E501 - log lines are long
"""What NCCL 2.31 and 2.32 print: connections with flush, splits with ids, predictions, diagnostics, latency."""

from __future__ import annotations

from pathlib import Path

import nccl_insight
from nccl_insight.base.model import Analysis
from nccl_insight.tables.run import Run

HEAD = "node7:{pid}:{pid} [{dev}] NCCL INFO "
COMM = "0x8a1f5f0c3d2e1b00"


def info(text: str, dev: int = 0) -> str:
    return HEAD.format(pid=100 + dev, dev=dev) + text


def load(tmp_path: Path, *lines: str) -> Run:
    path = tmp_path / "job.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return nccl_insight.load([str(path)])


def judged(tmp_path: Path, *lines: str) -> Analysis:
    return nccl_insight.analyze(load(tmp_path, *lines))


def test_flush_of_receive_lines(tmp_path: Path) -> None:
    run = load(
        tmp_path,
        info("Channel 00/0 : 11[3] -> 3[3] [receive] via NET/IB/3/GDRDMA/flush=None"),
        info("Channel 00/0 : 3[3] -> 11[3] [send] via NET/IB/3/GDRDMA"),
        info("Channel 01/0 : 11[3] -> 3[3] [receive] via NET/AWS Libfabric/2(8)/GDRDMA(PCI)/Shared/flush=C2c"),
        info("Channel 02/0 : 11[3] -> 3[3] [send] via NET/gIB/2(50)(PCI)/Shared"),
    )
    rows = run.table("connections").select("net_dev", "gdr", "shared", "pxn_rank", "flush").rows()
    assert rows == [
        (3, True, False, None, "None"),
        (3, True, False, None, None),
        (2, True, True, 8, "C2c"),
        (2, False, True, 50, None),
    ]


def test_ranks_of_a_split_are_joined_by_its_id(tmp_path: Path) -> None:
    lines = []
    for rank in range(4):
        who = f"nranks 4 cudaDev {rank} nvmlDev {rank} busId {rank + 1}000 commId {COMM}"
        parent = f"0x55aa{rank}0"
        child = f"0x77bb{rank}0"
        lines.append(info(f"ncclCommInitRank comm {parent} rank {rank} {who} - Init START", rank))
        lines.append(info(f"ncclCommInitRank comm {parent} rank {rank} {who} - Init COMPLETE", rank))
        new = f"0x1111{rank % 2}"
        split = (
            f"ncclCommSplit comm {child} rank {rank // 2} nranks 2 cudaDev {rank} nvmlDev {rank} busId {rank + 1}000 "
            f"commId {new} parent {parent} childCount 1 color {rank % 2} key {rank}"
        )
        lines += [info(f"{split} - Init START", rank), info(f"{split} - Init COMPLETE", rank)]
        lines.append(
            info(
                f"comm {child} rank {rank // 2} nranks 2 cudaDev {rank} busId {rank + 1}000 commId {new} - Destroy COMPLETE",
                rank,
            )
        )
    comms = load(tmp_path, *lines).table("communicators").sort("comm_id")
    assert comms.select("comm_id", "nranks", "ranks_seen", "parent_comm_id", "init_complete").rows() == [
        ("0x11110", 2, 2, COMM, True),
        ("0x11111", 2, 2, COMM, True),
        (COMM, 4, 4, None, True),
    ]


def test_predictions_of_the_model(tmp_path: Path) -> None:
    ask = (
        "Input: {{ .comm = 0x55aa, .tuningMask = 0x1fffff, .func = AllReduce, .redOp = 0, .devRedop = 0, .dataType = 7, "
        ".nBytes = {size}, .numPipesOps = {ops}, .count = 1, .countMax = 1, .nWorks = 1457737136, .winRegType = 0, "
        ".regBuff = 0 }}"
    )
    best = (
        "Best tuning {{ .id = 3, .valid = 1, timeUs = {time},  .algo = RING, .proto = LL, .symKernelId = Unknown, "
        ".ceMethodId = 2, nChannels = 4, maxChannels = 4, nWarps = 3, forced = 0 }}"
    )
    run = load(
        tmp_path,
        info(ask.format(size=4096, ops=0)),
        info(ask.format(size=4096, ops=0)),
        info(best.format(time="0.003765")),
        info(best.format(time="0.003765"), 1),
        info(best.format(time="0.003765")),
        info(ask.format(size=4000, ops=1)),
        info(best.format(time="15.5")),
        info("Best tuning, algorithm, RING, protocol, LL"),
        info("AllReduce: 4000 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3} cgaClusterSize 4"),
    )
    rows = run.table("predicted").select("op", "size_bytes", "algorithm", "channels", "predicted_ns", "chosen")
    assert rows.rows() == [("AllReduce", 4000, "RING", 4, 15500.0, True)]
    choice = run.table("tuning_choice").row(0, named=True)
    assert (choice["size_bytes"], choice["channels_hi"], choice["cga_cluster_size"]) == (4000, 3, 4)


def test_times_of_older_choices_are_predictions(tmp_path: Path) -> None:
    run = load(tmp_path, info("1048576 Bytes -> Algo 1 proto 2 time 52.5"))
    assert run.table("predicted").select("size_bytes", "algorithm", "predicted_ns", "chosen").rows() == [
        (1048576, "RING", 52500.0, True)
    ]


def test_rank_sets_of_the_diagnostics(tmp_path: Path) -> None:
    run = load(
        tmp_path,
        "node7:100 NCCL DIAG [INFO] NVLink: inactive link(s) on rank(s) {0,1,2,3,4,5,6,7,...} (N=20) across 64 ranks in "
        f"comm {COMM}",
        f"node7:100 NCCL DIAG [OK]   NVLink: found 18 link(s) per device, all active across 64 ranks in comm {COMM}",
    )
    assert run.table("diagnostics").select("diag_check", "diag_result", "ranks", "n_ranks").rows() == [
        ("NVLink", "finding", [0, 1, 2, 3, 4, 5, 6, 7], 20),
        ("NVLink", "ok", None, None),
    ]


def test_a_finding_of_the_diagnostics_names_its_cause(tmp_path: Path) -> None:
    for text, name in (
        (f"NVLink: link-count mismatch across 16 ranks in comm {COMM}, rank(s) {{3}} differ from rank 0 (18)", "nvlink-degraded"),
        (f"CUDA driver version: mismatch across 16 ranks in comm {COMM}, rank(s) {{8,9}} differ from rank 0 (12080)", "driver-mix"),
        ("NCCL environment: NCCL_PROTO=LL on rank(s) {8,9}", "env-mismatch"),
        ("Xid 79 detected 2 times on host n9. See the catalog.", "xid-error"),
        (f"ECC: uncorrected volatile errors on rank(s) {{3}} (worst=2) across 16 ranks in comm {COMM}", "nccl-diag-failed"),
        ("[FAIL] new check: something is off", "nccl-diag-failed"),
    ):  # fmt: skip
        tag = "" if text.startswith("[") else "[INFO] "
        names = [f.name for f in judged(tmp_path, f"node7:100 NCCL DIAG {tag}{text}").findings]
        assert names[:1] == [name], (text, names)


def test_a_clean_report_is_no_trouble(tmp_path: Path) -> None:
    run = load(
        tmp_path,
        "node7.cluster.local:100 NCCL DIAG === RAS Diagnostics ===",
        f"node7.cluster.local:100 NCCL DIAG [OK]   ECC: no uncorrected volatile errors across 16 ranks in comm {COMM}",
        f"node7.cluster.local:100 NCCL DIAG [OK]   Future check: all is well across 16 ranks in comm {COMM}",
        "node7.cluster.local:100 NCCL DIAG RAS diagnostics completed in 3.1 ms across 16 ranks",
    )
    assert run.table("errors").height == 0
    assert [f.name for f in nccl_insight.analyze(run).findings] in ([], ["debug-output-insufficient"])


def test_the_report_of_the_ras_client_has_no_heads(tmp_path: Path) -> None:
    names = [
        f.name
        for f in judged(
            tmp_path,
            "=== RAS Diagnostics ===",
            f"[INFO] NVLink: inactive link(s) on rank(s) {{3}} across 16 ranks in comm {COMM}",
            "RAS diagnostics completed in 3.1 ms across 4 RAS peers",
        ).findings
    ]
    assert names == ["nvlink-degraded"]


def test_latency_of_work_requests(tmp_path: Path) -> None:
    run = load(
        tmp_path,
        info(
            "NET/IB: WQE slow: peer=10.0.0.7<40988> | local: qpn=85 dev=mlx5_0+mlx5_1 port=1 lid=64 localGid=fe80::1 | "
            "remote: qpn=78 port=1 lid=8 remoteGid=::ffff:10.2.0.9 | thr=100000ns delta=2436505ns mean=5000ns "
            "stddev=100ns p50=4000ns p90=6000ns p99=7000ns p99.9=8000ns max=2436505ns count=9000 | t_post=1 t_poll=2"
        ),
    )
    row = run.table("ib_latency").row(0, named=True)
    assert (row["event"], row["hca_name"], row["latency_ns"], row["p999_ns"]) == (
        "slow",
        "mlx5_0+mlx5_1",
        2436505,
        8000,
    )


def test_a_machine_without_libibverbs_is_healthy(tmp_path: Path) -> None:
    found = judged(
        tmp_path,
        "[2026-11-21 23:27:59] node7:100:100 [0] misc/ibvwrap.cc:190 (wrap_ibv_alloc_pd) NCCL WARN lib wrapper not initialized.",
        info("misc/ibvwrap.cc:190 (wrap_ibv_alloc_pd) -> 3"),
    )
    assert [f.name for f in found.findings if f.severity.value in ("error", "warning")] == []


def test_lines_of_level_attn_are_warnings_of_what_they_say(tmp_path: Path) -> None:
    head = "[2026-09-20 10:11:12] node7:100:100 [0] graph/topo.cc:812 (ncclTopoGetSystem) NCCL ATTN "
    for text, name in (
        ("NVLink bandwidth of GPU 3 is degraded: 17 of 18 links are active", "nvlink-degraded"),
        ("Invalid value abc for NCCL_NTHREADS, using default -2.", "env-invalid-value"),
        ("Something new that deserves attention", "nccl-attention"),
    ):
        found = judged(tmp_path, head + text).findings
        assert [f.name for f in found][:1] == [name], (text, found)
        assert all(f.severity.value != "error" for f in found), text
