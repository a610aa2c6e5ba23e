"""Keeps off standard error what Rust prints when it panics: the exception says it in one line."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from typing import Final

import polars as pl

_ONE_AT_A_TIME: Final = threading.Lock()
_PANIC: Final = b"\nthread '"


@contextlib.contextmanager
def without_panics() -> Iterator[None]:
    """What is written to standard error meanwhile is shown afterwards, without the report of a panic that was raised.

    Rust's own report goes to the descriptor, past Python. Where there is no standard error or no memory file (other
    systems than Linux), nothing is held back.
    """
    with _ONE_AT_A_TIME, contextlib.ExitStack() as stack:
        try:
            shown = os.dup(2)
            stack.callback(os.close, shown)
            held = os.memfd_create("nccl-insight")
            stack.callback(os.close, held)
        except (OSError, AttributeError):
            yield
            return
        if sys.stderr is not None:
            sys.stderr.flush()
        panicked = False
        os.dup2(held, 2)
        try:
            yield
        except pl.exceptions.PanicException:
            panicked = True
            raise
        finally:
            if sys.stderr is not None:
                sys.stderr.flush()
            os.dup2(shown, 2)
            text = os.pread(held, os.fstat(held).st_size, 0)
            if panicked:
                before = (b"\n" + text).partition(_PANIC)[0].strip(b"\n")
                text = before + b"\n" if before else b""
            with contextlib.suppress(OSError):
                os.write(shown, text)
