"""TOML: what the package brings as such, and its parser, in the standard library from Python 3.11 on."""

import importlib
import sys
from pathlib import Path
from typing import Any

from nccl_insight.base import kept


def __getattr__(name: str) -> Any:
    """The parser's ``loads`` and ``TOMLDecodeError``; it takes longer to import than a start has to read."""
    return getattr(importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli"), name)


def read(path: Path) -> dict[str, Any]:
    """What a file of the package holds."""
    name = f"{path.parent.name}-{path.stem}"
    data: dict[str, Any] = kept.of_files(name, [path], lambda: __getattr__("loads")(path.read_text("utf-8")))
    return data


def beside(module: str) -> dict[str, Any]:
    """What the file of a module's name with the suffix ``.toml`` beside it holds; ``module``: its ``__file__``."""
    return read(Path(module).with_suffix(".toml"))
