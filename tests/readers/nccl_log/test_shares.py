"""Logs read by many processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from nccl_insight.inputs import find as inputs_find
from nccl_insight.inputs.find import find_inputs
from nccl_insight.readers.nccl_log import shares


def test_shares_are_about_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs_find, "_SMALL_BYTES", 1_000)
    for name, size in (("a", 300), ("b", 300), ("c", 10_000), ("d", 300)):
        (tmp_path / name).write_bytes(b"x" * size)
    files = find_inputs([str(tmp_path)])
    found = list(shares.shares(files, 2_000))
    assert [(tuple(f.input_id for f in s.files), s.begin, s.end) for s in found] == [
        ((0, 1), 0, -1), ((2,), 0, 2_000), ((2,), 2_000, 4_000), ((2,), 4_000, 6_000), ((2,), 6_000, 8_000),
        ((2,), 8_000, -1), ((3,), 0, -1),
    ]  # fmt: skip


def test_a_share_says_whether_it_is_a_part_and_travels_between_processes(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("".join(f"gpu1:7:7 [0] NCCL INFO NCCL_P{n} set by environment to {n}.\n" for n in range(20)))
    files = tuple(find_inputs([str(path)]))
    whole = shares.Share(files)
    assert not whole.ranged
    assert shares.Share(files, 0, 10).ranged
    assert shares.Share(files, 10).ranged
    halves = [shares.Share(files, 0, path.stat().st_size // 2), shares.Share(files, path.stat().st_size // 2)]
    taken = [shares.unpacked(shares.packed(shares.take(half, details=True))) for half in halves]
    assert all(isinstance(part, shares.Taken) for part in taken)
    joined = shares.join([part for part in taken if isinstance(part, shares.Taken)], final=True)
    assert joined.log.processes["_lines"].to_list() == [20]
