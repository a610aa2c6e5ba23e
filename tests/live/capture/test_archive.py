"""A capture directory as one ``.tar.zst`` file."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import zstandard

from nccl_insight.live.capture.archive import pack


def test_archive_holds_the_directory(tmp_path: Path) -> None:
    (tmp_path / "cap").mkdir()
    (tmp_path / "cap" / "a.log").write_text("hello")
    (tmp_path / "cap" / ".plan.json").write_text("x")
    pack(tmp_path / "cap", tmp_path / "c.tar.zst")
    data = zstandard.ZstdDecompressor().stream_reader((tmp_path / "c.tar.zst").read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert tar.getnames() == ["cap/a.log"]
        assert tar.getmember("cap/a.log").uid == 0
