"""``--help``: commands and options in groups, whole sentences, examples that the parser takes, 80 columns."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from nccl_insight.cli import build_app
from nccl_insight.cli.help import EXAMPLES

ROOT = typer.main.get_command(build_app())


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", None)
    if not inner:
        yield path, command
        return
    for name, each in inner.items():
        if not each.hidden:
            yield from commands(each, (*path, name))


ALL = dict(commands(ROOT))


def help_of(path: tuple[str, ...]) -> str:
    context = ROOT.make_context("nccl-insight", list(path), resilient_parsing=True)
    command: Any = ROOT
    for name in path:
        command = command.commands[name]
        context = type(context)(command, info_name=name, parent=context)
    context.terminal_width = 80
    return str(command.get_help(context))


def test_every_command_is_in_a_group_with_its_whole_sentence() -> None:
    shown = help_of(())
    titles = [
        line.rstrip(":") for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")
    ]
    assert titles == [
        "Understand a run", "Before and around a job", "Data", "About the tool", "Options", "Examples",
    ]  # fmt: skip
    assert "..." not in shown.split("Understand a run:")[1]
    assert all(f"\n  {path[0]} " in shown for path in ALL)


def test_an_option_with_choices_lists_them() -> None:
    assert "--format <text|json|sarif>" in help_of(("lint",))
    assert "--format <parquet|csv|ndjson>" in help_of(("tables",))


@pytest.mark.parametrize("path", sorted(ALL))
def test_help_fits_80_columns_and_ends_with_examples(path: tuple[str, ...]) -> None:
    text, _, examples = help_of(path).partition("\nExamples:\n")
    assert examples.strip()
    assert max(map(len, text.splitlines())) <= 80
    assert "list[" not in text
    assert "<str>" not in text


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_are_command_lines_that_the_parser_takes(name: str) -> None:
    path = tuple(name.split())
    for example in EXAMPLES[name]:
        words = shlex.split(example.rpartition("| ")[2].partition(" > ")[0])
        assert words[0] == "nccl-insight"
        given = words[1:]
        if not path and given[0] not in ROOT.commands:  # type: ignore[attr-defined]
            continue  # the default job needs no name
        chosen: Any = ROOT
        while given and given[0] in getattr(chosen, "commands", {}):
            chosen = chosen.commands[given.pop(0)]
        chosen.make_context("x", given)


def test_options_of_analyze_are_in_groups() -> None:
    shown = help_of(("analyze",))
    for title, option in (
        ("Output", "-o, --output FORMAT=FILE"), ("What is judged", "--fail-on"), ("Privacy", "--redact"),
        ("Following", "--follow"), ("Inputs", "--limit"),
    ):  # fmt: skip
        part = shown.split(f"\n{title}:\n")[1].split("\n\n")[0]
        assert option in part
