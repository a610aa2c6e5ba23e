"""Keeps off standard error what Rust prints when it panics."""

from __future__ import annotations

import os

import polars as pl
import pytest

from nccl_insight.readers.nsys.quiet import without_panics


def test_what_others_write_meanwhile_is_not_lost(capfd: pytest.CaptureFixture[str]) -> None:
    with without_panics():
        os.write(2, b"from another thread\n")
    assert capfd.readouterr().err == "from another thread\n"

    def panic() -> None:
        with without_panics():
            os.write(2, b"before\n\nthread 'x' panicked at y\nstack backtrace:\n")
            raise pl.exceptions.PanicException("y")

    with pytest.raises(pl.exceptions.PanicException):
        panic()
    assert capfd.readouterr().err == "before\n"
