"""Copies of what can be read only once: standard input, pipes, files behind URLs."""

from __future__ import annotations

import io
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.inputs.limits import Limits
from nccl_insight.inputs.spool import from_pipe, spool, start_of


def test_a_stream_is_copied_up_to_the_limit() -> None:
    small = replace(Limits(), spool_mib=1)
    whole = spool(io.BytesIO(b"x" * 1000), "in", small)
    assert (whole.path.read_bytes(), whole.damage) == (b"x" * 1000, "")
    exact = spool(io.BytesIO(b"x" * (1 << 20)), "in", small)
    assert (exact.path.stat().st_size, exact.damage) == (1 << 20, "")
    more = spool(io.BytesIO(b"x" * ((1 << 20) + 1)), "in", small)
    assert more.path.stat().st_size == 1 << 20
    assert more.damage == "it gives more than 1 MiB (limit spool-mib); the rest was not read"


def test_a_pipe_is_read_once_somebody_writes(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b"loss 2.5\n"))
    writer.start()
    copy = from_pipe(pipe, "pipe", Limits())
    writer.join()
    assert (copy.path.read_bytes(), copy.damage) == (b"loss 2.5\n", "")


def test_a_pipe_that_nobody_writes_to_is_given_up(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="nobody wrote to this pipe"):
        start_of(pipe, 8, wait_s=0)
    (tmp_path / "run.log").write_bytes(b"0123456789")
    assert start_of(tmp_path / "run.log", 8) == b"01234567"
