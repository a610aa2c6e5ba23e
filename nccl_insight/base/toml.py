"""The parser of TOML, which is in the standard library from Python 3.11 on."""

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    from tomllib import TOMLDecodeError, loads
else:  # pragma: no cover
    from tomli import TOMLDecodeError, loads

__all__ = ["TOMLDecodeError", "beside", "loads", "read"]


def read(path: Path) -> dict[str, Any]:
    """What a file of TOML holds.

    Raises:
        OSError: it cannot be read.
        TOMLDecodeError: it is no TOML.
    """
    data: dict[str, Any] = loads(path.read_text(encoding="utf-8"))
    return data


def beside(module: str) -> dict[str, Any]:
    """What the file of a module's name with the suffix ``.toml`` beside it holds; ``module``: its ``__file__``."""
    return read(Path(module).with_suffix(".toml"))
