"""Streams of every compression: whole, cut at every kind of place, broken, endless."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

import nccl_insight
from nccl_insight.inputs.find import find_inputs
from nccl_insight.inputs.limits import Limits
from nccl_insight.inputs.stream import Stream
from tests.runs import HEALTHY

LINE = "host{}:{}:1 [0] NCCL INFO Channel {:02d}/0 : 0[0] -> 1[1] via P2P/IPC\n"
TEXT = "".join(LINE.format(n % 7, n * 7919 % 65536, n % 32) for n in range(20_000)).encode()


def zstd_with_checksum(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def zstd_streamed(data: bytes) -> bytes:
    """Frames without a size in their header, as ``zstd -`` writes them."""
    pack = zstandard.ZstdCompressor().compressobj()
    return pack.compress(data) + pack.flush()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress, "zst": zstandard.ZstdCompressor().compress, "checked.zst": zstd_with_checksum,
    "streamed.zst": zstd_streamed, "xz": lzma.compress, "bz2": bz2.compress,
}  # fmt: skip


def read(path: Path, data: bytes, limits: Limits | None = None) -> tuple[bytes, str]:
    path.write_bytes(data)
    (source,) = find_inputs([str(path)], limits or Limits())
    with source.open() as stream:
        parts = []
        while part := stream.read(100_000):
            parts.append(part)
        return b"".join(parts), stream.damage


@pytest.mark.parametrize("kind", PACKERS)
def test_whole_streams_are_read_whole(tmp_path: Path, kind: str) -> None:
    packed = PACKERS[kind](TEXT)
    assert read(tmp_path / f"a.{kind}", packed) == (TEXT, "")
    assert read(tmp_path / f"b.{kind}", packed + packed) == (TEXT + TEXT, "")
    assert read(tmp_path / f"c.{kind}", PACKERS[kind](b"")) == (b"", "")


@pytest.mark.parametrize("kind", PACKERS)
def test_every_cut_is_noticed_and_what_stands_before_is_given(tmp_path: Path, kind: str) -> None:
    packed = PACKERS[kind](TEXT)
    draw = random.Random(kind)
    for cut in [1 + len(packed) - n for n in range(2, 12)] + [draw.randrange(8, len(packed)) for _ in range(8)]:
        data, damage = read(tmp_path / f"{cut}.{kind}", packed[:cut])
        assert damage, cut
        assert TEXT.startswith(data), cut
    data, _ = read(tmp_path / f"last.{kind}", packed[:-1])
    assert len(data) > len(TEXT) // 2 or kind in ("xz", "bz2")


@pytest.mark.parametrize("kind", ["gz", "checked.zst", "xz", "bz2"])
def test_broken_bytes_are_noticed(tmp_path: Path, kind: str) -> None:
    packed = bytearray(PACKERS[kind](TEXT))
    for at in range(len(packed) // 2, len(packed) // 2 + 8):
        packed[at] ^= 0xFF
    data, damage = read(tmp_path / f"a.{kind}", bytes(packed))
    assert damage
    assert TEXT.startswith(data[:1000])


@pytest.mark.parametrize("kind", ["gz", "zst", "streamed.zst", "xz", "bz2"])
def test_a_bomb_ends_at_the_limit_and_in_little_memory(tmp_path: Path, kind: str) -> None:
    packed = PACKERS[kind](b"\0" * (24 << 20))
    path = tmp_path / f"bomb.{kind}"
    path.write_bytes(packed)
    (source,) = find_inputs([str(path)], Limits(expansion_free_mib=16, expansion_ratio=1))
    tracemalloc.start()
    with source.open() as stream:
        total = 0
        while part := stream.read(65_536):
            total += len(part)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total == 16 << 20
    assert "expansion-ratio" in stream.damage
    assert peak < 15 << 20


@pytest.mark.parametrize("kind", PACKERS)
def test_seeking_gives_the_same_bytes(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a").write_bytes(PACKERS[kind](TEXT))
    (source,) = find_inputs([str(tmp_path / "a")])
    with source.open() as stream:
        for at in (0, 1_000_000, 500, 999_999, 2_000_000):
            stream.seek(at)
            assert stream.read(77) == TEXT[at : at + 77]


@pytest.mark.parametrize("kind", PACKERS)
def test_damage_is_a_finding_and_the_rest_is_read(tmp_path: Path, kind: str) -> None:
    packed = PACKERS[kind](TEXT)
    (tmp_path / f"run.log.{kind}").write_bytes(packed[: len(packed) * 7 // 10])
    run = nccl_insight.load(tmp_path / f"run.log.{kind}")
    assert "log-truncated" in [f.name for f in nccl_insight.analyze(run).findings]
    assert kind in ("bz2", "xz") or run.table("inputs")["nccl_lines"][0] > 1000


def test_one_damaged_file_does_not_end_a_directory(tmp_path: Path) -> None:
    (tmp_path / "good.log").write_bytes(TEXT[:1000])
    (tmp_path / "bad.log.zst").write_bytes(zstandard.ZstdCompressor().compress(TEXT)[:300] + b"\xff" * 100)
    run = nccl_insight.load(tmp_path)
    assert run.table("inputs").height == 2
    assert run.table("notes")["kind"].to_list() == ["log-truncated"]


def test_small_packed_files_that_are_large_are_read_in_pieces(tmp_path: Path) -> None:
    body = b"h1:1:1 [0] NCCL INFO cudaDriverVersion 12080\n" * 500_000
    for name in ("a", "b"):
        (tmp_path / f"{name}.log.gz").write_bytes(gzip.compress(body, 9))
    (tmp_path / "c.log").write_bytes(TEXT[:500])
    run = nccl_insight.load(tmp_path)
    assert run.table("inputs")["lines"].to_list() == [500_000, 500_000, TEXT[:500].count(b"\n") + 1]
    assert run.table("inputs")["nccl_lines"].to_list()[:2] == [500_000, 500_000]


def xz_without_check(data: bytes) -> bytes:
    return lzma.compress(data, check=lzma.CHECK_NONE)


def pzstd(data: bytes) -> bytes:
    """Frames, each behind one without data, as pzstd writes them."""
    skipped = b"\x50\x2a\x4d\x18\x04\x00\x00\x00\x00\x01\x00\x00"
    return b"".join(skipped + zstd_with_checksum(part) for part in (data[:5000], data[5000:]))


def tarred(name: str, data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zipped(name: str, data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, data)
    return out.getvalue()


CHECKED: dict[str, tuple[Callable[[bytes], bytes], bool | None]] = {
    "run.log": (bytes, None), "run.log.gz": (gzip.compress, True), "run.log.bz2": (bz2.compress, True),
    "run.log.xz": (lzma.compress, True), "none.log.xz": (xz_without_check, False),
    "crc32.log.xz": (lambda data: lzma.compress(data, check=lzma.CHECK_CRC32), True),
    "run.log.zst": (zstd_with_checksum, True), "none.log.zst": (zstandard.ZstdCompressor().compress, False),
    "streamed.log.zst": (zstd_streamed, False), "pzstd.log.zst": (pzstd, True),
    "plain.tar": (lambda data: tarred("a.log", data), None),
    "packed.tar": (lambda data: tarred("a.log.zst", zstd_streamed(data)), False),
    "run.tar.zst": (lambda data: zstd_with_checksum(tarred("a.log", data)), True),
    "none.tar.zst": (lambda data: zstd_streamed(tarred("a.log", data)), False),
    "inner.tar.zst": (lambda data: zstd_streamed(tarred("a.log.gz", gzip.compress(data))), True),
    "run.zip": (lambda data: zipped("a.log.zst", zstd_streamed(data)), True),
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKED)
def test_whether_a_checksum_covers_an_input_is_known(tmp_path: Path, name: str) -> None:
    pack, covered = CHECKED[name]
    text = TEXT[: TEXT.index(b"\n", 60_000) + 1]
    (tmp_path / name).write_bytes(pack(text))
    (source,) = find_inputs([str(tmp_path / name)])
    assert source.checked is covered
    analysis = nccl_insight.analyze(nccl_insight.load(tmp_path / name))
    found = [f for f in analysis.findings if f.name == "log-truncated"]
    assert [f.severity.value for f in found] == (["info"] if covered is False else [])
    with source.open() as stream:
        data = stream.read()
    assert data == text or zstandard.ZstdDecompressor().decompressobj().decompress(data) == text


def altered(packed: bytes, text: bytes) -> bytes:
    """The frame with one byte of its literals changed: it still gives as many bytes, but others."""
    for at in range(len(packed) // 3, len(packed)):
        other = packed[:at] + bytes([packed[at] ^ 0x5A]) + packed[at + 1 :]
        try:
            got = zstandard.decompress(other)
        except zstandard.ZstdError:
            continue
        if len(got) == len(text) and got != text:
            return other
    raise AssertionError("no byte can be changed")


@pytest.mark.parametrize("changed", [False, True])
def test_a_missing_checksum_is_one_note_and_no_verdict(tmp_path: Path, changed: bool) -> None:
    text = HEALTHY.read_bytes()
    packed = zstandard.compress(text)
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.log.zst").write_bytes(altered(packed, text) if changed else packed)
    (folder / "b.json.xz").write_bytes(xz_without_check(b'{"traceEvents": [], "schemaVersion": 1}'))
    analysis = nccl_insight.analyze(nccl_insight.load(folder))
    (note,) = [f for f in analysis.findings if f.name == "log-truncated"]
    assert note.severity.value == "info"
    assert "2 compressed inputs" in note.title
    assert "a.log.zst" in note.observed
    assert "b.json.xz" in note.observed
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "a.log").write_bytes(zstandard.decompress((folder / "a.log.zst").read_bytes()))
    (plain / "b.json").write_bytes(b'{"traceEvents": [], "schemaVersion": 1}')
    same = nccl_insight.analyze(nccl_insight.load(plain))
    assert analysis.status == same.status
    assert analysis.headline == same.headline
    assert [f.name for f in analysis.findings if f is not note] == [f.name for f in same.findings]


def test_a_broken_stream_without_checksum_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "a.log.zst").write_bytes(zstandard.compress(TEXT)[:-2000])
    (tmp_path / "b.log.zst").write_bytes(zstd_with_checksum(TEXT))
    findings = [f for f in nccl_insight.analyze(nccl_insight.load(tmp_path)).findings if f.name == "log-truncated"]
    assert len(findings) == 1
    assert "checksum" not in findings[0].title


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz"])
def test_empty_members_without_end_are_cut(tmp_path: Path, suffix: str) -> None:
    member = {"gz": gzip, "bz2": bz2, "xz": lzma}[suffix].compress(b"")
    path = tmp_path / f"a.log.{suffix}"
    kind = {"gz": "gzip", "bz2": "bzip2", "xz": "xz"}[suffix]
    path.write_bytes(member * 1_000)
    with Stream(path, kind) as stream:
        assert (stream.read(), stream.damage) == (b"", "")
    path.write_bytes(member * 3_000)
    with Stream(path, kind) as stream:
        assert stream.read() == b""
        assert "empty members" in stream.damage
