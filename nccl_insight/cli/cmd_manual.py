"""``nccl-insight manual``: the manual page, for ``man``."""

from collections.abc import Iterator
from typing import Any

import typer

from nccl_insight.base.data import dataclass


@dataclass(frozen=True)
class _Command:
    """A command in man's words: how it is called, its help, name and meaning of its options."""

    usage: str
    paragraphs: tuple[str, ...]
    options: tuple[tuple[str, str], ...]


def manual() -> None:
    """Print the manual page: nccl-insight manual > ~/.local/share/man/man1/nccl-insight.1."""
    typer.echo(page())


def page() -> str:
    """The manual page in man's macros, made from the help of the commands."""
    from typer.main import get_command

    from nccl_insight import __version__
    from nccl_insight.cli import build_app
    from nccl_insight.report.fill import environment, template

    root: Any = get_command(build_app())
    commands = [made for name, command in sorted(root.commands.items()) for made in _commands(name, command)]
    made = environment(_text, {}, lambda name: template(name, "nccl_insight.cli"))
    return made.get_template("manual.man").render(version=__version__, commands=commands).rstrip("\n")


def _commands(name: str, command: Any) -> Iterator[_Command]:
    if getattr(command, "hidden", False):
        return
    subcommands = getattr(command, "commands", None)
    if subcommands:
        for sub, each in sorted(subcommands.items()):
            yield from _commands(f"{name} {sub}", each)
        return
    usage = " ".join(
        f"[{p.name.upper()}]..." if p.nargs == -1 else p.name.upper()
        for p in command.params
        if p.param_type_name == "argument"
    )
    context = command.make_context(name, [], resilient_parsing=True)
    records = [p.get_help_record(context) for p in command.params if p.param_type_name == "option"]
    paragraphs = tuple((command.help or "").strip().split("\n\n"))
    yield _Command(f"{name} {usage}".strip(), paragraphs, tuple(filter(None, records)))


def _text(text: str) -> str:
    """Text in which man sees no macro, no escape and no hyphen where a minus is meant."""
    plain = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain[:1] in (".", "'") else plain
