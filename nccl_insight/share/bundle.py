"""One zip for a ticket: report, JSON, markdown, the logs (shortened when large) and checksums."""

import hashlib
import zipfile
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

from nccl_insight.base.model import Analysis
from nccl_insight.base.units import format_bytes
from nccl_insight.base.writing import writing
from nccl_insight.inputs.find import InputFile
from nccl_insight.inputs.spool import STDIN
from nccl_insight.report import html, json_, markdown
from nccl_insight.report.sanitize import scrub
from nccl_insight.share.redact import NOT_PROMISED, Redactor
from nccl_insight.share.redact.files import PACKED_SUFFIXES, Blocks, is_text
from nccl_insight.views.page import Page

_EDGE = 4 << 20
_EPOCH = (1980, 1, 1, 0, 0, 0)


def write(
    path: Path,
    analysis: Analysis,
    view: Page,
    files: Sequence[InputFile],
    redactor: Redactor | None = None,
    *,
    command: str | None = None,
) -> list[str]:
    """Writes the zip, atomically and with the same bytes for the same input; the names of its members.

    Args:
        path: the zip to write; an existing one is replaced.
        analysis: already redacted when ``redactor`` is given.
        view: already redacted when ``redactor`` is given.
        files: the inputs. Text goes in, of large ones the first and last 4 MiB, compressed ones as plain text.
        redactor: replaces names in the logs; None bundles them as they are.
        command: the command line to name, secrets masked.
    """
    if command is not None and redactor is not None:
        command = redactor.text(command)
    members: dict[str, bytes] = {
        "report.html": html.render(analysis, view, command=command).encode(),
        "analysis.json": json_.render(analysis).encode(),
        "ticket.md": markdown.render(analysis).encode(),
    }
    left_out = []
    damaged = []
    for file in files:
        own = "standard-input.log" if file.display == STDIN else Path(file.display).name
        name = f"input{file.input_id + 1}-{own}"
        if redactor:
            name = own if file.display == STDIN else redactor.names.input_name(file.display)
        if is_text(file):
            member = f"inputs/{_plain(_without_packing(name, file))}"
            members[member], damage = _shortened(file, redactor)
            if damage:
                damaged.append(f"{member} is incomplete: {damage}")
        else:
            left_out.append(f"{name} ({format_bytes(file.size_bytes)}): binary, cannot be redacted or read as text")
    members["README.txt"] = _readme(
        analysis, redactor, [*damaged, *(f"Left out: {item}" for item in left_out)], command
    ).encode()
    sums = [f"{hashlib.sha256(data).hexdigest()}  {name}" for name, data in sorted(members.items())]
    members["SHA256SUMS"] = ("\n".join(sums) + "\n").encode()
    _save(path, members)
    return sorted(members)


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c in "._-<>" else "_" for c in name).strip(".") or "input"


def _without_packing(name: str, file: InputFile) -> str:
    """The name of what is plain text in the bundle."""
    stem, _, suffix = name.rpartition(".")
    return stem if file.compression and suffix.lower() in PACKED_SUFFIXES and stem else name


def _shortened(file: InputFile, redactor: Redactor | None) -> tuple[bytes, str]:
    """The text of an input without the middle of a large one, and what is wrong with it."""
    head: list[bytes] = []
    tail: deque[bytes] = deque()
    size = held = tailed = 0
    text = Blocks(file)
    for block in text:
        data = (redactor.text(block) if redactor else block).encode("utf-8", "surrogateescape")
        size += len(data)
        if held < _EDGE:
            head.append(data[: _EDGE - held])
            held += len(head[-1])
            data = data[len(head[-1]) :]
        tail.append(data)
        tailed += len(data)
        while tailed - len(tail[0]) > _EDGE:
            tailed -= len(tail.popleft())
    last = b"".join(tail)[-_EDGE:]
    left = size - held - len(last)
    note = f"\n[... {left:,} bytes left out of the bundle ...]\n".encode() if left > 0 else b""
    return b"".join(head) + note + last, text.damage


def _readme(analysis: Analysis, redactor: Redactor | None, remarks: Iterable[str], command: str | None) -> str:
    tool = analysis.tool
    lines = [
        f"Made by {tool.name} {tool.version} (grammar {tool.grammar_hash}, schema {tool.schema_version}).",
        "report.html    open in any browser; needs no network",
        "analysis.json  the same for programs",
        "ticket.md      the same for pasting into a ticket",
        "inputs/        the logs; large ones have their first and last 4 MiB",
        "SHA256SUMS     check with: sha256sum -c SHA256SUMS",
    ]
    if command:
        lines.append(f"Command: {scrub(command)}")
    if redactor:
        lines += [f"Redacted: {redactor.names.summary()}.", f"Not promised: {NOT_PROMISED}."]
    else:
        lines.append("NOT redacted: hosts, addresses, users and paths are as in the inputs.")
    return "\n".join([*lines, *remarks]) + "\n"


def _save(path: Path, members: dict[str, bytes]) -> None:
    with writing(path) as out, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for member, data in sorted(members.items()):
            info = zipfile.ZipInfo(member, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, data)
