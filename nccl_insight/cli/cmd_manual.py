"""``nccl-insight manual``: the manual page, for ``man``."""

from collections.abc import Iterator
from typing import Any

import typer

_EXITS = (
    ("0", "nothing found that fails, or what was asked for is done"),
    ("1", "findings of the severity that fails (see analyze --fail-on), a failed check, differences"),
    ("2", "wrong usage"),
    ("3", "nothing could be judged: no input, no NCCL output, no GPU"),
    ("4", "internal error"),
    ("5", "a deadline passed: a collective or a process hangs"),
)


def manual() -> None:
    """Print the manual page: nccl-insight manual > ~/.local/share/man/man1/nccl-insight.1."""
    typer.echo("\n".join(page()))


def page() -> Iterator[str]:
    """Lines of the manual page in man's macros, made from the help of the commands."""
    from typer.main import get_command

    from nccl_insight import __version__
    from nccl_insight.cli import build_app

    root: Any = get_command(build_app())
    yield f'.TH NCCL-INSIGHT 1 "" "nccl-insight {__version__}" "User Commands"'
    yield ".SH NAME"
    yield "nccl\\-insight \\- reads NCCL logs and profiler traces and says what happened"
    yield ".SH SYNOPSIS"
    yield ".B nccl\\-insight"
    yield ".I COMMAND"
    yield "[OPTIONS] [ARGUMENTS]"
    yield ".br"
    yield ".B nccl\\-insight"
    yield ".I LOG..."
    yield ".SH DESCRIPTION"
    yield _text(
        "Reads logs of NCCL and RCCL, traces of PyTorch and Nsight Systems, Flight Recorder dumps and more, and names "
        "what went wrong, where, with the lines that show it. A file or directory without a command means analyze."
    )
    yield ".SH COMMANDS"
    for name, command in sorted(root.commands.items()):
        yield from _command(name, command)
    yield ".SH EXIT STATUS"
    for code, meaning in _EXITS:
        yield from (".TP", f".B {code}", _text(meaning))
    yield ".SH SEE ALSO"
    yield _text("The documentation of each finding: nccl-insight explain NAME. All settings: nccl-insight config show.")


def _command(name: str, command: Any) -> Iterator[str]:
    if getattr(command, "hidden", False):
        return
    subcommands = getattr(command, "commands", None)
    if subcommands:
        for sub, each in sorted(subcommands.items()):
            yield from _command(f"{name} {sub}", each)
        return
    usage = " ".join(
        f"[{p.name.upper()}]..." if p.nargs == -1 else p.name.upper()
        for p in command.params
        if p.param_type_name == "argument"
    )
    yield f".SS {_text(f'{name} {usage}'.strip())}"
    for paragraph in (command.help or "").strip().split("\n\n"):
        yield _text(" ".join(paragraph.split()))
        yield ".PP"
    context = command.make_context(name, [], resilient_parsing=True)
    for parameter in command.params:
        if parameter.param_type_name != "option":
            continue
        record = parameter.get_help_record(context)
        if record is not None:
            yield from (".TP", f".B {_text(record[0])}", _text(record[1]))


def _text(text: str) -> str:
    """Text in which man sees no macro, no escape and no hyphen where a minus is meant."""
    plain = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain[:1] in (".", "'") else plain
