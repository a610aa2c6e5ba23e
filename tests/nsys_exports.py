"""Databases of Nsight Systems, made by hand."""

from __future__ import annotations

import sqlite3
import struct
from pathlib import Path

from nccl_insight.inputs.find import find_inputs
from nccl_insight.readers.nsys import format as nsys
from nccl_insight.tables.run import Partial

EPOCH = 1_779_782_330_176_752_435
SECRET = "hunter2-not-for-reports"


def gpid(pid: int) -> int:
    return (1 << 48) + (pid << 24)


class Export:
    """Builds an export with only the tables that a test wants."""

    def __init__(self, path: Path, blobs: bool = True) -> None:
        self.path = path
        self.db = sqlite3.connect(path)
        self.names: dict[str, int] = {}
        blob = ", binaryData BLOB" if blobs else ""
        self.blobs = blobs
        self.db.executescript(
            f"""
            create table StringIds (id integer, value text);
            create table META_DATA_EXPORT (name text, value text);
            create table TARGET_INFO_SESSION_START_TIME (utcEpochNs integer, utcTime text);
            create table TARGET_INFO_SYSTEM_ENV (name text, value text);
            create table NVTX_EVENTS (start integer, end integer, eventType integer, text text, globalTid integer,
                textId integer, domainId integer{blob});
            insert into TARGET_INFO_SYSTEM_ENV values ('API_TOKEN', '{SECRET}');
            """
        )
        self.db.execute("insert into TARGET_INFO_SESSION_START_TIME values (?, '')", (EPOCH,))

    def text(self, value: str) -> int:
        if value not in self.names:
            self.names[value] = len(self.names) + 1
            self.db.execute("insert into StringIds values (?, ?)", (self.names[value], value))
        return self.names[value]

    def gpu(self) -> Export:
        self.db.executescript(
            """
            create table CUPTI_ACTIVITY_KIND_KERNEL (start integer, end integer, deviceId integer, streamId integer,
                correlationId integer, globalPid integer, demangledName integer, shortName integer);
            create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer, end integer, globalTid integer,
                correlationId integer, nameId integer);
            """
        )
        return self

    def kernel(self, name: str, start: int, end: int, pid: int, device: int, correlation: int = 0) -> None:
        self.db.execute(
            "insert into CUPTI_ACTIVITY_KIND_KERNEL values (?,?,?,?,?,?,?,?)",
            (start, end, device, 7, correlation, gpid(pid), self.text(name + "(x)"), self.text(name)),
        )

    def launch(self, at: int, pid: int, correlation: int, tid: int = 5) -> None:
        self.db.execute(
            "insert into CUPTI_ACTIVITY_KIND_RUNTIME values (?,?,?,?,?)",
            (at, at + 1, gpid(pid) + tid, correlation, self.text("cudaLaunchKernelExC")),
        )

    def mark(self, text: str, start: int, end: int, pid: int, blob: bytes | None = None, by_id: bool = True) -> None:
        values = [start, end, 59, None if by_id else text, gpid(pid) + 5, self.text(text) if by_id else None, 1]
        if self.blobs:
            values.append(blob)  # type: ignore[arg-type]
        self.db.execute(f"insert into NVTX_EVENTS values ({','.join('?' * len(values))})", values)

    def schemas(self) -> Export:
        self.db.execute(
            "create table NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId integer, schemaId integer, idx integer, type integer, "
            "name text, offset integer)"
        )
        rows = [
            (900, "NCCL communicator ID", None), (900, "No. of ranks", 8), (900, "Rank", 12), (900, "CUDA device", 16),
            (901, "NCCL communicator ID", None), (901, "Message size [bytes]", 8), (901, "Reduction operation", 16),
        ]  # fmt: skip
        for i, (schema, name, offset) in enumerate(rows * 2):  # one set per process
            self.db.execute("insert into NVTX_PAYLOAD_SCHEMA_ENTRIES values (1,?,?,0,?,?)", (schema, i, name, offset))
        return self

    def read(self) -> Partial:
        self.db.commit()
        self.db.close()
        return read(self.path)


def payload(schema: int, data: bytes) -> bytes:
    return struct.pack("<QQQQ", 1, schema, len(data), 32 + len(data)) + data


def read(path: Path) -> Partial:
    return nsys.read(find_inputs([str(path)])[0])
