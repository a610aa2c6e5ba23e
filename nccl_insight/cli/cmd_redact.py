"""``nccl-insight redact``: logs with hosts, addresses, users and paths replaced consistently."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from nccl_insight.base import late
from nccl_insight.base.errors import ExitCode, NotJudgedError, UsageError
from nccl_insight.cli.choices import option

if TYPE_CHECKING:
    from nccl_insight.inputs.find import InputFile
    from nccl_insight.share.redact import Redactor
    from nccl_insight.share.redact.residue import Residue

# Names that redaction gives.
_OURS = late.compiled(r"(?:node|user|job|secret|word|input|id|/?dir|file)[0-9]+(?:\..*)?|(?:00|02)[0-9a-f:-]+")


def redact(
    paths: list[str] = option("redact PATH...|-", ...),
    output: Path | None = option("redact --output", None, "-o"),
    strict: bool = option("redact --strict", False),
    report: Path | None = option("redact --report", None),
    check: bool = option("redact --check", False),
    map_file: Path | None = option("redact --map", None),
) -> None:
    """Replace hosts, addresses, users and paths by stable names.

    The same name gets the same replacement in all files, so that the redacted logs give the same findings.
    Free text of other programs can hold names that no pattern finds: read before sharing.
    """
    from nccl_insight.base.writing import writing
    from nccl_insight.cli.output import check_outputs
    from nccl_insight.cli.redacting import write_review
    from nccl_insight.loading import load
    from nccl_insight.share.redact import NOT_PROMISED, binary, collect
    from nccl_insight.share.redact.files import Blocks, is_text
    from nccl_insight.share.redact.residue import Residue

    if check:
        raise typer.Exit(int(_looked_over(paths)))
    if output is None:
        raise UsageError("-o DIR is missing: where the redacted files go (or --check to look files over)")
    private = [file for file in (map_file, report) if file is not None]
    if shared := [file for file in private if file.resolve().is_relative_to(output.resolve())]:
        raise UsageError(f"{shared[0]}: it would be shared with the files; name a place outside {output}")
    check_outputs(paths, private)
    run = load(paths)
    texts = [f for f in run.inputs if is_text(f)]
    others = [f for f in run.inputs if f not in texts and binary.kind_of(f)]
    if not texts and not others:
        raise NotJudgedError("no input is text, a database of a profiler or a pickle; nothing else can be redacted")
    blocks = chain(chain.from_iterable(map(Blocks, texts)), chain.from_iterable(map(binary.texts_of, others)))
    redactor = collect(run, blocks, strict=strict)
    left = Residue()
    told, left_out = _copies(run.inputs, texts, others, redactor, output, left)
    if map_file is not None:
        with writing(map_file, private=True) as out_map:
            text = json.dumps(redactor.names.mapping(), indent=2, sort_keys=True) + "\n"
            out_map.write(text.encode("utf-8", "backslashreplace"))
    if report is not None:
        write_review(report, redactor)
    told += [f"Replaced: {redactor.names.summary()}.", *(f"Left out: {line}" for line in left_out)]
    for block in chain.from_iterable(map(binary.texts_of, others)):
        left.add(redactor.text(block))
    told += [f"Left, and looks like a name: {said}" for said in _words(left)]
    typer.echo("\n".join([*told, f"Not promised: {NOT_PROMISED}."]))


def _words(left: Residue) -> Iterator[str]:
    """Words that may be names, and how often each stands."""
    from nccl_insight.base.units import plural
    from nccl_insight.report.sanitize import sanitize

    return (f"{sanitize(word)} ({plural(count, 'time')})" for word, count in left.words())


def _copies(
    files: Sequence[InputFile], texts: Sequence[InputFile], others: Sequence[InputFile], redactor: Redactor,
    output: Path, left: Residue,
) -> tuple[list[str], list[str]]:  # fmt: skip
    """Writes the redacted files; what to tell of them, and of those that are left out."""
    from nccl_insight.base.writing import writing_directory
    from nccl_insight.inputs.spool import STDIN
    from nccl_insight.share.redact import binary
    from nccl_insight.share.redact.files import write_redacted

    told: list[str] = []
    left_out: list[str] = []
    with writing_directory(output, [f.origin for f in files if f.origin]) as folder:
        for file in files:
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
    return told, left_out


def _looked_over(paths: list[str]) -> ExitCode:
    """Prints what redaction would still replace or doubt in files; 1 when there is something."""
    from nccl_insight.base.units import plural
    from nccl_insight.loading import load
    from nccl_insight.report.sanitize import sanitize
    from nccl_insight.share.redact import collect
    from nccl_insight.share.redact.files import Blocks, is_text
    from nccl_insight.share.redact.residue import Residue

    run = load(paths)
    files = [file for file in run.inputs if is_text(file)]
    if not files:
        raise NotJudgedError("no input is text; nothing else can be looked over")
    redactor = collect(run, chain.from_iterable(map(Blocks, files)), strict=True)
    left = Residue()
    for block in chain.from_iterable(map(Blocks, files)):
        redactor.text(block)
        left.add(block)
    kinds = redactor.names.mapping().items()
    found = [(kind, n) for kind, names in kinds if kind != "inputs" for n in names if not _OURS.fullmatch(n)]
    for kind, name in found:
        typer.echo(f"{kind}: {sanitize(name)}")
    for word in _words(left):
        typer.echo(f"looks like a name: {word}")
    said = f"{plural(len(found), 'name')} in {plural(len(files), 'file')}."
    typer.echo(said if found else "Nothing that names somebody.")
    return ExitCode.FINDINGS if found else ExitCode.OK
