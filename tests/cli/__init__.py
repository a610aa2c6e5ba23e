"""Runs the command line in a process of its own, as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import typer

from tests import forked


def run_cli(
    *arguments: str | Path, stdin: str | None = None, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The finished process with its text output; one that starts anew where ``env`` may change how it does."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("NCCL_INSIGHT_")}
    if env is None:
        return forked.run([*map(str, arguments)], environ, cwd, stdin, 120)
    return subprocess.run(
        [sys.executable, "-m", "nccl_insight", *map(str, arguments)],
        input=stdin, capture_output=True, text=True, timeout=120, cwd=cwd, env={**environ, **env}, check=False,
    )  # fmt: skip


def commands_of(app: typer.Typer) -> frozenset[str]:
    """Names of the commands of an application, groups included."""
    found = {c.name or getattr(c.callback, "__name__", "").replace("_", "-") for c in app.registered_commands}
    return frozenset(found | {str(group.name) for group in app.registered_groups if group.name})
