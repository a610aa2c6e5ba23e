"""Files that are known and cannot be read: what each one is, and the command that makes something readable of it.

Recognised by their first bytes, by the name only where the format has no mark of its own. A reader that learns one of
these formats takes it over by being surer of it than ``SURE``; its entry here then goes.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

import polars as pl

from nccl_insight.base import texts
from nccl_insight.base.data import dataclass
from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import Format
from nccl_insight.readers import side as _side
from nccl_insight.tables.run import Partial

SURE: Final = 0.93
# Less sure than a reader that knows the content, and than a line of NCCL in the head.
_GUESS: Final = 0.55
_TEXT_CONTROLS: Final = bytes(set(range(32)) - {7, 8, 9, 10, 12, 13, 27})
_BINARY_SHARE: Final = 0.02


@dataclass(frozen=True)
class Known:
    """A kind of file: ``what`` it is, ``why`` it is not read, ``command`` with ``{path}`` for the file."""

    test: Callable[[bytes, str], bool]
    what: str
    why: str
    command: str = ""


def _ends(*suffixes: str) -> Callable[[bytes, str], bool]:
    """The name ends so, and the content is no text."""
    return lambda head, name: name.lower().endswith(suffixes) and (not head or looks_binary(head))


def _starts(*magics: bytes) -> Callable[[bytes, str], bool]:
    return lambda head, name: head.startswith(magics)


def _core(head: bytes, name: str) -> bool:
    """An ELF file of type ET_CORE (4), in either byte order (elf.h)."""
    return head.startswith(b"\x7fELF") and head[16:18] in (b"\x04\x00", b"\x00\x04")


def _execution_trace(head: bytes, name: str) -> bool:
    """PyTorch's ExecutionTraceObserver writes ``"schema": "1.x.y-chakra.z"`` and a list of nodes, formerly without
    ``-chakra``, as ``execution_graph`` and with ``rf_id``."""
    start = head.lstrip()[:1] == b"{" and b'"traceEvents"' not in head
    nodes = b'"nodes"' in head and (b'"ctrl_deps"' in head or b'"rf_id"' in head or b"execution_graph" in head)
    return start and (nodes or bool(re.search(rb'"schema"\s*:\s*"[0-9.]+-chakra', head)))


def _chakra(head: bytes, name: str) -> bool:
    """A protocol buffer that begins with its global metadata, in which the version of the schema is
    ``1.x.y-chakra.z`` (chakra's et_def.proto); or a name that says so."""
    marked = b"schema" in head[:40] and re.search(rb"[0-9]\.[0-9.]{1,40}-chakra", head[:80])
    return (bool(marked) and head[:1] not in b"{[") or _ends(".et", ".chakra")(head, name)


def _memory_snapshot(head: bytes, name: str) -> bool:
    """torch.cuda.memory._dump_snapshot pickles a dictionary of segments and device_traces."""
    pickled = head[:1] == b"\x80" and head[1:2] <= b"\x05"
    return pickled and b"segments" in head and (b"device_traces" in head or b"total_size" in head)


def _known(key: str, test: Callable[[bytes, str], bool]) -> Known:
    return Known(test=test, **texts.of_file(__file__)[key])


_TESTS: Final[Mapping[str, Callable[[bytes, str], bool]]] = {
    "nsight-systems-report": _ends(".nsys-rep", ".qdrep"),
    "nsight-systems-raw-stream": _ends(".qdstrm"),
    "nsight-compute-report": lambda head, name: (
        head.startswith(b"NVR\0") or _ends(".ncu-rep", ".nsight-cuprof-report")(head, name)
    ),
    "rocm-profiler-database": lambda head, name: head.startswith(b"SQLite format 3\0") and b"rocpd_" in head,
    "perfetto-trace": _ends(".pftrace", ".perfetto-trace"),
    "chakra-execution-trace": _chakra,
    "pytorch-execution-trace": _execution_trace,
    "pytorch-memory-snapshot": _memory_snapshot,
    "core-dump": _core,
    "report-of-gpus-of-another-vendor": lambda head, name: bool(
        re.search(rb"npu-smi info|\| (?:npu|MX|HL)-(?:smi|SMI) |MetaX System Manag", head)
    ),
    "program-or-library": _starts(b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe"),
    "pytorch-checkpoint-or-zip-archive": lambda head, name: head.startswith(b"PK\x03\x04"),
    "numpy-array": _starts(b"\x93NUMPY"),
    "parquet-file": _starts(b"PAR1"),
    "hdf5-file": _starts(b"\x89HDF\r\n\x1a\n"),
    "image": _starts(b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8"),
    "pdf-document": _starts(b"%PDF-"),
    "xz": _starts(b"\xfd7zXZ\0"),
    "bzip2": _starts(b"BZh"),
}
KNOWN: Final = tuple(_known(key, test) for key, test in _TESTS.items())
_BINARY: Final = _known("binary", lambda *_: True)
_PICKLE: Final = _known("pickle", _starts(*(b"\x80" + bytes([n]) for n in range(2, 6))))


def looks_binary(head: bytes) -> bool:
    """Whether the first bytes are no text.

    Logs may start with NULs (a file that was cut while a process kept writing to it), hold single control bytes, or
    be UTF-16; none of these counts.
    """
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    body = head.lstrip(b"\0")
    if not body:
        return False
    odd = len(body) - len(body.translate(None, _TEXT_CONTROLS))
    if odd <= len(body) * _BINARY_SHARE:
        return False
    # UTF-16 without a mark: every second byte is NUL.
    half = body[: len(body) // 2 * 2]
    return not any(half[start::2].count(0) > 0.9 * len(half[start::2]) for start in (0, 1))


def known(head: bytes, name: str) -> Known | None:
    """What a file is, None for one that may be readable."""
    found = next((item for item in KNOWN if item.test(head, name)), None)
    if found is not None or not looks_binary(head):
        return found
    return _PICKLE if _PICKLE.test(head, name) else _BINARY


def sniff(head: bytes, name: str) -> float:
    """Sure of known kinds; a guess for other content that is no text."""
    found = known(head, name)
    if found is None:
        return 0.0
    return _GUESS if found in (_BINARY, _PICKLE) else SURE


def read(source: InputFile) -> Partial:
    """One row of ``unreadable``: what the file is, why it is not read, and the command."""
    found = known(source.head(), source.display) or _BINARY
    return _refused(source, found.what, found.why, found.command.replace("{path}", source.display))


def failed(source: InputFile, kind: str, error: Exception) -> Partial:
    """One row of ``unreadable`` for an input whose reader failed: it costs what it holds, never the run."""
    reason = str(error).splitlines()[0][:200] if str(error) else ""
    why = f"its reader failed ({type(error).__name__}{': ' if reason else ''}{reason}); please report this"
    return _refused(source, kind.replace("_", " "), why, "")


def _refused(source: InputFile, what: str, why: str, command: str) -> Partial:
    row = pl.DataFrame({"what": [what], "why": [why], "command": [command]})
    return Partial({"unreadable": _side.with_input(row, source.input_id)})


FORMAT = Format(kind="unreadable", sniff=sniff, read=read)
