"""Tar archives as inputs: whole, damaged, and with members that must not be written."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard

from nccl_insight.inputs.archive import Budget, is_archive, is_bundle, is_zip, unpack
from nccl_insight.inputs.find import find_inputs
from nccl_insight.inputs.limits import Limits
from nccl_insight.live.capture.archive import pack


def tar_of(path: Path, members: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def names(path: Path) -> list[str]:
    return [i.display.removeprefix(f"{path}/") for i in find_inputs([str(path)])]


@pytest.mark.parametrize(("suffix", "mode"), [(".tar", "w"), (".tar.gz", "w:gz"), (".tgz", "w:gz")])
def test_files_of_an_archive_are_inputs(tmp_path: Path, suffix: str, mode: str) -> None:
    path = tar_of(
        tmp_path / f"run{suffix}", {"run/a.log": b"one\n", "run/.hidden": b"x", "run/b/dump_3": b"two\n"}, mode
    )
    found = find_inputs([str(path)])
    assert [i.display for i in found] == [f"{path}/run/a.log", f"{path}/run/b/dump_3"]
    assert [i.head() for i in found] == [b"one\n", b"two\n"]


def test_a_packed_capture_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "cap").mkdir()
    (tmp_path / "cap" / "nccl.a.1.log").write_text("hello\n")
    pack(tmp_path / "cap", tmp_path / "cap.tar.zst")
    assert names(tmp_path / "cap.tar.zst") == ["cap/nccl.a.1.log"]


def test_links_and_names_that_leave_the_archive_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "bad.tar"
    with tarfile.open(path, "w") as tar:
        for name in ("../escape", "/tmp/absolute", "ok.log"):
            info = tarfile.TarInfo(name)
            info.size = 1
            tar.addfile(info, io.BytesIO(b"x"))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    assert names(path) == ["ok.log"]
    assert not (tmp_path.parent / "escape").exists()


def test_a_cut_archive_gives_the_files_before_the_cut(tmp_path: Path) -> None:
    raw = tmp_path / "whole.tar"
    tar_of(raw, {"a.log": b"a" * 2000, "b.log": b"b" * 200_000})
    data = zstandard.ZstdCompressor().compress(raw.read_bytes()[:5000])
    (tmp_path / "cut.tar.zst").write_bytes(data)
    whole, cut = find_inputs([str(tmp_path / "cut.tar.zst")])
    assert (whole.head(), whole.damage) == (b"a" * 2000, "")
    assert set(cut.head()) == {ord("b")}
    assert "damaged" in cut.damage


def test_an_archive_without_its_end_is_noticed(tmp_path: Path) -> None:
    raw = tmp_path / "whole.tar"
    tar_of(raw, {"a.log": b"a" * 512, "b.log": b"b" * 512})
    assert [i.damage for i in find_inputs([str(raw)])] == ["", ""]
    raw.write_bytes(raw.read_bytes()[:1024])
    assert [(i.size_bytes, bool(i.damage)) for i in find_inputs([str(raw)])] == [(512, False), (0, True)]


def test_what_is_no_archive_at_all_is_a_damaged_input(tmp_path: Path) -> None:
    (tmp_path / "junk.tar.zst").write_bytes(b"\x28\xb5\x2f\xfd" + b"junk" * 50)
    (only,) = find_inputs([str(tmp_path / "junk.tar.zst")])
    with only.open() as stream:
        assert stream.read() == b""
        assert stream.damage


def test_files_beyond_the_limit_are_named(tmp_path: Path) -> None:
    path = tar_of(tmp_path / "many.tar", {f"{n}.log": b"x" for n in range(3)})
    found = find_inputs([str(path)], Limits(archive_files=2))
    assert [i.display for i in found] == [f"{path}/0.log", f"{path}/1.log", str(path)]
    assert "archive-files" in found[2].damage


def test_an_archive_may_expand_only_so_far(tmp_path: Path) -> None:
    path = tar_of(tmp_path / "big.tgz", {"a.log": b"a" * 3_000_000, "b.log": b"b"}, "w:gz")
    (only,) = find_inputs([str(path)], Limits(expansion_free_mib=1, expansion_ratio=1))
    assert (1 << 20) - 1024 <= only.size_bytes <= 1 << 20
    assert "expansion-ratio" in only.damage


@pytest.mark.parametrize("name", ["../up.log", "/abs.log", "a/../../up.log"])
def test_zip_names_that_leave_are_passed_over(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, b"evil")
        archive.writestr("fine.log", b"fine")
    assert names(path) == ["fine.log"]


def test_a_zip_that_lost_its_directory_gives_its_files(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    body = b"".join(b"line %d of the log\n" % n for n in range(5000))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.log", body)
        archive.writestr("b.log", body)
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"b.log") + 2000])
    first, second, note = find_inputs([str(path)])
    with first.open() as stream:
        assert stream.read() == body
    with second.open() as stream:
        part = stream.read()
    assert part
    assert body.startswith(part)
    assert second.damage
    assert "files may be missing" in note.damage


def test_a_zip_member_with_a_wrong_checksum_is_used_and_noted(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.log", b"hello world\n")
    path.write_bytes(path.read_bytes().replace(b"hello", b"jello"))
    (only,) = find_inputs([str(path)])
    assert "damaged" in only.damage


def test_archives_within_a_directory_and_within_archives_are_opened(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    inner = tar_of(tmp_path / "inner.tgz", {"deep.log": b"deep"}, "w:gz")
    with zipfile.ZipFile(tmp_path / "d" / "outer.zip", "w") as archive:
        archive.write(inner, "inner.tgz")
    (only,) = find_inputs([str(tmp_path / "d")])
    assert only.display.endswith("outer.zip/inner.tgz/deep.log")
    assert only.head() == b"deep"
    (told,) = find_inputs([str(tmp_path / "d")], Limits(archive_depth=1))
    assert "archive-depth" in told.damage


def test_long_names_inside_are_no_damage(tmp_path: Path) -> None:
    path = tar_of(tmp_path / "long.tar", {"x" * 300 + ".log": b"a", "b.log": b"b"})
    assert [i.damage for i in find_inputs([str(path)])] == ["", ""]


def gz_of(path: Path, *members: tuple[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as made:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            made.addfile(info, io.BytesIO(data))
    return path


def test_archives_are_known_by_their_content(tmp_path: Path) -> None:
    made = gz_of(tmp_path / "x", ("a.log", b"1"))
    assert is_archive(made)
    assert not is_zip(made)
    with zipfile.ZipFile(tmp_path / "y", "w") as packed:
        packed.writestr("a.log", "1")
    assert is_archive(tmp_path / "y")
    assert is_zip(tmp_path / "y")
    assert not is_bundle(tmp_path / "y")
    (tmp_path / "run.tar").write_text("loss 2.5\n" * 99)
    assert not is_archive(tmp_path / "run.tar")
    assert not is_archive(tmp_path / "missing")


def test_names_that_leave_the_archive_are_passed_over(tmp_path: Path) -> None:
    made = gz_of(tmp_path / "x.tgz", ("a.log", b"12"), ("../b.log", b"3"), ("/c.log", b"4"), ("d/e.log", b"5"))
    found = list(unpack(made, Budget(Limits(), made.stat().st_size)))
    assert [(member.name, member.path.read_bytes(), member.damage) for member in found] == [
        ("a.log", b"12", ""), ("d/e.log", b"5", ""),
    ]  # fmt: skip


def test_a_budget_counts_files() -> None:
    limits = Limits()
    budget = Budget(limits, 100)
    budget.files = 1
    assert budget.file() == ""
    assert "limit archive-files" in budget.file()
