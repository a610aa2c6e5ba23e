"""Options of commands: their words, and the values that several of them take, all others being refused."""

from pathlib import Path
from typing import Any, Literal

import typer

from nccl_insight.base import texts

JavaScript = Literal["inline", "cdn", "none"]
Color = Literal["auto", "always", "never"]
FailOn = Literal["error", "warning", "info", "never"]
TextOrJson = Literal["text", "json"]
Backend = Literal["nccl", "gloo"]
Level = Literal["names", "strict"]
Network = Literal["ib", "roce", "efa", "tcp", "slingshot", "tcpx", "tcpxo"]


def diagnoses(incomplete: str) -> list[str]:
    """Codes and names of diagnoses that begin so, for completion."""
    from nccl_insight.rules import discover

    return [word for rule in discover() for word in (rule.code, rule.name) if word.startswith(incomplete)]


def table_names(incomplete: str) -> list[str]:
    """Names of tables and of relations of facts that begin so, for completion."""
    from nccl_insight.facts.relations import overview

    return [name for name in overview()["table"] if name.startswith(incomplete)]


def formats(incomplete: str) -> list[str]:
    """Formats of ``analyze`` that begin so, for completion."""
    from nccl_insight.cli.output import FORMATS

    return [name for name in FORMATS if name.startswith(incomplete)]


def option(name: str, default: object, *also: str, **settings: Any) -> Any:
    """The option that ``options.txt`` tells of under ``command --flag``; ``also``: other flags for it."""
    settings |= texts.of_file(Path(__file__).with_name("options.txt"))[name]
    return typer.Option(default, name.rpartition(" ")[2], *also, **settings)
