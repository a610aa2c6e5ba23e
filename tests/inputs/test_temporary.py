"""One temporary directory per process."""

from __future__ import annotations

from pathlib import Path

import pytest

from nccl_insight.inputs import temporary


def test_directories_of_others_are_not_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kept = []
    for name in ("nccl-insight-results", "nccl-insight-ab12cd34", "nccl-insight-zz_2cd34"):
        folder = tmp_path / name
        folder.mkdir(mode=0o700)
        (folder / ".lock").touch()
        (folder / ".nccl-insight.lock").touch()
        (folder / "thesis.txt").write_text("mine")
        kept.append(folder / "thesis.txt")
    gone = tmp_path / "nccl-insight-ab12cd35"
    (gone / "1").mkdir(parents=True)
    gone.chmod(0o700)
    (gone / ".nccl-insight.lock").touch()
    (gone / "1" / "copy.log").write_text("x")
    temporary.clear()
    place = temporary.place()
    assert place.parent.is_dir()
    assert all(path.is_file() for path in kept)
    assert not gone.exists()
    temporary.clear()
