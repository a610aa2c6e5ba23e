"""Output of NCCL's example profiler plugin."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nccl_insight.readers import flight_recorder, graph_xml, inspector, nccl_tests, profiler_plugin, ras, topo_xml
from tests.readers.side_files import SHARED, needs_shared, one, tables, write

SIDE = (flight_recorder, graph_xml, inspector, nccl_tests, profiler_plugin, ras, topo_xml)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=400), prefix=st.sampled_from([
    b"", b"\x80\x02", b"{", b"[", b"<system>", b"<graphs>", b'{"collective_seq_id":', b"# nThread 1 nGpus 1\n",
    b"Group     Comms     Nodes\n=====\n", b"GPU 0: X\n Link 0: ", b" GPU0 GPU1\nGPU0 X NV12\n",
    b'{"coll_perf": "n_ranks',
]))  # fmt: skip
def test_no_reader_fails_on_any_bytes(tmp_path: Path, data: bytes, prefix: bytes) -> None:
    path = write(tmp_path, "any_7", prefix + data)
    for module in SIDE:
        module.FORMAT.sniff(prefix + data, "any_7")
        module.FORMAT.read(one(path))


@needs_shared
def test_every_shared_trace_file_can_be_read_by_its_reader() -> None:
    for path in sorted((SHARED / "traces").rglob("*")):
        if path.is_file() and path.suffix not in (".toml", ".csv", ".py", ".md"):
            source = one(path)
            head = source.head()
            for module in SIDE:
                if module.FORMAT.sniff(head, source.display) > 0:
                    module.FORMAT.read(source)


@needs_shared
def test_profiler_plugin_keeps_large_hashes() -> None:
    found = tables(profiler_plugin.FORMAT, SHARED / "traces/doc_samples/profiler_plugin_example.txt")
    row = found["collectives"].row(0, named=True)
    assert (row["process_group"], row["algorithm"], row["protocol"]) == ("1493613951195738943", "RING", "SIMPLE")
    assert row["size_bytes"] == 262144 * 4


EVENT = (
    '{{"name": "AllReduce", "cat": "COLL", "ph": "{ph}", "id": 4, "pid": 7, "ts": {ts}, "args": {{"SeqNum": 2, '
    '"CommHash": 9, "Rank": 1, "Count": 100, "Datatype": "ncclFloat32", "Algorithm": "RING"}}}},'
)


def test_an_operation_lasts_from_its_begin_to_its_end(tmp_path: Path) -> None:
    text = "[\n" + EVENT.format(ph="b", ts=10.5) + "\n" + EVENT.format(ph="e", ts=14.0) + "\n]\n"
    assert profiler_plugin.sniff(text.encode(), "x") > 0.9
    assert profiler_plugin.sniff(b"[{}]", "x") == 0
    found = tables(profiler_plugin.FORMAT, write(tmp_path, "t.txt", text))
    row = found["collectives"].row(0, named=True)
    assert (row["rank"], row["op"], row["size_bytes"], row["start_ns"], row["duration_ns"]) == (
        1, "AllReduce", 400, 10_500, 3_500,
    )  # fmt: skip
    assert "notes" not in found


def test_a_list_that_is_cut_gives_its_events_and_a_note(tmp_path: Path) -> None:
    text = "[\n" + EVENT.format(ph="b", ts=0) + "\n" + EVENT.format(ph="x", ts=3).replace('"id": 4,', "")
    found = tables(profiler_plugin.FORMAT, write(tmp_path, "t.txt", text))
    row = found["collectives"].row(0, named=True)
    assert (row["start_ns"], row["duration_ns"]) == (None, None)  # 0 is a time that was not taken
    said = " ".join(found["notes"]["detail"])
    assert "1 events are damaged and were left out" in said
    assert "the process stopped while writing" in said
