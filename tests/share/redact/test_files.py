"""Redaction of whole files, a few MiB at a time."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from nccl_insight.inputs.find import find_inputs
from nccl_insight.share.redact import collect
from nccl_insight.share.redact.files import Blocks, is_text, packed, write_redacted
from nccl_insight.tables.run import build_run


def test_binary_inputs_are_not_text_and_bad_bytes_survive(tmp_path: Path) -> None:
    database, log = tmp_path / "a.sqlite", tmp_path / "b.log"
    database.write_bytes(b"SQLite format 3\0" + bytes(100))
    log.write_bytes(b"\xff\xfe line\nno newline at the end \x80")
    files = find_inputs([str(database), str(log)])
    assert [is_text(f) for f in files] == [False, True]
    assert "".join(Blocks(files[1])).encode("utf-8", "surrogateescape") == log.read_bytes()


UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "a.log.gz": gzip.decompress, "a.XZ": lzma.decompress, "a.bz2": bz2.decompress, "a.log": bytes,
    "a.zst": lambda data: zstandard.ZstdDecompressor().stream_reader(data).read(),
}  # fmt: skip


@pytest.mark.parametrize("name", UNPACK)
def test_a_file_is_packed_as_its_name_says(name: str) -> None:
    out = io.BytesIO()
    with packed(out, name) as plain:
        plain.write(b"loss 2.5\n" * 100)
    assert UNPACK[name](out.getvalue()) == b"loss 2.5\n" * 100
    assert (len(out.getvalue()) < 900) is (name != "a.log")


def test_a_file_of_windows_is_text_and_comes_out_as_utf8(tmp_path: Path) -> None:
    path = tmp_path / "w.log"
    path.write_bytes("first Ω\nsecond".encode("utf-16"))
    (file,) = find_inputs([str(path)])
    assert is_text(file)
    assert list(Blocks(file)) == ["first Ω\n", "second"]


def test_what_is_written_is_what_was_seen(tmp_path: Path) -> None:
    line = "ares7:11:11 [0] NCCL INFO Bootstrap : Using eth0:10.31.0.7<0>\n"
    path = tmp_path / "run.log"
    path.write_text(line)
    out, seen = io.BytesIO(), list[str]()
    (file,) = find_inputs([str(path)])
    assert write_redacted(file, collect(build_run({}), [line]), out, "run.log", seen.append) == ""
    assert out.getvalue().decode() == "".join(seen)
    assert "ares7" not in seen[0]
    assert seen[0].endswith("<0>\n")
