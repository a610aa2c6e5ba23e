"""Pickles of plain data from strangers, read without Python's unpickler."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from nccl_insight.readers.flight_recorder.pickle import load_plain


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_all_kinds_of_plain_values(protocol: int) -> None:
    value = {
        "int": [0, 255, 256, 65535, 65536, -1, 2**31, -(2**63), 2**200],
        "float": [0.5, -1e300],
        "text": ["", "\u00e9", "x" * 300],
        "nested": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [[]], {"a": {"b": None}}],
        "flags": [True, False, None],
    }
    shared = ["again", "again"]
    assert load_plain(pickle.dumps([value, shared, shared], protocol)) == ([value, shared, shared], "")


@pytest.mark.parametrize("bad", [print, Path("x"), {1, 2}, bytearray(b"x"), complex(1, 2)])
def test_other_objects_are_refused(bad: object) -> None:
    found, problem = load_plain(pickle.dumps([bad], 2))
    assert found is None
    assert "could run code" in problem
