"""Result files of ``nccl-insight capture``."""

from __future__ import annotations

from pathlib import Path

from nccl_insight.inputs.find import find_inputs
from nccl_insight.readers.capture import FORMAT
from tests.captures import run_fake


def test_half_a_line_keeps_the_lines_before(tmp_path: Path) -> None:
    done = run_fake(tmp_path, "half")
    found = FORMAT.read(find_inputs([str(done.directory / "capture.rank0.jsonl")])[0]).tables
    assert found["benchmarks"].height == 1
    details = " ".join(found["notes"]["detail"].to_list())
    assert "1 lines are cut" in details
    assert "did not finish" in details
