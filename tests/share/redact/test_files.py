"""Redaction of whole files, a few MiB at a time."""

from __future__ import annotations

from pathlib import Path

from nccl_insight.inputs.find import find_inputs
from nccl_insight.share.redact.files import Blocks, is_text


def test_binary_inputs_are_not_text_and_bad_bytes_survive(tmp_path: Path) -> None:
    database, log = tmp_path / "a.sqlite", tmp_path / "b.log"
    database.write_bytes(b"SQLite format 3\0" + bytes(100))
    log.write_bytes(b"\xff\xfe line\nno newline at the end \x80")
    files = find_inputs([str(database), str(log)])
    assert [is_text(f) for f in files] == [False, True]
    assert "".join(Blocks(files[1])).encode("utf-8", "surrogateescape") == log.read_bytes()
