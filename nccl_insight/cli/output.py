"""Writing results: several outputs from one analysis, atomically, nothing before the analysis succeeded."""

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from nccl_insight.base.errors import UsageError
from nccl_insight.base.writing import Outputs, writing
from nccl_insight.inputs.find import watched

FORMATS: Final = ("text", "story", "json", "md", "junit", "html", "sarif", "github-issue", "chat", "card")
_STANDARD_OUTPUT: Final = ("", "-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
_SUFFIX: Final = {
    ".json": "json",
    ".html": "html",
    ".htm": "html",
    ".md": "md",
    ".xml": "junit",
    ".txt": "text",
    ".sarif": "sarif",
    ".svg": "card",
    ".png": "card",
}


def parse_output(given: str) -> tuple[str, str]:
    """``json=out.json``, ``report.html`` (format from the suffix) or ``json`` (standard output).

    Raises UsageError: the format is unknown or cannot be guessed.
    """
    name, sign, target = given.partition("=")
    if sign and name in FORMATS:
        return name, "-" if target in _STANDARD_OUTPUT else target
    if given in FORMATS:
        return given, "-"
    suffix = Path(given).suffix.lower()
    if suffix in _SUFFIX:
        return _SUFFIX[suffix], given
    near = get_close_matches(name, FORMATS, 1)
    meant = f" (did you mean {near[0]!r}?)" if near else ""
    raise UsageError(f"{given!r} is no format{meant}, nor FORMAT=FILE: formats are {', '.join(FORMATS)}")


def check_outputs(paths: Sequence[str], targets: Iterable[str | os.PathLike[str]]) -> None:
    """Refuses, before any work, outputs that would overwrite an input or one another.

    Raises UsageError: an output is one of the inputs, is named twice, or has no place to be written to.
    """
    targets = list(targets)
    if targets.count("-") > 1:
        raise UsageError("two outputs would go to standard output; give one of them a file")
    files = [target for target in targets if target != "-"]
    if not files:
        return
    inputs: list[str | int] = list(watched(p for p in paths if p != "-"))
    outputs = Outputs([*inputs, 0] if "-" in paths else inputs)
    for target in files:
        outputs.claim(target)


def working_directory() -> Path:
    """The directory of this process; the root where it was removed, below which no configuration is looked for."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/")


def write_text(target: str, text: str) -> None:
    """Writes to a file, whole or not at all, to a device or pipe as it is, or to standard output for ``-``.

    Raises UsageError: it cannot be written.
    """
    if target != "-":
        write_bytes(target, text.encode("utf-8", "backslashreplace"))
        return
    try:
        # Text from inputs is sanitised, so an escape sequence is a color that was asked for: it stays in a pipe, too.
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"standard output: cannot be written ({error.strerror or error})") from error


def write_bytes(target: str, content: bytes) -> None:
    """Writes to a file, whole or not at all.

    Raises UsageError: it cannot be written.
    """
    with writing(target) as out:
        out.write(content)


def terminal_width() -> int | None:
    """Columns of the terminal that standard output is; None where it is none, so that output does not depend on one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def use_color(choice: str) -> bool:
    """Whether to color standard output: ``always``, ``never`` or ``auto`` (terminal, NO_COLOR, FORCE_COLOR).

    Raises UsageError: it is none of these.
    """
    if choice in {"always", "never"}:
        return choice == "always"
    if choice != "auto":
        raise UsageError(f"--color {choice!r}: use auto, always or never")
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()
