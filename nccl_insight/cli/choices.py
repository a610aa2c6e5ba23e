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


def option(name: str, default: object, *also: str, **settings: Any) -> Any:
    """The option that ``options.txt`` tells of under ``command --flag``; ``also``: other flags for it."""
    settings |= texts.of_file(Path(__file__).with_name("options.txt"))[name]
    return typer.Option(default, name.rpartition(" ")[2], *also, **settings)
