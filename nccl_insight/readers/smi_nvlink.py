"""``nvidia-smi nvlink -s`` and ``-e``: state, speed and error counters of every NVLink of a node."""

from __future__ import annotations

import re

from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import Format
from nccl_insight.readers import side as _side
from nccl_insight.readers.embedded import smi_text
from nccl_insight.tables.run import Partial

_GPU = re.compile(rb"^[ \t]*GPU [0-9]+: ", re.M)
_LINK = re.compile(rb"^[ \t]*Link [0-9]+: ", re.M)
_MATRIX = re.compile(rb"^(?:\x1b\[[0-9;]*m|[ \t])*GPU0(?:\x1b\[[0-9;]*m|[ \t])*X", re.M)


def sniff(head: bytes, name: str) -> float:
    """High for a listing of links under GPUs; a matrix in the same file goes to ``smi_topo``."""
    if b"Link " not in head or not (_GPU.search(head) and _LINK.search(head)) or _MATRIX.search(head):
        return 0.0
    return 0.3 if _side.holds_nccl_log(head) else 0.9


def read(source: InputFile) -> Partial:
    """Table ``nvlinks``: one row per GPU and link."""
    content = _side.read_content(source)
    tables = {
        "nvlinks": _side.with_input(smi_text.scan_nvlinks(_side.lines_frame(content.text)), source.input_id)
    }
    if content.problem:
        tables["notes"] = _side.notes(source.input_id, ("trace-truncated", content.problem))
    return Partial(tables)


FORMAT = Format(kind="smi_nvlink", sniff=sniff, read=read)
