"""NVTX ranges of NCCL and of torch in an Nsight Systems export, and the payloads that NCCL attaches to them."""

from __future__ import annotations

import sqlite3
import struct
from pathlib import Path

from nccl_insight.inputs.find import find_inputs
from nccl_insight.readers.nsys.database import open_database
from nccl_insight.readers.nsys.nvtx import Payload, Schemas, ranges, schemas


def blob(schema: int, data: bytes) -> bytes:
    return struct.pack("<QQQQ", 0, schema, len(data), 32 + len(data)) + data


def test_values_are_read_where_the_layout_says_that_they_stand() -> None:
    known = Schemas({7: (("size", "<Q", 8), ("peer", "<i", 0), ("root", "<i", 4))})
    data = struct.pack("<iiQ", 3, -1, 1 << 40)
    assert known.decode(blob(7, data)) == Payload(size=1 << 40, peer=3, root=-1)
    assert known.decode(blob(7, data[:6])) == Payload(peer=3)  # cut
    assert known.decode(blob(8, data)) == Payload() == known.decode(None) == known.decode(b"short")


def test_layouts_and_ranges_of_an_export(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "e.sqlite")
    db.execute("create table NVTX_PAYLOAD_SCHEMA_ENTRIES (schemaId, name, offset)")
    db.executemany(
        "insert into NVTX_PAYLOAD_SCHEMA_ENTRIES values (?,?,?)",
        [(7, "Message size [bytes]", 8), (7, "Peer rank", None), (7, "Color", 0), ("x", "Root", 0)],
    )
    db.execute("create table StringIds (id, value)")
    db.executemany("insert into StringIds values (?,?)", [(1, "ncclAllReduce"), (2, "forward")])
    db.execute("create table NVTX_EVENTS (start, end, eventType, text, textId, globalTid)")
    db.executemany(
        "insert into NVTX_EVENTS values (?,?,?,?,?,?)",
        [(30, 40, 59, None, 1, 5), (10, 20, 60, "step 4", None, 5), (1, 2, 59, "forward", None, 5),
         (3, None, 59, "ncclSend", None, 5), (4, 5, 75, "ncclSend", None, 5), (6, 7, 59, None, 2, 5)],
    )  # fmt: skip
    db.commit()
    db.close()
    with open_database(find_inputs([str(tmp_path / "e.sqlite")])[0]) as base:
        assert dict(schemas(base).layouts) == {7: (("size", "<Q", 8), ("peer", "<i", 0))}
        assert ranges(base).select("start", "end", "tid", "text").rows() == [
            (10, 20, 5, "step 4"), (30, 40, 5, "ncclAllReduce"),
        ]  # fmt: skip


def test_an_export_without_ranges_gives_none(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "e.sqlite").execute("create table t (a)")
    with open_database(find_inputs([str(tmp_path / "e.sqlite")])[0]) as base:
        assert ranges(base).is_empty()
        assert dict(schemas(base).layouts) == {}
