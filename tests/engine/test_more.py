"""What the reader can add to see more, grouped by what to add and what that enables, best first."""

from __future__ import annotations

from pathlib import Path

import nccl_insight
from nccl_insight.base.model import Coverage, NotJudged
from nccl_insight.engine.more import more_of
from tests.bare_logs import log


def test_subsystems_named_in_a_sentence_make_a_setting_without_its_punctuation(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("\n".join(log(closed=2)) + "\n")
    skipped = NotJudged("a-check", "no calls", "record with NCCL_DEBUG_SUBSYS=INIT,COLL, or add a trace")
    (more,) = more_of(nccl_insight.load([path]), [skipped], Coverage(lines=9, nccl_lines=9), "ok", "")
    assert more.add == "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,COLL"
