"""``nccl-insight redact``: logs with hosts, addresses, users and paths replaced consistently."""

from __future__ import annotations

import json
import os
from pathlib import Path

import typer

from nccl_insight.errors import NotJudgedError, UsageError


def register(app: typer.Typer) -> None:
    """Adds the command."""

    @app.command()
    def redact(
        paths: list[str] = typer.Argument(
            ..., metavar="PATH...|-", help="Logs, traces, directories, globs, or -."
        ),
        output: Path = typer.Option(
            ..., "--output", "-o", metavar="DIR", help="Directory for the redacted files."
        ),
        map_file: Path = typer.Option(
            None, "--map", metavar="FILE", help="Save what was replaced by what; keep it private."
        ),
    ) -> None:
        """Replace hosts, addresses, users and paths by stable names.

        The same name gets the same replacement in all files, so that the redacted logs give the same findings.
        Free text of other programs can hold names that no pattern finds: read before sharing.
        """
        from nccl_insight.inputs.find import find_inputs
        from nccl_insight.loading import load
        from nccl_insight.redact import NOT_PROMISED, collect
        from nccl_insight.redact.files import blocks, is_text, redacted_blocks

        if map_file is not None and map_file.resolve().is_relative_to(output.resolve()):
            raise UsageError(
                f"{map_file}: the map would be shared with the files; name a place outside {output}"
            )
        files = find_inputs(paths)
        texts = [f for f in files if is_text(f)]
        if not texts:
            raise NotJudgedError("no input is text; databases and pickles cannot be redacted")
        redactor = collect(load(paths), (block for file in texts for block in blocks(file)))
        try:
            output.mkdir(parents=True, exist_ok=True)
            for file in texts:
                name = redactor.input_name(file.display)
                target = output / (name if name not in ("-", "<stdin>") else "input.log")
                part = target.with_name(f".{target.name}.part")
                with part.open("wb") as out:
                    for block in redacted_blocks(file, redactor):
                        out.write(block)
                os.replace(part, target)
                typer.echo(f"{file.display} -> {target}")
            if map_file is not None:
                descriptor = os.open(map_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as out_map:
                    json.dump(redactor.mapping(), out_map, indent=2, sort_keys=True)
                    out_map.write("\n")
        except OSError as error:
            raise UsageError(f"{error.filename or output}: cannot be written ({error.strerror})") from error
        typer.echo(f"Replaced: {redactor.summary()}.")
        for file in files:
            if file not in texts:
                typer.echo(f"Left out: {file.display} is binary and cannot be redacted.")
        typer.echo(f"Not promised: {NOT_PROMISED}.")
