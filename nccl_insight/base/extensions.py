"""Packages of third parties that add rules, messages, input formats and expectations, found by their entry points.

An entry point of the group ``nccl_insight.rules``, ``nccl_insight.grammars``, ``nccl_insight.readers`` or
``nccl_insight.expectations`` names a package; what is in it is laid out as in nccl-insight itself.
"""

import importlib
import importlib.metadata
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Final, Literal, get_args

from nccl_insight.base.errors import UsageError

_OWN: Final = "nccl_insight."
Group = Literal["rules", "grammars", "readers", "expectations"]


@cache
def _entries() -> Mapping[Group, importlib.metadata.EntryPoints]:
    """Our entry points of all installed distributions, by group; finding them reads a file of each."""
    every = importlib.metadata.entry_points()
    return {group: every.select(group=f"nccl_insight.{group}") for group in get_args(Group)}


@cache
def packages(group: Group) -> tuple[ModuleType, ...]:
    """The packages that installed distributions add to a group, ordered by the names of their entry points.

    Raises:
        UsageError: one of them cannot be imported, or is a module and no package.
    """
    found = []
    for entry in sorted(_entries()[group], key=lambda e: e.name):
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
