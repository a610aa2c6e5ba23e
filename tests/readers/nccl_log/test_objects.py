"""Records as JSON objects, one per line, in file order (the output of ``parse``)."""

from __future__ import annotations

import json
from pathlib import Path

from nccl_insight.inputs.find import find_inputs
from nccl_insight.readers.nccl_log.objects import parse_objects


def objects_of(path: Path, text: str, foreign: bool = False) -> list[dict[str, object]]:
    path.write_text(text)
    return [json.loads(line) for line in parse_objects(find_inputs([str(path)]), foreign)]


def test_records_come_as_objects_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = (
        "gpu1:11:22 [3] NCCL INFO no rule knows this\nloss 2.5\n"
        "gpu1:11:22 [3] NCCL INFO NCCL_NTHREADS set by environment to 256.\n"
    )
    unknown, known = objects_of(tmp_path / "run.log", text)
    assert (unknown["line"], unknown["message"], unknown["text"]) == (1, None, "no rule knows this")
    assert (known["line"], known["host"], known["pid"], known["tid"], known["dev"]) == (3, "gpu1", 11, 22, 3)
    assert (known["table"], known["level"], known["diagnosis"]) == ("env", "INFO", None)
    fields = known["fields"]
    assert isinstance(fields, dict)
    assert (fields["name"], fields["value"]) == ("NCCL_NTHREADS", "256")


def test_lines_of_other_programs_are_kept_where_they_are_asked_for(tmp_path: Path) -> None:
    text = "loss 2.5\ngpu1:11:22 [3] NCCL INFO NCCL_NTHREADS set by environment to 256.\n"
    assert [o["line"] for o in objects_of(tmp_path / "run.log", text)] == [2]
    foreign, _ = objects_of(tmp_path / "run.log", text, foreign=True)
    assert (foreign["line"], foreign["message"], foreign["text"]) == (1, None, "loss 2.5")
    assert objects_of(tmp_path / "run.log", "") == []
