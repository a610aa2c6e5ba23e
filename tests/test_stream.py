"""Streams of every compression: whole, cut at every kind of place, broken, endless."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

import nccl_insight
from nccl_insight.inputs.find import find_inputs
from nccl_insight.inputs.limits import Limits

LINE = "host{}:{}:1 [0] NCCL INFO Channel {:02d}/0 : 0[0] -> 1[1] via P2P/IPC\n"
TEXT = "".join(LINE.format(n % 7, n * 7919 % 65536, n % 32) for n in range(40_000)).encode()


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
    for cut in [1 + len(packed) - n for n in range(2, 12)] + [
        draw.randrange(8, len(packed)) for _ in range(20)
    ]:
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
