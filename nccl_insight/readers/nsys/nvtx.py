"""NVTX ranges of NCCL and of torch in an Nsight Systems export, and the payloads that NCCL attaches to them."""

import sqlite3
import struct
from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from nccl_insight.base import toml
from nccl_insight.base.data import dataclass, field
from nccl_insight.readers.nsys.database import Database

RANGES: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    **dict.fromkeys(("start", "end", "tid", "domain"), pl.Int64),
    "text": pl.String,
    "blob": pl.Binary,
}
_HEADER: Final = struct.Struct("<QQQQ")
_PUSH_POP: Final = 59
_START_END: Final = 60
_LOW: Final = 0xFFFFFFFF
_FIELDS: Final[Mapping[str, Sequence[str]]] = toml.beside(__file__)["fields"]


@dataclass(frozen=True)
class Payload:
    """Values that NCCL attached to one API call; None = not recorded."""

    comm: int | None = None
    size: int | None = None
    peer: int | None = None
    root: int | None = None
    nranks: int | None = None
    rank: int | None = None
    cuda_dev: int | None = None


@dataclass(frozen=True)
class Schemas:
    """Payload layouts by schema id: (field, format, offset)."""

    layouts: Mapping[int, tuple[tuple[str, str, int], ...]] = field(default_factory=dict)

    def decode(self, blob: bytes | None) -> Payload:
        """Values of one blob: a header of domain, schema, payload size and total size, then the payload."""
        if not blob or len(blob) < _HEADER.size:
            return Payload()
        _, schema, size, _ = _HEADER.unpack_from(blob)
        payload = blob[_HEADER.size : _HEADER.size + size] if size <= len(blob) else blob[_HEADER.size :]
        values: dict[str, int] = {}
        for name, layout, offset in self.layouts.get(schema & _LOW, ()):
            if 0 <= offset <= len(payload) - struct.calcsize(layout):
                values[name] = struct.unpack_from(layout, payload, offset)[0]
        return Payload(**values)


def schemas(database: Database) -> Schemas:
    """Layouts from the export itself: ids of NCCL's schemas changed their meaning between releases."""
    table = "NVTX_PAYLOAD_SCHEMA_ENTRIES"
    if not database.has(table, "schemaId", "name", "offset"):
        return Schemas()
    layouts: dict[int, dict[str, tuple[str, str, int]]] = {}
    for schema, name, offset in database.connection.execute(f"select schemaId, name, offset from {table}"):
        known = _FIELDS.get(str(name))
        if known is not None and isinstance(schema, int) and isinstance(offset, (int, type(None))):
            layouts.setdefault(schema & _LOW, {})[known[0]] = (known[0], known[1], offset or 0)
    return Schemas({schema: tuple(fields.values()) for schema, fields in layouts.items()})


def ranges(database: Database) -> pl.DataFrame:
    """NVTX ranges whose text concerns NCCL or training steps: columns of :data:`RANGES`, sorted by start."""
    if not database.has("NVTX_EVENTS", "start", "end", "eventType", "text", "textId", "globalTid"):
        return pl.DataFrame(schema=RANGES)
    blob = "e.binaryData" if database.has("NVTX_EVENTS", "binaryData") else "null"
    domain = "e.domainId" if database.has("NVTX_EVENTS", "domainId") else "0"
    wanted = " or ".join(
        f"{{0}} like '{prefix}%'" for prefix in ("nccl", "ProfilerStep", "step", "iter", "train_step", "train step")
    )
    texts = "select id, value from StringIds where " + wanted.format("value")
    kinds = f"e.eventType in ({_PUSH_POP}, {_START_END}) and e.end is not null"
    parts = [
        f"select e.start, e.end, e.globalTid, {domain}, e.text, {blob} from NVTX_EVENTS e "
        f"where {kinds} and e.text is not null and ({wanted.format('e.text')})"
    ]
    if database.has("StringIds", "id", "value"):
        parts.append(
            f"select e.start, e.end, e.globalTid, {domain}, s.value, {blob} from NVTX_EVENTS e "
            f"join ({texts}) s on s.id = e.textId where {kinds} and e.text is null"
        )
    try:
        return pl.concat([database.frame(sql, RANGES) for sql in parts]).sort("start")
    except sqlite3.OperationalError:
        return pl.DataFrame(schema=RANGES)
