"""What is kept for the next start is used with its own key, and never in the way."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from nccl_insight.base import kept


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where things are kept in a test; the folder is not there yet."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(kept, "place", lambda name: tmp_path / "home" / name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return tmp_path / "home"


def test_a_value_is_used_with_its_own_key_only(home: Path) -> None:
    value = {"one": (1, "x"), "two": [b"y", None]}
    kept.write("a", "key", value)
    assert [p.name for p in home.iterdir()] == ["a"]
    assert kept.read("a", "key") == value
    assert kept.read("a", "another") is None
    assert kept.read("b", "key") is None


@pytest.mark.parametrize("content", [b"", b"x", b"\xff" * 9, b"N", b"[\x03\x00\x00\x00NNN"])
def test_a_file_that_is_no_such_value_is_none(home: Path, content: bytes) -> None:
    home.mkdir()
    (home / "a").write_bytes(content)
    assert kept.read("a", "key") is None


def test_a_file_that_is_cut_is_none(home: Path) -> None:
    kept.write("a", "key", ["a long text"] * 9)
    (home / "a").write_bytes((home / "a").read_bytes()[:-5])
    assert kept.read("a", "key") is None


def test_where_python_writes_no_bytecode_the_user_keeps_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    kept.write("a", "key", 1)
    own = home.with_name("caches") / "nccl-insight"
    assert not home.exists()
    assert [p.name for p in own.iterdir()] == ["a"]
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert kept.read("a", "key") == 1


@pytest.mark.parametrize(("mode", "owner"), [(0o770, 0), (0o707, 0), (0o700, 1)])
def test_a_folder_that_another_may_write_to_is_not_believed(
    home: Path, monkeypatch: pytest.MonkeyPatch, mode: int, owner: int
) -> None:
    home.write_text("x")
    kept.write("a", "key", 1)
    assert kept.read("a", "key") == 1
    home.with_name("caches").joinpath("nccl-insight").chmod(mode)
    user = os.geteuid() + owner
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert kept.read("a", "key") is None
    kept.write("a", "other", 2)
    assert kept.read("a", "other") is None


@pytest.mark.parametrize("caches", ["", "relative", "FILE"])
def test_no_place_that_can_be_written_costs_nothing(home: Path, monkeypatch: pytest.MonkeyPatch, caches: str) -> None:
    home.write_text("x")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home) if caches == "FILE" else caches)
    kept.write("a", "key", 1)
    assert home.read_text() == "x"
    assert kept.read("a", "key") is None
    assert not Path("relative").exists()


@pytest.mark.usefixtures("home")
def test_what_files_give_is_made_anew_where_one_of_them_changes(tmp_path: Path) -> None:
    files = [tmp_path / "one", tmp_path / "two"]
    for file in files:
        file.write_text("a")
    asked = []

    def make() -> str:
        asked.append(1)
        return "".join(file.read_text() for file in files)

    assert [kept.of_files("a", files, make) for _ in range(3)] == ["aa"] * 3
    assert len(asked) == 1
    files[1].write_text("bc")
    assert [kept.of_files("a", files, make) for _ in range(2)] == ["abc"] * 2
    assert kept.of_files("a", files[:1], lambda: "a") == "a"
    assert kept.of_files("a", [tmp_path / "x.zip" / "one"], lambda: "z") == "z"
