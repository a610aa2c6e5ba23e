"""What the analysis of a pasted text says."""

from __future__ import annotations

from pathlib import Path

import nccl_insight
from nccl_insight.base.model import Analysis


def _said(tmp_path: Path, *lines: str) -> Analysis:
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return nccl_insight.analyze([path])


def names(analysis: Analysis) -> set[str]:
    return {f.name for f in analysis.findings if f.severity.value != "info"}
