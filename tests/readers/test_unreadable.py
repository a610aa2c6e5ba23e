"""Files that are known and cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from nccl_insight.inputs.find import find_inputs
from nccl_insight.readers.unreadable import SURE, failed, known, looks_binary, read, sniff

CORE = b"\x7fELF" + bytes(12) + b"\x04\x00" + bytes(9)


@pytest.mark.parametrize(
    ("head", "binary"),
    [
        (b"loss 2.5\n", False), (b"", False), (b"\0" * 50 + b"loss 2.5\n", False), ("loss".encode("utf-16"), False),
        ("a long text".encode("utf-16-le"), False), (bytes(range(1, 9)) * 9, True), (b"x" * 100 + b"\x01\x02", False),
        (b"x" * 90 + b"\x01\x02\x03", True),
    ],
)  # fmt: skip
def test_what_is_no_text(head: bytes, binary: bool) -> None:
    assert looks_binary(head) is binary


@pytest.mark.parametrize(
    ("head", "name", "word", "sure"),
    [
        (CORE, "x", "core dump", SURE), (b"\x7fELF" + bytes(20), "x", "program", SURE),
        (b"PAR1xx", "x", "arquet", SURE),
        (b"PK\x03\x04", "model.pt", "zip", SURE), (bytes(range(1, 9)) * 9, "r.nsys-rep", "Nsight Systems", SURE),
        (b'{"schema": "1.1.1-chakra.0.0.4", "nodes": []', "x.json", "race", SURE),
        (b"\x80\x04" + bytes(range(1, 9)) * 9, "x", "ickle", 0.55), (bytes(range(1, 9)) * 9, "x", "", 0.55),
    ],
)  # fmt: skip
def test_files_are_known_by_their_first_bytes(head: bytes, name: str, word: str, sure: float) -> None:
    found = known(head, name)
    assert found is not None
    assert word in found.what
    assert sniff(head, name) == sure


def test_text_is_not_refused_for_its_name(tmp_path: Path) -> None:
    assert known(b"loss 2.5\n", "r.nsys-rep") is None
    assert sniff(b"loss 2.5\n", "r.nsys-rep") == 0


def test_the_row_says_what_it_is_why_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "core.7"
    path.write_bytes(CORE)
    (source,) = find_inputs([str(path)])
    row = read(source).tables["unreadable"].row(0, named=True)
    assert "core dump" in row["what"]
    assert "{path}" not in row["command"]
    broken = failed(source, "nccl_log", ValueError("bad\nthing")).tables["unreadable"].row(0, named=True)
    assert (broken["what"], broken["command"]) == ("nccl log", "")
    assert broken["why"] == "its reader failed (ValueError: bad); please report this"
