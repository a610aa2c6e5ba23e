"""The formats that a compiled library can print."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

from nccl_insight.base.errors import InsightError
from nccl_insight.language.binaries import is_binary, read_binary
from nccl_insight.language.catalog import default_catalog
from nccl_insight.language.diff import unknown_calls


def _library(path: Path) -> bytes:
    texts = (
        b"NCCL version 2.99.1+cuda13.0", b"NET/IB : No device found.", b"comm %p rank %d is on a moon of %s",
        b"/usr/lib/%s/x.so", b"std::bad_alloc %s here", b"NCCL_MOON_LEVEL", b"short %d",
    )  # fmt: skip
    content = b"\x7fELF" + b"\0" * 60 + b"\0".join(texts) + b"\0"
    path.write_bytes(content)
    return content


def test_formats_and_settings_of_a_library_in_a_wheel_and_alone(tmp_path: Path) -> None:
    alone = tmp_path / "libnccl.so.2"
    content = _library(alone)
    wheel = tmp_path / "some-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as out:
        out.writestr("nvidia/nccl/lib/libnccl.so.2", content)
        out.writestr("nvidia/nccl/lib/other.so", b"\x7fELF\0other words of %s are here\0")
    for path in (alone, wheel):
        assert is_binary(path)
        tree = read_binary(path)
        assert [call.format for call in tree.calls] == ["comm %p rank %d is on a moon of %s"]
        assert (tree.version, [s.name for s in tree.settings]) == ("2.99.1", ["NCCL_MOON_LEVEL"])
        assert len(unknown_calls(default_catalog(), tree)) == 1


def test_what_only_a_debugger_reads_of_a_library_is_no_setting(tmp_path: Path) -> None:
    data, debug = (
        b"NCCL version 2.99.1+cuda13.0\0comm %p is on a moon\0NCCL_MOON\0",
        b"\0NCCL_LOG_LOUD\0a %d of words\0",
    )
    names = b"\0.rodata\0.debug_str\0.shstrtab\0"
    places = [(1, 64, data), (9, 64 + len(data), debug), (20, 64 + len(data) + len(debug), names)]
    sections = b"".join(struct.pack("<IIQQQQ24x", name, 1, 0, 0, at, len(text)) for name, at, text in places)
    head = b"\x7fELF\x02\x01" + bytes(34) + struct.pack("<Q", 64 + len(data + debug + names))
    path = tmp_path / "libnccl.so.2"
    path.write_bytes(head + bytes(10) + struct.pack("<HHH", 64, 3, 2) + data + debug + names + sections)
    tree = read_binary(path)
    assert [call.format for call in tree.calls] == ["comm %p is on a moon"]
    assert [s.name for s in tree.settings] == ["NCCL_MOON"]


def test_an_archive_without_a_library_is_named(tmp_path: Path) -> None:
    path = tmp_path / "empty.whl"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("readme.txt", "nothing")
    with pytest.raises(InsightError, match="holds no libnccl"):
        read_binary(path)
    torn = tmp_path / "torn.whl"
    torn.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(InsightError, match="cannot be read"):
        read_binary(torn)
