"""Nsight Systems reader: lanes, payloads, lazy tables, old and new schemas, damaged and private content."""

from __future__ import annotations

import gzip
import sqlite3
import struct
from pathlib import Path

import polars as pl
import pytest

import nccl_insight
from nccl_insight.inputs.find import find_inputs
from nccl_insight.readers.nsys import FORMAT
from nccl_insight.readers.nsys.format import read as read_export
from nccl_insight.tables.run import Partial
from tests import runs
from tests.nsys_exports import EPOCH, SECRET, Export, payload, read
from tests.trace_maker import late_gpu

SHARED = runs.SHARED / "traces"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="reference traces : set NCCL_INSIGHT_REFERENCE_DATA")


def told(part: Partial) -> str:
    return "\n".join(f"{k}: {d}" for k, d in part.tables["notes"].select("kind", "detail").iter_rows())


def test_two_ranks_in_one_report_with_payloads(tmp_path: Path) -> None:
    export = Export(tmp_path / "r.sqlite").gpu().schemas()
    comm = 0xFEDCBA9876543210
    for pid, rank in ((100, 0), (101, 1)):
        init = payload(900, struct.pack("<Qiii", comm, 2, rank, rank) + b"\0" * 4)
        export.mark("ncclCommInitRankConfig", 10, 20, pid, init)
        # both processes use device 0 and the same correlation id
        export.mark("ncclAllReduce", 1000, 1100, pid, payload(901, struct.pack("<QQi", comm, 1 << 20, 0)))
        export.launch(1050, pid, 7)
        export.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 2000 + rank, 4000, pid, 0, 7)
        export.mark("ProfilerStep#3", 900, 5000, pid, by_id=False)
    export.kernel("gemm", 3000, 3500, 100, 0)
    part = export.read()
    rows = part.tables["collectives"].sort("rank")
    assert rows["rank"].to_list() == [0, 1]
    assert rows["process_group"].to_list() == ["0xfedcba9876543210"] * 2
    assert rows["op"].to_list() == ["AllReduce"] * 2
    assert rows["size_bytes"].to_list() == [1 << 20] * 2
    assert rows["group_size"].to_list() == [2, 2]
    assert rows["step"].to_list() == [3, 3]
    assert rows["start_ns"].to_list() == [EPOCH + 2000, EPOCH + 2001]
    # the kernel of process 100 does not hide that of process 101, although both say device 0
    assert rows["exposed_ns"].to_list() == [1500, 1999]
    assert rows["busbw_gbps"].to_list() == pytest.approx([(1 << 20) / 2000, (1 << 20) / 1999])
    steps = part.tables["steps"].sort("rank")
    assert steps.select("step", "compute_ns", "comm_ns", "exposed_comm_ns").rows() == [
        (3, 500, 2000, 1500),
        (3, 0, 1999, 1999),
    ]
    assert "no message size" not in told(part)


def test_reports_without_payloads_of_which_the_names_tell_the_ranks(tmp_path: Path) -> None:
    paths = []
    for rank, work in enumerate(late_gpu(3)):
        export = Export(tmp_path / f"profile_rank{rank}.sqlite").gpu()
        for reduces, start, end in work:
            name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL" if reduces else "gemm"
            export.kernel(name, int(start * 1000), int(end * 1000), 100 + rank, 0)
        export.db.commit()
        export.db.close()
        paths.append(export.path)
    (mend,) = nccl_insight.analyze(nccl_insight.load(paths)).what_if
    assert (mend.kind, mend.ranks) == ("rank", (3,))
    assert mend.alone_ns == pytest.approx(60 * 300_000, rel=0.1)


def test_groups_and_gathers(tmp_path: Path) -> None:
    export = Export(tmp_path / "r.sqlite").gpu().schemas()
    export.mark("ncclCommInitRank", 10, 20, 9, payload(900, struct.pack("<Qiii", 5, 4, 2, 0) + b"\0" * 4))
    export.mark("ncclAllGather", 100, 110, 9, payload(901, struct.pack("<QQi", 5, 1000, 0)))
    export.launch(105, 9, 1)
    export.kernel("ncclDevKernel_AllGather_RING_LL", 200, 300, 9, 0, 1)
    export.mark("ncclGroupStart", 400, 401, 9)
    for i in range(3):
        export.mark("ncclSend", 402 + 4 * i, 403 + 4 * i, 9, payload(901, struct.pack("<QQi", 5, 100, 0)))
        export.mark("ncclRecv", 404 + 4 * i, 405 + 4 * i, 9, payload(901, struct.pack("<QQi", 5, 100, 0)))
    export.mark("ncclGroupEnd", 420, 440, 9)
    export.launch(430, 9, 2)
    export.kernel("ncclDevKernel_SendRecv", 500, 600, 9, 0, 2)
    rows = export.read().tables["collectives"]
    # NCCL logs the size per rank of an AllGather; the full output counts
    assert rows.select("op", "size_bytes", "calls").rows() == [("AllGather", 4000, 1), ("SendRecv", 300, 6)]


def test_framework_range_names_the_exchange(tmp_path: Path) -> None:
    export = Export(tmp_path / "r.sqlite", blobs=False).gpu()
    export.mark("nccl:all_to_all, op_id = 12", 390, 450, 9)
    export.mark("ncclGroupStart", 400, 401, 9)
    export.mark("ncclSend", 402, 403, 9)
    export.mark("ncclRecv", 404, 405, 9)
    export.mark("ncclGroupEnd", 420, 440, 9)
    export.launch(430, 9, 2)
    export.kernel("ncclDevKernel_SendRecv", 500, 600, 9, 0, 2)
    part = export.read()
    assert part.tables["collectives"]["op"].to_list() == ["AllToAll"]
    assert part.tables["collectives"]["size_bytes"].to_list() == [None]
    assert "--include-blobs=true" in told(part)
    assert "names no ranks" in told(part)


def test_lazy_tables(tmp_path: Path) -> None:
    part = Export(tmp_path / "r.sqlite").read()
    assert "no GPU activity was recorded" in told(part)
    only_strings = sqlite3.connect(tmp_path / "s.sqlite")
    only_strings.execute("create table StringIds (id integer, value text)")
    only_strings.commit()
    only_strings.close()
    assert "no GPU activity" in told(read(tmp_path / "s.sqlite"))
    graphs = Export(tmp_path / "g.sqlite")
    graphs.db.execute("create table CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start integer)")
    assert "--cuda-graph-trace=node" in told(graphs.read())


def test_secrets_are_not_read(tmp_path: Path) -> None:
    export = Export(tmp_path / "r.sqlite").gpu()
    export.text(f"PASSWORD={SECRET}")
    export.db.execute("insert into META_DATA_EXPORT values ('EXPORT_HOST', ?)", (SECRET,))
    export.kernel("ncclDevKernel_SendRecv", 1, 2, 1, 0)
    assert SECRET not in "".join(str(t.rows()) for t in export.read().tables.values())


def test_compressed_export_and_damage(tmp_path: Path) -> None:
    export = Export(tmp_path / "r.sqlite").gpu()
    for i in range(2000):
        export.kernel("gemm", 10 * i, 10 * i + 5, 1, 0)
    export.kernel("ncclDevKernel_SendRecv", 1, 5, 1, 0)
    export.read()
    data = (tmp_path / "r.sqlite").read_bytes()
    (tmp_path / "r.sqlite.gz").write_bytes(gzip.compress(data))
    assert read(tmp_path / "r.sqlite.gz").tables["collectives"].height == 1
    (tmp_path / "cut.sqlite.gz").write_bytes(gzip.compress(data)[:-2000])
    assert "trace-truncated" in told(read(tmp_path / "cut.sqlite.gz"))
    (tmp_path / "cut.sqlite").write_bytes(data[: len(data) // 3])
    assert told(read(tmp_path / "cut.sqlite")).count("trace-truncated") == 1
    (tmp_path / "junk.sqlite").write_bytes(data[:100] + b"\xff" * 5000)
    assert told(read(tmp_path / "junk.sqlite")).count("trace-truncated") == 1


def test_odd_values_do_not_raise(tmp_path: Path) -> None:
    export = Export(tmp_path / "r.sqlite").gpu().schemas()
    row = ("x", None, "y", b"\0", 1.5, "z", None, 99)
    export.db.execute("insert into CUPTI_ACTIVITY_KIND_KERNEL values (?,?,?,?,?,?,?,?)", row)
    export.mark("ncclAllReduce", 5, 9, 1, b"short")
    export.mark("ncclAllReduce", 5, 9, 1, payload(901, b"\1"))
    export.mark("ncclAllReduce", 5, 9, 1, struct.pack("<QQQQ", 1, 901, 1 << 62, 0))
    export.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 5, 9, 1, 0, 3)
    assert export.read().tables["collectives"].height == 1


def test_sniff() -> None:
    assert FORMAT.sniff(b"SQLite format 3\0" + b"\0" * 100 + b"StringIds", "x") > 0.9
    assert FORMAT.sniff(b'{"traceEvents": []}', "x.sqlite") == 0.0


@needs_shared
def test_reference_report() -> None:
    """Independent figures: communication 17,172,652 and 8,229,100 ns, compute 253,690,832 and 256,095,624 ns."""
    part = read(SHARED / "nsys_h100_2gpu_before" / "mfu_2gpu_before.sqlite.gz")
    steps = part.tables["steps"].sort("device")
    assert steps["exposed_comm_ns"].to_list() == [17_172_652, 8_229_100]
    assert steps["compute_ns"].to_list() == [253_690_832, 256_095_624]
    assert steps["idle_ns"].to_list() == [26_031_025, 31_385_635]
    counts = part.tables["collectives"].group_by("device").len().sort("device")
    assert counts["len"].to_list() == [33, 33]
    assert set(part.tables["collectives"]["op"].drop_nulls()) <= {"AllToAll", "SendRecv"}
    assert part.tables["collectives"].filter(pl.col("op") == "AllToAll").height == 64


def test_oldest_schema() -> None:
    path = Path(__file__).parents[3] / "fixtures" / "traces" / "nsys_2022_4.sqlite.gz"
    assert "no GPU activity" in told(read(path))


def test_report_without_gpu_activity_counts_as_read(tmp_path: Path) -> None:
    info = Export(tmp_path / "r.sqlite").read().tables["trace_info"]
    assert info.select("gpu_events", "input_id").rows() == [(0, 0)]


def test_equal_calls_on_many_kernels(tmp_path: Path) -> None:
    """What repeats is looked at once; sizes and peers stay those of each kernel's own call."""
    export = Export(tmp_path / "many.sqlite").gpu().schemas()
    for n in range(300):
        at = 1_000 * n
        size = 1 << (10 + n % 3)
        export.mark("ncclAllReduce", at, at + 100, 1, payload(901, struct.pack("<QQQ", 77, size, 0)))
        export.launch(at + 50, 1, n + 1)
        export.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", at + 200, at + 700, 1, 0, n + 1)
    collectives = export.read().tables["collectives"].sort("start_ns")
    assert collectives["size_bytes"].to_list() == [1 << (10 + n % 3) for n in range(300)]
    assert set(collectives["op"]) == {"AllReduce"}


def test_a_database_of_another_program_is_told_and_gives_nothing(tmp_path: Path) -> None:
    base = sqlite3.connect(tmp_path / "x.sqlite")
    base.execute("create table t (a)")
    base.commit()
    base.close()
    found = read_export(find_inputs([str(tmp_path / "x.sqlite")])[0])
    assert [name for name, table in found.tables.items() if table.height] == ["notes"]
    assert "no table StringIds" in found.tables["notes"]["detail"][0]
