"""Writing results so that nothing is lost: whole or not at all, never over an input, devices never replaced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.base.writing import Outputs, writing, writing_directory


def test_a_result_is_there_whole_or_the_old_one_stays(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")
    target.chmod(0o640)

    def broken() -> None:
        with writing(target) as out:
            out.write(b"half of")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken()
    assert target.read_text() == "old"
    with writing(target) as out:
        out.write(b"new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["out.json"]


def test_a_private_file_is_for_its_owner_and_a_link_is_followed(tmp_path: Path) -> None:
    with writing(tmp_path / "map.json", private=True) as out:
        out.write(b"secret")
    assert (tmp_path / "map.json").stat().st_mode & 0o777 == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "map.json")
    with writing(tmp_path / "link") as out:
        out.write(b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "map.json").read_text() == "x"


def test_outputs_that_would_destroy_something_are_refused(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("x")
    outputs = Outputs([log])
    outputs.claim(tmp_path / "a.json")
    for target, why in (
        (log, "input"),
        (tmp_path / "a.json", "two outputs"),
        (tmp_path, "directory"),
        (tmp_path / "no/a", "does not exist"),
    ):
        with pytest.raises(UsageError, match=why):
            outputs.claim(target)
    outputs.claim("/dev/null")
    outputs.claim("/dev/null")


def test_a_directory_appears_when_all_is_written(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "out"
    with pytest.raises(RuntimeError), writing_directory(target) as part:
        raise RuntimeError
    assert not (tmp_path / "deep").exists()
    with writing_directory(target) as part:
        (part / "a.csv").write_text("1")
        assert not target.exists()
    (target / "mine").write_text("kept")
    with writing_directory(target) as part:
        (part / "a.csv").write_text("2")
    assert sorted(os.listdir(target)) == ["a.csv", "mine"]
    assert (target / "a.csv").read_text() == "2"
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="is a file"), writing_directory(tmp_path / "file"):
        pass
