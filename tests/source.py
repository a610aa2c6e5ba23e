"""The source of the package, which many tests look at: each file is read and parsed once."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

import nccl_insight

PACKAGE: Final = Path(nccl_insight.__path__[0])


@cache
def modules(room: str = "") -> tuple[Path, ...]:
    """The modules of a folder of the package; without its name all of them."""
    return tuple(sorted((PACKAGE / room).rglob("*.py")))


@cache
def text(path: Path) -> str:
    """What stands in a file."""
    return path.read_text(encoding="utf-8")


@cache
def tree(path: Path) -> ast.Module:
    """The same, parsed. It is shared: look, do not change it."""
    return parsed(text(path), str(path))


def parsed(code: str, name: str = "<text>") -> ast.Module:
    """A tree of its own, by the grammar of the oldest Python that the package runs on."""
    return ast.parse(code, filename=name, feature_version=(3, 10))
