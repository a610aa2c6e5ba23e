"""The text of a chunk cut into lines, and lines into head, level and body, all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from nccl_insight.inputs import chunks
from nccl_insight.inputs.chunks import ChunkIndex, FileLines
from nccl_insight.inputs.find import find_inputs
from nccl_insight.language.catalog import default_catalog
from nccl_insight.readers.nccl_log import split
from nccl_insight.readers.nccl_log.classify import Classifier
from nccl_insight.readers.nccl_log.log import chunk_reader, read_logs
from tests.numbered_lines import _lines


@pytest.mark.parametrize("ended", [True, False])
def test_a_line_is_read_back_from_the_mark_in_front_of_it(
    ended: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = _lines(3000)
    log = tmp_path / "a.log"
    log.write_text("\n".join(wanted) + "\n" * ended)
    (file,) = find_inputs(log)
    monkeypatch.setattr(split, "_MARKED_EVERY", 7)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 20_000)
    monkeypatch.setattr(chunks, "_LEAST_BYTES", 20_000)
    index = ChunkIndex()
    read_logs([(file, index)], chunk_reader(Classifier(default_catalog())), workers=2)
    assert len(index.marks) == len(index.offsets) > 3
    if hasattr(split.pl, "read_lines"):
        assert all(len(marks) > 3 for marks in index.marks[:-1])
    found = FileLines({file.input_id: (file, index)}).lines((file.input_id, n) for n in range(len(wanted) + 3))
    told = {n: found[file.input_id, n] for n in range(1, len(wanted) + 1)}
    assert list(told.values()) == wanted
