"""Options of commands: their words, and the values that several of them take, all others being refused."""

from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from nccl_insight.base import texts

JavaScript = Literal["inline", "cdn", "none"]
Color = Literal["auto", "always", "never"]
FailOn = Literal["error", "warning", "info", "never"]
TextOrJson = Literal["text", "json"]
Backend = Literal["nccl", "gloo"]
Level = Literal["names", "strict"]
Network = Literal["ib", "roce", "efa", "tcp", "slingshot", "tcpx", "tcpxo"]
GROUPED: Final[dict[str, tuple[str, ...]]] = {
    "Understand a run": ("analyze", "why", "explain-log", "explain", "diff", "expect", "watch"),
    "Before and around a job": ("preflight", "lint", "capture", "replay", "record-env"),
    "Data": ("query", "tables", "parse", "redact"),
    "About the tool": ("demo", "rules", "config", "grammar", "manual", "mcp"),
}
COMMANDS: Final = frozenset(name for names in GROUPED.values() for name in names)


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


class Offered(NamedTuple):
    """A parameter of a command: what the parser makes an option or an argument of, once there is one."""

    default: Any
    name: str
    also: tuple[str, ...]
    settings: dict[str, Any]


def option(name: str, default: object, *also: str, **settings: Any) -> Any:
    """What ``options.txt`` tells of under ``command --flag`` or ``command ARGUMENT``; ``also``: other flags for it."""
    return Offered(default, name, also, settings)


def offer(command: Any) -> None:
    """Gives the parser what it offers of a command."""
    import typer

    about = texts.of_file(Path(__file__).with_name("options.txt"))

    def made(told: Offered) -> Any:
        settings: dict[str, Any] = {**told.settings, **about[told.name]}
        name = told.name.rpartition(" ")[2]
        if name.startswith("-"):
            return typer.Option(told.default, name, *told.also, **settings)
        return typer.Argument(told.default, metavar=name, **settings)

    command.__defaults__ = tuple(made(d) if isinstance(d, Offered) else d for d in command.__defaults__ or ())
