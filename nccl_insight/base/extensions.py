"""Packages of third parties that add rules, messages, input formats and expectations, found by their entry points.

An entry point of the group ``nccl_insight.rules``, ``nccl_insight.grammars``, ``nccl_insight.readers`` or
``nccl_insight.expectations`` names a package; what is in it is laid out as in nccl-insight itself.
"""

import importlib
import os
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final, Literal

from nccl_insight.base.errors import UsageError

_OWN: Final = "nccl_insight."
Group = Literal["rules", "grammars", "readers", "expectations"]


@cache
def _any() -> bool:
    """Whether a distribution may have entry points of ours: a fifth of the time that asking the library takes."""
    for folder in sys.path:
        try:
            names = [name for name in os.listdir(folder or ".") if name.endswith((".egg", "-info"))]
            listed = [path for name in names if os.path.exists(path := os.path.join(folder, name, "entry_points.txt"))]
            if any(name.endswith(".egg") for name in names) or any(f"[{_OWN}" in Path(p).read_text() for p in listed):
                return True
        except FileNotFoundError:
            continue
        except (OSError, ValueError):  # an archive, or nothing that we can read: the library may
            return True
    return False


@cache
def packages(group: Group) -> tuple[ModuleType, ...]:
    """The packages that installed distributions add to a group, ordered by the names of their entry points.

    Raises:
        UsageError: one of them cannot be imported, or is a module and no package.
    """
    if not _any():
        return ()
    from importlib.metadata import entry_points  # brings email and sockets

    found = []
    for entry in sorted(entry_points(group=_OWN + group), key=lambda e: e.name):
        named = f"extension {entry.name} ({entry.value}, of {entry.dist.name if entry.dist else 'unknown'})"
        package = _imported(entry.value, named)
        if not hasattr(package, "__path__"):
            raise UsageError(f"{named} is not a package; uninstall it or name a package in its entry point")
        found.append(package)
    return tuple(found)


def imported(name: str) -> ModuleType:
    """A module of ours or of an extension.

    Raises:
        UsageError: a module of an extension cannot be imported.
    """
    return importlib.import_module(name) if name.startswith(_OWN) else _imported(name, f"extension {name}")


def _imported(name: str, named: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:  # whatever the extension's own code raises
        raise UsageError(
            f"{named} cannot be loaded: {type(error).__name__}: {error}; repair or uninstall it"
        ) from error
