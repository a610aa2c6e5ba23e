"""Watching a running job: a stand-in for NCCL's RAS service, a log that grows, Inspector records."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nccl_insight.live.watch.files import Follower
from tests.live.watch.watched import call, start


def pieces(follower: Follower) -> dict[str, bytes]:
    return {path.name: piece for path, piece in follower.grown().pieces}


def test_what_a_follower_reads(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("one\ntw")
    follower = Follower([str(tmp_path)])
    assert pieces(follower) == {"a.log": b"one\n"}
    with log.open("a") as stream:
        stream.write("o\nthree\n")
    assert pieces(follower) == {"a.log": b"two\nthree\n"}
    assert pieces(follower) == {}
    log.unlink()
    log.write_text("new\n")
    assert pieces(follower) == {"a.log": b"new\n"}


@pytest.mark.parametrize("alone", [False, True])
def test_a_log_that_is_rotated_is_read_on_under_its_new_name(tmp_path: Path, alone: bool) -> None:
    log = tmp_path / "run.log"
    log.write_text("one\n")
    follower = Follower([str(log if alone else tmp_path)])
    assert pieces(follower) == {"run.log": b"one\n"}
    with log.open("a") as stream:
        stream.write("two\n")
    log.rename(tmp_path / "run.log.1")
    log.write_text("three\n")
    assert pieces(follower) == {"run.log": b"three\n", "run.log.1": b"two\n"}
    assert follower.news() == []


def test_a_log_that_is_copied_and_emptied_is_read_once(tmp_path: Path) -> None:
    """What was written between the last look and the copy is in the copy alone."""
    log, copy = tmp_path / "run.log", tmp_path / "run.log.1"
    log.write_text(start(0) + call(0, 0))
    follower = Follower([str(tmp_path)])
    pieces(follower)
    with log.open("a") as stream:
        stream.write(call(0, 1))
    copy.write_bytes(log.read_bytes())
    os.truncate(log, 0)
    with log.open("a") as stream:
        stream.write(call(0, 2))
    grown = follower.grown()
    assert b"".join(piece for _, piece in grown.pieces).decode() == call(0, 1) + call(0, 2)
    assert grown.context.decode() == start(0)
    with log.open("a") as stream:
        stream.write(call(0, 3))
    assert pieces(follower) == {"run.log": call(0, 3).encode()}


def test_a_copy_that_lies_beside_is_not_read_and_a_file_that_only_begins_alike_is(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("banner\n" * 100 + "one\n")
    follower = Follower([str(tmp_path)])
    pieces(follower)
    (tmp_path / "b.log").write_bytes(log.read_bytes())
    (tmp_path / "c.log").write_text("banner\n" * 80 + "another host\n")
    assert list(pieces(follower)) == ["c.log"]
    log.unlink()
    with (tmp_path / "b.log").open("a") as stream:
        stream.write("two\n")
    assert pieces(follower) == {"b.log": b"two\n"}


def test_a_process_that_does_not_append_leaves_a_hole(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    with log.open("wb", buffering=0) as stream:
        stream.write(b"one\n" * 10)
        follower = Follower([str(log)])
        pieces(follower)
        os.truncate(log, 0)
        stream.write(b"two\n")
        assert pieces(follower) == {"run.log": b"two\n"}
        stream.write(b"three\n")
        assert pieces(follower) == {"run.log": b"three\n"}


def test_a_server_that_shows_an_old_size_for_a_while(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(start(0) + call(0, 0) + call(0, 1))
    follower = Follower([str(log)])
    pieces(follower)
    os.truncate(log, len(start(0) + call(0, 0)))
    assert pieces(follower) == {}
    with log.open("a") as stream:
        stream.write(call(0, 1) + call(0, 2))
    assert pieces(follower) == {"run.log": call(0, 2).encode()}
