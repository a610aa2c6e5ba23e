"""Writing results: several outputs from one analysis, atomically, nothing before the analysis succeeded."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Final

import typer

from nccl_insight.errors import UsageError

FORMATS: Final = ("text", "json", "md", "junit", "html")
_SUFFIX: Final = {
    ".json": "json",
    ".html": "html",
    ".htm": "html",
    ".md": "md",
    ".xml": "junit",
    ".txt": "text",
}


def parse_output(given: str) -> tuple[str, str]:
    """``json=out.json``, ``report.html`` (format from the suffix) or ``json`` (standard output).

    Raises:
        UsageError: the format is unknown or cannot be guessed.
    """
    name, sign, target = given.partition("=")
    if sign and name in FORMATS:
        return name, target or "-"
    if given in FORMATS:
        return given, "-"
    suffix = Path(given).suffix.lower()
    if suffix in _SUFFIX:
        return _SUFFIX[suffix], given
    raise UsageError(f"output {given!r}: write FORMAT=FILE with one of {', '.join(FORMATS)}")


def write_text(target: str, text: str) -> None:
    """Writes to a file (temporary file, then rename) or to standard output for ``-``.

    Raises:
        UsageError: the file cannot be written.
    """
    if target == "-":
        typer.echo(text, nl=not text.endswith("\n"))
        return
    path = Path(target)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent or Path(), prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as out:
            out.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        raise UsageError(f"{target}: cannot be written ({error.strerror})") from error


def use_color(choice: str) -> bool:
    """Whether to colour standard output: ``always``, ``never`` or ``auto`` (terminal, NO_COLOR, FORCE_COLOR)."""
    if choice in {"always", "never"}:
        return choice == "always"
    if choice != "auto":
        raise UsageError(f"--color {choice!r}: use auto, always or never")
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()
