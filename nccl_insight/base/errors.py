"""Exceptions, each with the exit code that the command line ends with.

Exit codes are public API (README, "Exit codes"). All codes not listed here are reserved.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum


class ExitCode(IntEnum):
    """What the process returns to the shell."""

    OK = 0
    FINDINGS = 1
    USAGE = 2
    NOT_JUDGED = 3
    INTERNAL = 4
    TIMEOUT = 5
    INTERRUPTED = 130
    PIPE_CLOSED = 141


class InsightError(Exception):
    """A problem that the user can act on. The message is one line: what, where, what to do."""

    exit_code: ExitCode = ExitCode.INTERNAL


class UsageError(InsightError):
    """A wrong option, path, configuration key or rule name."""

    exit_code = ExitCode.USAGE


class NotJudgedError(InsightError):
    """There was nothing to judge: no input, no NCCL line, unknown format, no GPU."""

    exit_code = ExitCode.NOT_JUDGED


class GrammarError(InsightError):
    """A grammar file breaks the rules of the restricted language. Names file, rule and item."""

    exit_code = ExitCode.INTERNAL


@contextmanager
def as_usage(what: object) -> Iterator[None]:
    """Makes errors of the system wrong usage, with the reason: ``run.log: cannot be read (Permission denied)``."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{what} ({error.strerror or error})") from error
