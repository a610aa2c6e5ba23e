"""``nvidia-smi topo -m``: which GPUs and NICs are how far apart."""

from __future__ import annotations

import re

from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import Format
from nccl_insight.readers import side as _side
from nccl_insight.readers.embedded import smi_text
from nccl_insight.tables.run import Partial

_HEADER = re.compile(rb"^(?:\x1b\[[0-9;]*m|[ \t])*GPU0\b(?![ \t]*:)", re.M)
_ROW = re.compile(rb"^(?:\x1b\[[0-9;]*m|[ \t])*GPU0(?:\x1b\[[0-9;]*m|[ \t])*X", re.M)


def sniff(head: bytes, name: str) -> float:
    """High for a matrix with header and first row; low where it stands inside an NCCL log."""
    if b"GPU0" not in head or not (_HEADER.search(head) and _ROW.search(head)):
        return 0.0
    return 0.3 if _side.holds_nccl_log(head) else 0.9


def read(source: InputFile) -> Partial:
    """Tables ``topology_nodes`` and ``topology_links``; the matrix does not name its host."""
    content = _side.read_content(source)
    nodes, links = smi_text.scan_topology(_side.lines_frame(content.text))
    tables = {
        "topology_nodes": _side.with_input(nodes, source.input_id),
        "topology_links": _side.with_input(links, source.input_id),
    }
    tables = {k: v for k, v in tables.items() if not v.is_empty()}
    problems = [content.problem] if content.problem else []
    if not tables:
        problems.append("a topology matrix without a complete row")
    if problems:
        tables["notes"] = _side.notes(source.input_id, *(("trace-truncated", p) for p in problems))
    nvlinks = smi_text.scan_nvlinks(_side.lines_frame(content.text))
    if not nvlinks.is_empty():
        tables["nvlinks"] = _side.with_input(nvlinks, source.input_id)
    return Partial(tables)


FORMAT = Format(kind="smi_topo", sniff=sniff, read=read)
