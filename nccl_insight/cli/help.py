"""Help texts: commands and options in groups, whole sentences, and examples, readable at 80 columns.

Plain text by the parser's own formatter: nothing to import for it, so that ``--help`` stays quick.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from nccl_insight.base import late, texts, toml
from nccl_insight.cli.choices import GROUPED, Level, offer

_EXAMPLES: Final = Path(__file__).with_name("examples.txt")
# Defaults that say nothing, and bounds of numbers, which an error names where they matter.
_NOTHING: Final = late.compiled(
    r"\s*\[(?:default: (?:0|0\.0|-|auto|False))?(?:; )?(?:x>=[0-9.]+)?\]$|; x>=[0-9.]+(?=\]$)"
)
_WIDTH: Final = 30


class Command(TyperCommand):
    """A command whose options are in groups and whose help ends with examples."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """``--redact`` may be followed by how much is replaced, which is an option of its own."""
        if any("--redact-level" in parameter.opts for parameter in self.params):
            joined: list[str] = []
            for word in args:
                level = word.removeprefix("--redact=")
                known = level in get_args(Level)
                if known and (level != word or joined[-1:] == ["--redact"]):
                    joined += [] if level == word else ["--redact"]
                    joined += ["--redact-level", level]
                else:
                    joined.append(word)
            args = joined
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                groups.setdefault("Arguments", []).append((_plain(record[0]), record[1]))
            else:
                title = _group_of(_told()["options"], parameter.opts) or "Options"
                own = next((word for n in parameter.opts if (word := _told()["values"].get(n))), None)
                own = None if "|" in record[0].rpartition("<")[2] else own
                shown = re.sub(r"<[^<>]*>$", own, record[0]) if own else _plain(record[0])
                groups.setdefault(title, []).append((shown, _NOTHING.sub("", record[1])))
        for title in filter(groups.get, ("Arguments", *_told()["options"], "Options")):
            with formatter.section(title):
                formatter.write_dl(groups[title], col_max=_WIDTH)
        write_examples(formatter, ctx.command_path.removeprefix("nccl-insight "))


class Group(TyperGroup):
    """The commands in groups, each with the whole first sentence of its help."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        records = [p.get_help_record(ctx) for p in self.get_params(ctx)]
        entries = [(_plain(r[0]), r[1]) for r in records if r is not None]
        titles: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                title = _group_of(GROUPED, [name]) if ctx.parent is None else ""
                titles.setdefault(title or "Commands", []).append((name, _sentence(command.help or "")))
        for title in filter(titles.get, (*GROUPED, "Commands")):
            order = {name: n for n, name in enumerate(GROUPED.get(title, ()))}
            with formatter.section(title):
                formatter.write_dl(sorted(titles[title], key=lambda e: order.get(e[0], len(order))))
        with formatter.section("Options"):
            formatter.write_dl(entries, col_max=_WIDTH)
        if ctx.parent is None:
            write_examples(formatter, "nccl-insight")


def arrange(app: typer.Typer, *, top: bool = True) -> None:
    """Gives every command of the application, groups included, the help of this module."""
    for command in app.registered_commands:
        command.cls = Command
        offer(command.callback)
    for group in app.registered_groups:
        group.cls = Group
        if group.typer_instance is not None:
            arrange(group.typer_instance, top=False)
    if top:
        app.info.cls = Group


def write_examples(formatter: Any, command: str) -> None:
    """The examples of a command, never wrapped, so that they can be pasted."""
    examples = texts.of_file(_EXAMPLES).get(command, {}).values()
    if examples:
        formatter.write("\nExamples:\n" + "".join(f"  {example}\n" for example in examples))


@cache
def _told() -> Mapping[str, Any]:
    """Headings of options (``options``), words for their values (``values``) and for types (``kinds``)."""
    return toml.beside(__file__)


def _group_of(groups: Mapping[str, Sequence[str]], names: Iterable[str]) -> str:
    return next((title for title, members in groups.items() if any(n in members for n in names)), "")


def _plain(shown: str) -> str:
    """The type of a value as a word, not as a type of Python."""
    for kind, word in _told()["kinds"].items():
        shown = shown.replace(f" {kind}", f" {word}" if shown.startswith("-") else "")
    return shown


def _sentence(text: str) -> str:
    first = " ".join(text.strip().split("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z])", first)[0].rstrip(".")
