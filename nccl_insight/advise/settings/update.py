"""Entries of the catalog for variables that a source tree reads and the catalog does not list."""

import re
from collections.abc import Iterable

from nccl_insight.advise.settings.catalog import Catalog
from nccl_insight.base.data import dataclass


@dataclass(frozen=True)
class NewSetting:
    """A variable that the catalog lacks: its default as the source has it, and ``file:line``."""

    name: str
    default: str
    place: str


def unknown_settings(data: Catalog, settings: Iterable[tuple[str, str, str]]) -> list[NewSetting]:
    """The settings (name, default, place) that are not listed, by name."""
    found = {
        name: NewSetting(name, default, place)
        for name, default, place in settings
        if name not in data.variables and name not in data.script_names
    }
    return [found[name] for name in sorted(found)]


def entries(new: Iterable[NewSetting], library: str, version: str) -> str:
    """The settings as sections for ``env_vars.toml``, to be completed by hand (type, values, advice)."""
    source = {"ofi": "ofi-src", "rccl": "rccl-src"}.get(library, "nccl-src")
    parts: list[str] = []
    for setting in new:
        number = re.fullmatch(r"-?[0-9]+", setting.default)
        kind = "int" if number else "bool" if setting.default in {"true", "false"} else "string"
        lines = [f"[variables.{setting.name}]", f'library = "{library}"', 'group = "internal"', f'type = "{kind}"']
        if setting.default:
            lines.append(f'default = "{_default(setting.default)}"')
        if version:
            lines.append(f'since = "{version}"')
        parts.append("\n".join([*lines, f'source = "{source}"']) + "\n\n")
    return "".join(parts)


def _default(text: str) -> str:
    """A default as the catalog words it: NCCL's mark for a value that is not set, or one that it computes."""
    if text in {"NCCL_CONFIG_UNDEF_INT", "nullptr", "NULL"}:
        return "unset"
    if text == "-2":
        return "automatic"
    plain = {"true": "1", "false": "0"}.get(text, text)
    return plain.replace("\\", "\\\\").replace('"', "'")
