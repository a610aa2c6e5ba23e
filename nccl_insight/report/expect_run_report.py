"""The results of ``expect RUN`` as text for people and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from nccl_insight.base.objects import json_text
from nccl_insight.base.units import format_bytes, format_gbps, format_ns, plural
from nccl_insight.report.prose import aligned
from nccl_insight.report.sanitize import one_line
from nccl_insight.views.expectations import Band, Prediction

SIZES: Final = (8, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20, 1 << 30, 8 << 30)


def render_json(predictions: Sequence[Prediction], measured: Sequence[str]) -> str:
    """All predictions as rows under ``expectations``, the sentences on measurements under ``measured``."""
    document: dict[str, Any] = {
        "schema": 1,
        "expectations": [
            {"comm_id": p.comm_id, "nranks": p.nranks, "nodes": p.nodes, **_row(b), "forced_by": p.forced_by}
            for p in predictions
            for b in p.bands
        ],
        "measured": list(measured),
    }
    return json_text(document)


def _row(band: Band) -> dict[str, Any]:
    row = asdict(band)
    row["busbw_low_gbps"], row["busbw_high_gbps"] = row.pop("low_gbps"), row.pop("high_gbps")
    return row


def render_text(predictions: Sequence[Prediction], measured: Sequence[str]) -> str:
    """A table for each communicator and operation; what forced the choice; measurements."""
    lines: list[str] = []
    for p in predictions:
        nodes = "on one node" if p.nodes == 1 else f"on {p.nodes} nodes"
        lines += ["", f"Communicator {one_line(p.comm_id, 60)}: {plural(p.nranks, 'rank')} {nodes}, by {p.source}"]
        if p.forced_by:
            lines.append(f"  the choice is limited by {one_line(p.forced_by, 200)}")
        for op in dict.fromkeys(b.op for b in p.bands):
            lines += ["", f"  {op}", *_table([b for b in p.bands if b.op == op])]
    if measured:
        lines += ["", *measured]
    return "\n".join(lines).lstrip("\n") + "\n"


def _table(bands: Sequence[Band]) -> list[str]:
    rows = [("size", "time", "busbw", "algorithm", "protocol", "bound by")]
    for b in bands:
        value = format_gbps(b.busbw_gbps) if b.busbw_gbps >= 10 else f"{b.busbw_gbps:.2g} GB/s"
        rows.append((format_bytes(b.size_bytes), format_ns(b.time_ns), value, b.algorithm, b.protocol, b.bound_by))
    return aligned(rows, 3, "    ")
