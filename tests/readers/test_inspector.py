"""NCCL Inspector 4.0 to 4.4."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nccl_insight.readers import inspector
from tests.readers.side_files import tables, write

# --- Inspector and the profiler plugin -----------------------------------------------------------------------

RECORD = (
    '{"header":{"id":"0xe62dedaa97644a","comm_name":"a \\"coll_sn\\":9","rank":4,"n_ranks":8,"nnodes":1},'
    '"metadata":{"inspector_output_format_version":"v4.0","dump_timestamp_us":1752867229276385,"hostname":"h","pid":7},'
    '"coll_perf":{"coll":"ReduceScatter","coll_sn":1231,"coll_msg_size_bytes":2147483648,"coll_exec_time_us":41057,'
    '"coll_timing_source":"kernel_gpu","coll_algobw_gbs":418.439467,"coll_busbw_gbs":366.134533}}'
)


@pytest.mark.parametrize("pretty", [False, True])
def test_inspector_records(tmp_path: Path, pretty: bool) -> None:
    one_record = json.dumps(json.loads(RECORD), indent=2) if pretty else RECORD
    text = f"{one_record}\n{one_record}\n{one_record[:300]}"
    found = tables(inspector.FORMAT, write(tmp_path, "h-pid7.log", text))
    rows = found["collectives"]
    assert rows.height == 2
    row = rows.row(0, named=True)
    assert (row["rank"], row["seq"], row["op"], row["group_size"]) == (4, 1231, "ReduceScatter", 8)
    assert row["size_bytes"] == 8 * 2147483648
    assert row["duration_ns"] == 41_057_000
    assert row["busbw_gbps"] == pytest.approx(366.134533)
    assert found["notes"]["kind"].to_list() == ["trace-truncated"]


# --- damaged compression -------------------------------------------------------------------------------------


def damaged() -> Iterator[tuple[str, bytes]]:
    whole = gzip.compress(("\n".join([RECORD] * 2000)).encode(), mtime=0)
    yield "cut", whole[: len(whole) // 2]
    yield "flipped", whole[:200] + bytes([whole[200] ^ 0xFF]) + whole[201:]


@pytest.mark.parametrize(("name", "data"), list(damaged()))
def test_damaged_gzip_gives_a_note(tmp_path: Path, name: str, data: bytes) -> None:
    found = tables(inspector.FORMAT, write(tmp_path, f"{name}.log.gz", data))
    assert "trace-truncated" in found["notes"]["kind"].to_list()


def _marker(rank: int, colls: int, proxies: int = 0, dropped: int = 0) -> str:
    return (
        f'{{"header":{{"id":"0xab","rank":{rank},"n_ranks":2,"nnodes":1}},"metadata":{{'
        '"inspector_output_format_version":"v4.3","dump_timestamp_us":1752867229276385,"hostname":"h","pid":7},'
        f'"dump_stats":{{"coll_records":{colls},"coll_dropped_total":{dropped},"p2p_records":0,'
        f'"proxy_records":{proxies},"proxy_ops_dropped_total":0}}}}'
    )


def _bare(op: str, number: int) -> str:
    return (
        f'{{"coll_perf":{{"coll":"{op}","coll_algo":"NVLS_TREE","coll_proto":"SIMPLE","coll_sn":{number},'
        '"coll_msg_size_bytes":1024,"coll_exec_time_us":50,"coll_timing_source":"kernel_gpu",'
        '"coll_algobw_gbs":1.5,"coll_busbw_gbs":1.5}}'
    )


STEP = (
    '{"proxy_trace":{"record_type":"proxy_step","record_sn":41,"parent_type":"coll","parent_sn":3,"proxy_op_sn":12,'
    '"channel_id":5,"peer":1,"direction":"send","proxy_step_sn":1,"step":4,"trans_size_bytes":1048576,'
    '"event_trace_ts":{"proxy_step_start_ts":100,"send_gpu_wait_ts":110,"send_peer_wait_ts":125,"send_wait_ts":145,'
    '"proxy_step_stop_ts":170}}}'
)


def test_inspector_headers_stand_once_a_dump(tmp_path: Path) -> None:
    lines = [
        _marker(1, 2, 1, dropped=9), _bare("AllReduce", 0), _bare("AllGather", 0), STEP, _marker(0, 1),
        _bare("AllReduce", 1), _bare("AllReduce", 2),
    ]  # fmt: skip
    found = tables(inspector.FORMAT, write(tmp_path, "h-pid7.log", "\n".join(lines) + "\n"))
    rows = found["collectives"]
    # the last record is one more than its dump announces, so whose it is is unknown
    assert rows["rank"].to_list() == [1, 1, 0, None]
    assert rows["process_group"].to_list() == ["0xab", "0xab", "0xab", None]
    assert rows.select("algorithm", "protocol").unique().rows() == [("NVLSTree", "Simple")]
    step = found["proxy_steps"].row(0, named=True)
    assert (step["comm_id"], step["rank"], step["peer"], step["channel"], step["step"]) == ("0xab", 1, 1, 5, 4)
    assert (step["start_ns"], step["end_ns"], step["bytes"]) == (100_000, 170_000, 1 << 20)
    assert (step["gpu_wait_ns"], step["peer_wait_ns"], step["wire_ns"]) == (15_000, 20_000, 25_000)
    notes = dict(found["notes"].select("kind", "detail").iter_rows())
    assert notes["telemetry-dropped"] == "rank 1 of communicator 0xab dropped 9 collectives"
    assert "no dump marker" in notes["trace-truncated"]
