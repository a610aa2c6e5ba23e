"""``nccl-insight redact``: logs with hosts, addresses, users and paths replaced consistently."""

from __future__ import annotations

import json
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
        map_file: Path | None = typer.Option(
            None, "--map", metavar="FILE", help="Save what was replaced by what; keep it private."
        ),
    ) -> None:
        """Replace hosts, addresses, users and paths by stable names.

        The same name gets the same replacement in all files, so that the redacted logs give the same findings.
        Free text of other programs can hold names that no pattern finds: read before sharing.
        """
        from nccl_insight.cli.output import check_outputs
        from nccl_insight.inputs.spool import STDIN
        from nccl_insight.loading import load
        from nccl_insight.redact import NOT_PROMISED, binary, collect
        from nccl_insight.redact.files import blocks, is_text, write_redacted
        from nccl_insight.redact.residue import Residue
        from nccl_insight.report.sanitize import sanitize
        from nccl_insight.units import plural
        from nccl_insight.writing import writing, writing_directory

        if map_file is not None:
            if map_file.resolve().is_relative_to(output.resolve()):
                raise UsageError(
                    f"{map_file}: the map would be shared with the files; name a place outside {output}"
                )
            check_outputs(paths, [map_file])
        run = load(paths)
        texts = [f for f in run.inputs if is_text(f)]
        others = [f for f in run.inputs if f not in texts and binary.kind_of(f)]
        if not texts and not others:
            raise NotJudgedError(
                "no input is text, a database of a profiler or a pickle; nothing else can be redacted"
            )
        readers = [blocks(f) for f in texts] + [binary.texts_of(f) for f in others]
        redactor = collect(run, (block for reader in readers for block in reader))
        left = Residue()
        told: list[str] = []
        left_out: list[str] = []
        with writing_directory(output, [f.origin for f in run.inputs if f.origin]) as folder:
            for file in run.inputs:
                if file not in texts and file not in others:
                    left_out.append(f"{file.display} is binary and cannot be redacted.")
                    continue
                name = redactor.names.input_name(file.display)
                name = name if name not in ("-", STDIN) else "input.log"
                try:
                    if file in texts:
                        with (folder / name).open("xb") as out:
                            damage = write_redacted(file, redactor, out, name, left.add)
                    else:
                        damage = binary.write_redacted(file, redactor, folder / name)
                except binary.Unreadable as error:
                    left_out.append(f"{file.display}: {error}.")
                    continue
                told.append(f"{file.display} -> {output / name}")
                if damage:
                    told.append(f"Incomplete: {file.display}: {damage}")
        for line in told:
            typer.echo(line)
        if map_file is not None:
            with writing(map_file, private=True) as out_map:
                text = json.dumps(redactor.names.mapping(), indent=2, sort_keys=True) + "\n"
                out_map.write(text.encode("utf-8", "backslashreplace"))
        typer.echo(f"Replaced: {redactor.names.summary()}.")
        for line in left_out:
            typer.echo(f"Left out: {line}")
        for block in (block for f in others for block in binary.texts_of(f)):
            left.add(redactor.text(block))
        for word, count in left.words():
            typer.echo(f"Left, and looks like a name: {sanitize(word)} ({plural(count, 'time')})")
        typer.echo(f"Not promised: {NOT_PROMISED}.")
