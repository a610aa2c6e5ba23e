"""What an input is, and its rows by the reader of its kind."""

from collections.abc import Callable, Sequence
from typing import Final

from nccl_insight.base import late
from nccl_insight.base.data import dataclass
from nccl_insight.base.errors import InsightError, UsageError
from nccl_insight.inputs.chunks import Chunk, ChunkIndex, file_sha256
from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import Format, host_tools
from nccl_insight.readers.nccl_log.keep import Kept
from nccl_insight.readers.nccl_log.log import LogPart, neighbours, read_logs
from nccl_insight.readers.unreadable import FORMAT as UNREADABLE
from nccl_insight.readers.unreadable import failed
from nccl_insight.tables.run import Partial

LOG: Final = "nccl_log"
_LOG_HEAD: Final = late.compiled(
    rb"NCCL (?:INFO|WARN|TRACE|CALL|ABORT|DIAG|ATTN|ERROR|version)|RCCL version|\] (?:INFO|WARN) "
)


@dataclass(frozen=True)
class Part:
    """What one input gave: tables of a format, or a log."""

    file: InputFile
    kind: str
    index: ChunkIndex
    partial: Partial | None = None


def kind_of(file: InputFile, formats: Sequence[Format]) -> Format | None:
    """The format that is surest of an input, None for a log (which anything textual may be)."""
    head = file.head()
    scored = [(f.sniff(head, file.display), f) for f in formats]
    score, best = max(scored, key=lambda pair: pair[0], default=(0.0, None))
    if best is None or score < 0.5:
        return None
    return None if score < 0.9 and _LOG_HEAD.search(head) else best


def chosen_format(file: InputFile, formats: Sequence[Format], kind: str | None) -> Format | None:
    """The format by which an input is read: that of the kind where one is given; None for a log.

    Raises UsageError: no format is called that.
    """
    if kind is None or kind == "auto":
        return kind_of(file, formats)
    if kind == LOG or kind in host_tools.KINDS:
        return None
    for format_ in formats:
        if format_.kind == kind:
            return format_
    names = ", ".join(sorted({LOG, *host_tools.KINDS, *(f.kind for f in formats)}))
    raise UsageError(f"unknown input format {kind!r}; known: {names}")


def read_with(file: InputFile, format_: Format) -> Part:
    """An input by the reader of its format; ``unreadable`` where the reader fails."""
    index = ChunkIndex()
    index.sha256 = file_sha256(file)
    try:
        return Part(file, format_.kind, index, partial=format_.read(file))
    except (InsightError, MemoryError):
        raise
    except Exception as error:
        return Part(file, UNREADABLE.kind, index, partial=failed(file, format_.kind, error))


def read_log_groups(files: Sequence[InputFile], reader: Callable[[Chunk], Kept]) -> tuple[list[Part], list[LogPart]]:
    """Logs, small neighbors together."""
    parts = {file.input_id: Part(file, LOG, ChunkIndex()) for file in files}
    logs = [read_logs([(file, parts[file.input_id].index) for file in group], reader) for group in neighbours(files)]
    return list(parts.values()), logs
