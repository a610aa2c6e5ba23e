"""Help texts."""

from __future__ import annotations

from nccl_insight.cli import build_app, choices
from tests.cli import commands_of

COMMANDS = commands_of(build_app())


def test_each_command_can_be_built_alone() -> None:
    assert choices.COMMANDS == COMMANDS
    for command in COMMANDS:
        assert command in commands_of(build_app(command))
    assert commands_of(build_app("analyze")) == {"analyze"}
