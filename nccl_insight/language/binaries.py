"""The formats that a compiled library can print: the strings of its read-only data that look like printf formats.

A shared library, or a wheel or archive that holds some. Nothing of it is run. A string table tells neither the level
nor the place of a message, and holds strings of other libraries that were linked in.
"""

import struct
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from nccl_insight.base import late
from nccl_insight.base.errors import NotJudgedError
from nccl_insight.language.sources import LogCall, Setting, Tree

_ELF: Final = b"\x7fELF"
_LIBRARY: Final = late.compiled(r"(?:^|/)lib(?:nccl|rccl|nccl-net[\w-]*|nccl-tuner[\w-]*)[\w.+-]*\.so[0-9.]*$")
_LIMIT_BYTES: Final = 2 << 30
_LONGEST: Final = 2000
_STRING: Final = late.compiled(rb"[\t\n\x20-\x7e]{10,2000}\x00")
_CONVERSION: Final = late.compiled(r"%[-+ #0]*(?:[0-9]+|\*)?(?:\.(?:[0-9]+|\*)?)?(?:hh|h|ll|l|z|j|t)?[diuxXopsfgc]")
# What a message of a library has and a path, a symbol, a shell command, usage text or a piece of a table has not.
_WORDS: Final = late.compiled(r"(?:[^A-Za-z]*(?!NCCL|DIAG|WARN|INFO|ATTN|CALL|TRACE)[A-Za-z]{2,}\b){3}")
_FOREIGN: Final = late.compiled(
    r"^[/{<]|^[%\w]*\.(?:cc|cpp|h|cu|so)\b|^_Z|::|terminate called|\bstd\b|\{\"|pthread|\$\(|^[ \t]|&&|lspci|nvidia-smi"
)
_VERSION: Final = late.compiled(rb"NCCL version ([0-9]+\.[0-9]+\.[0-9]+)")
_SETTING: Final = late.compiled(rb"\x00((?:NCCL|RCCL|OFI_NCCL)_[A-Z0-9_]{2,60})\x00")


def is_binary(path: Path) -> bool:
    """Whether a file is a library, a wheel or an archive that may hold one."""
    return path.is_file() and (
        path.name.endswith((".whl", ".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz")) or _starts(path) == _ELF
    )


def read_binary(path: Path) -> Tree:
    """Formats and settings of the libraries in a file.

    Raises NotJudgedError: no library of NCCL's kind is in it, or the file cannot be taken apart.
    """
    calls: dict[str, LogCall] = {}
    settings: dict[str, Setting] = {}
    version = ""
    try:
        for name, whole in _libraries(path):
            content = _constants(whole)
            for found in _STRING.finditer(content):
                text = found[0][:-1].decode("ascii")
                if _is_message(text):
                    calls.setdefault(text, LogCall(name, found.start(), "", "?", text, ()))
            named = (found[1].decode() for found in _SETTING.finditer(content))
            settings.update((s, Setting(s, "", name, 0)) for s in named)
            told = _VERSION.search(content)
            version = version or (told[1].decode() if told else "")
    except (OSError, zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        raise NotJudgedError(f"{path}: cannot be read as a library or an archive ({error})") from None
    if not calls:
        raise NotJudgedError(f"{path}: holds no libnccl, librccl or network plugin with messages")
    library = "rccl" if any("rccl" in c.file for c in calls.values()) else "nccl"
    ordered = tuple(sorted(settings.values(), key=lambda s: s.name))
    return Tree(library, version, tuple(calls.values()), ordered, 0)


def _starts(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(_ELF))


def _libraries(path: Path) -> Iterator[tuple[str, bytes]]:
    if _starts(path) == _ELF:
        with path.open("rb") as file:
            yield path.name, _whole(file, path.name)
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if _LIBRARY.search(name):
                    with archive.open(name) as entry:
                        yield name.rsplit("/", 1)[-1], _whole(entry, name)
    else:
        with tarfile.open(path) as tar:
            for member in tar:
                opened = tar.extractfile(member) if member.isfile() and _LIBRARY.search(member.name) else None
                if opened is not None:
                    yield member.name.rsplit("/", 1)[-1], _whole(opened, member.name)


def _whole(file: IO[bytes], name: str) -> bytes:
    content = file.read(_LIMIT_BYTES + 1)
    if len(content) > _LIMIT_BYTES:
        raise NotJudgedError(f"{name}: larger than {_LIMIT_BYTES >> 30} GiB")
    return content


def _constants(content: bytes) -> bytes:
    """The read-only data of a library, where its messages stand; everything where it does not tell its sections.

    What the debugger reads has names of constants that look like settings, and kernels are a hundred times as large.
    """
    parts: list[bytes] = []
    try:
        (at,) = struct.unpack_from("<Q", content, 0x28)
        size, count, names = struct.unpack_from("<HHH", content, 0x3A)
        strings = struct.unpack_from("<IIQQQQ", content, at + names * size)[4]
        for number in range(count):
            name, _, _, _, offset, length = struct.unpack_from("<IIQQQQ", content, at + number * size)
            if content.startswith(b".rodata", strings + name):
                parts.append(content[offset : offset + length])
    except struct.error:
        return content
    return b"\0".join([b"", *parts]) if parts else content


def _is_message(text: str) -> bool:
    return bool(
        len(text) <= _LONGEST
        and _CONVERSION.search(text)
        and _WORDS.search(_CONVERSION.sub(" ", text))
        and not _FOREIGN.search(text)
    )
