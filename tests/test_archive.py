"""Tar archives as inputs: whole, damaged, and with members that must not be written."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
import zstandard

from nccl_insight.inputs import archive
from nccl_insight.inputs.find import find_inputs
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
        tmp_path / f"run{suffix}",
        {"run/a.log": b"one\n", "run/.hidden": b"x", "run/b/dump_3": b"two\n"},
        mode,
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
    found = names(tmp_path / "cut.tar.zst")
    assert found[0] == "a.log"
    assert "damaged" in found[-1]
    (tmp_path / "junk.tar.zst").write_bytes(b"\x28\xb5\x2f\xfd" + b"junk" * 50)
    with pytest.raises(archive.UsageError, match="damaged"):
        find_inputs([str(tmp_path / "junk.tar.zst")])


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_FILES", 2)
    path = tar_of(tmp_path / "many.tar", {f"{n}.log": b"x" for n in range(3)})
    with pytest.raises(archive.UsageError, match=r"many\.tar"):
        find_inputs([str(path)])
