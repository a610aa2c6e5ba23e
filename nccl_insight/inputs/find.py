"""Finding inputs: files, directories, globs, URLs, archives, ``-`` and pipes become a numbered list, once."""

from __future__ import annotations

import contextlib
import glob
import io
import os
import stat
from collections.abc import Iterable, Iterator
from itertools import accumulate, islice
from pathlib import Path, PurePosixPath
from typing import IO, Final

from nccl_insight.base.data import dataclass, field, replace
from nccl_insight.base.errors import NotJudgedError, UsageError
from nccl_insight.base.threads import in_order
from nccl_insight.base.words import words
from nccl_insight.inputs import remote, temporary
from nccl_insight.inputs.archive import Budget, is_archive, is_bundle, is_zip, unpack
from nccl_insight.inputs.limits import DEFAULT, Limits
from nccl_insight.inputs.one_value import lines_within
from nccl_insight.inputs.spool import STDIN, Copy, downloaded, from_pipe, spool, standard_input
from nccl_insight.inputs.stream import Stream, checked, compression_of

HEAD_BYTES = 64 * 1024
NSYS_TEXTS: Final = "StringIds.parquet"
"""The file that stands for a parquet directory of Nsight Systems; other parquet files of directories are no inputs."""
_SMALL_BYTES = 16 * 1024 * 1024
_SMALL_PACKED_BYTES = 256 * 1024
_SKIPPED_SUFFIXES = frozenset(
    words(""".pyc .so .html .png .jpg .svg .pdf .py .md .toml .pt .pth .safetensors .whl .jar
    .npz .npy .parquet""")
)
# Zips hold anything; within a directory only those are opened that say that they are one.
_ZIP_SUFFIX: Final = ".zip"
_ARCHIVE_SUFFIXES: Final = (".zip", ".tar", ".tgz", ".tbz", ".tbz2", ".txz", ".tzst")
_TRANSFERS: Final = 8


@dataclass(frozen=True)
class InputFile:
    """One input: what is read is the same for every reader, for evidence, redaction and bundles.

    Attributes:
        input_id: number within the run.
        path: where the bytes are; a temporary copy for pipes, URLs and files of archives.
        display: the name shown to the user, printable whatever the bytes of the file's name.
        size_bytes: size as it lies on disk.
        compression: ``gzip``, ``zstd``, ``xz``, ``bzip2`` or nothing.
        origin: the file that the user named or that a directory held; None for standard input and pipes.
        damage: what is known to be wrong before anything was read.
        limits: how much of it is read.
        communication: regular expressions of kernel names that count as communication, beside those that are known.
        remote: the URL that is read in place, so that other machines can; ``path`` has nothing then.
        checked: whether a checksum would show damage: its own, or that of the archive that it comes from; ``None``
            where nothing of it is compressed.
    """

    input_id: int
    path: Path
    display: str
    size_bytes: int
    compression: str = ""
    origin: Path | None = None
    damage: str = ""
    limits: Limits = field(default=DEFAULT, repr=False)
    communication: tuple[str, ...] = field(default=(), repr=False)
    remote: remote.Remote | None = None
    checked: bool | None = None

    @property
    def small(self) -> bool:
        """Whether it is better read together with others than in chunks of its own."""
        return self.size_bytes <= (_SMALL_PACKED_BYTES if self.compression else _SMALL_BYTES)

    @property
    def temporary(self) -> bool:
        """Whether the bytes are a copy that only this process has."""
        return self.remote is None and (self.origin is None or self.path != self.origin)

    def open(self) -> Stream:
        """The decompressed bytes. Reading never raises; ``damage`` of the stream tells what was wrong."""
        return Stream(self.remote or self.path, self.compression, self.limits, self.damage)

    def raw(self) -> IO[bytes]:
        """The bytes as they lie on disk. Raises OSError."""
        return self.remote.open() if self.remote else self.path.open("rb")

    def head(self) -> bytes:
        """The first 64 KiB, decompressed; empty when nothing can be read."""
        with self.open() as stream:
            return stream.read(HEAD_BYTES)


@dataclass(frozen=True)
class _Found:
    path: Path
    display: str
    origin: Path | None
    damage: str = ""
    remote: remote.Remote | None = None
    packed: str = ""
    checked: bool | None = None

    @staticmethod
    def of(copy: Copy, display: str) -> _Found:
        return _Found(copy.path, display, None, copy.damage)


def shown(name: str | os.PathLike[str]) -> str:
    """A file name as text that can be printed and stored: bytes that are not UTF-8 become escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _walk(top: Path) -> Iterator[Path]:
    """Files below a directory in order, hidden ones left out; links to directories are not followed."""
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(n for n in folders if not n.startswith("."))
        for name in names:
            if not name.startswith("."):
                yield Path(folder, name)


def _listed(argument: str) -> Iterator[tuple[Path, bool]]:
    """Files that an argument names, archives unopened, and whether a directory gave them."""
    path = Path(argument)
    if path.is_dir():
        for child in sorted(_walk(path)):
            if (child.suffix.lower() not in _SKIPPED_SUFFIXES or child.name == NSYS_TEXTS) and child.is_file():
                yield child, True
        return
    if os.path.lexists(path):
        yield path, False
        return
    matches = sorted(glob.glob(argument, recursive=True)) if glob.has_magic(argument) else []
    if not matches:
        raise UsageError(f"{shown(argument)}: no such file or directory")
    for match in matches:
        if Path(match).is_dir():
            yield from _listed(match)
        else:
            yield Path(match), False


def _opened(
    found: _Found, within: bool, limits: Limits, depth: int = 1, budget: Budget | None = None
) -> Iterator[_Found]:
    """The file itself, or the files of the archive that it is. ``within``: a directory or an archive gave it."""
    if found.damage:
        yield found
        return
    if not is_archive(found.path):
        lines = lines_within(found.path)
        if lines is not None and found.path != found.origin:
            temporary.discard(found.path)
        yield found if lines is None else replace(found, path=lines, checked=_checked(found))
        return
    if within and is_zip(found.path):
        if found.path.suffix.lower() != _ZIP_SUFFIX:
            yield found
            return
        if depth == 1 and is_bundle(found.path):
            return  # a bundle beside its logs holds them once more
    if depth > limits.archive_depth:
        note = f"an archive within {limits.archive_depth} others (limit archive-depth); it was not opened"
        yield _Found(_nothing(), found.display, found.origin, note)
        return
    budget = budget or Budget(limits, found.path.stat().st_size)
    whole = is_zip(found.path) or _checked(found)
    for member in unpack(found.path, budget):
        inside = PurePosixPath(member.name)
        if member.name and ("/." in f"/{inside}" or inside.suffix.lower() in _SKIPPED_SUFFIXES):
            temporary.discard(member.path)
            continue
        display = f"{found.display}/{shown(member.name)}" if member.name else found.display
        inner = _Found(member.path, display, found.origin, member.damage, checked=whole)
        yield from _opened(inner, True, limits, depth + 1, budget)
    if found.path != found.origin:
        temporary.discard(found.path)


def _nothing() -> Path:
    path = temporary.place("nothing")
    path.touch()
    return path


def _readable(path: Path, display: str, limits: Limits) -> _Found:
    """A file as it is, a pipe as a copy. Raises UsageError: it is a device or a socket, or cannot be read."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            with path.open("rb"):
                return _Found(path, display, path)
        if stat.S_ISFIFO(mode):
            return _Found.of(from_pipe(path, display, limits), display)
        if stat.S_ISCHR(mode) and path.stat().st_rdev == os.stat(os.devnull).st_rdev:
            return _Found(_nothing(), display, None)
        if stat.S_ISCHR(mode):
            with path.open("rb") as stream:
                if stream.isatty():
                    return _Found.of(spool(stream, display, limits), display)
    except OSError as error:
        raise UsageError(f"{display}: cannot be read ({error.strerror or error})") from error
    raise UsageError(f"{display}: is a device or a socket, not a file or a pipe")


def _at_url(argument: str, limits: Limits, in_place: bool) -> Iterator[_Found]:
    """The files of a URL: copies, or as they are where other machines are to read them (archives are always copied).

    Raises UsageError: see :func:`nccl_insight.inputs.remote.listed`; a file that the argument names cannot be read.
    """
    wanted = (
        pair
        for pair in remote.listed(argument)
        if not pair[1] or PurePosixPath(pair[0].url).suffix.lower() not in _SKIPPED_SUFFIXES
    )
    pairs = list(islice(wanted, limits.files))
    most = limits.spool_mib << 20
    ends = accumulate(file.size_bytes or 0 for file, _ in pairs)
    refused = next((n for n, end in enumerate(ends) if end > most), len(pairs))

    def found(pair: tuple[remote.Remote, bool]) -> _Found:
        file, within = pair
        try:
            place = _in_place(file) if in_place else None
            if place is not None:
                return place
            copy = downloaded(file, most if file.size_bytes is None else file.size_bytes)
            return _Found.of(copy, shown(file.display))
        except OSError as error:
            if not within:
                raise UsageError(f"{shown(file.display)}: cannot be read ({error})") from error
            return _Found(_nothing(), shown(file.display), None, f"it cannot be read ({error})")

    kept = pairs if in_place else pairs[:refused]
    for (_, within), one in zip(kept, in_order(found, kept, _TRANSFERS, 8 * _TRANSFERS), strict=True):
        if one.remote is not None:
            yield one
        else:
            yield from _opened(one, within, limits)
    if len(kept) < len(pairs):
        note = f"the URL has more than {limits.spool_mib:,} MiB (limit spool-mib); the rest was not read"
        yield _Found(_nothing(), shown(pairs[len(kept)][0].display), None, note)


def _in_place(file: remote.Remote) -> _Found | None:
    """The file as it is, ``None`` where it has to be copied: it may be an archive, or its size is unknown."""
    name = PurePosixPath(file.display)
    if file.size_bytes is None or name.suffix.lower() in _ARCHIVE_SUFFIXES or ".tar" in name.suffixes:
        return None
    with file.open() as stream:
        head = stream.read(512)
    if head.startswith(b"PK\x03\x04") or head[257:262] == b"ustar":
        return None
    packed = compression_of(head)
    return _Found(Path(file.display), shown(file.display), None, "", file, packed, checked(io.BytesIO(head)))


def _expand(argument: str, limits: Limits, in_place: bool) -> Iterator[_Found]:
    if argument == "-":
        yield from _opened(_Found.of(standard_input(limits), STDIN), False, limits)
        return
    if remote.is_url(argument):
        yield from _at_url(argument, limits, in_place)
        return
    for path, within in _listed(argument):
        try:
            found = _readable(path, shown(path), limits)
        except UsageError as error:
            if not within:
                raise
            found = _Found(_nothing(), shown(path), path, str(error).partition(": ")[2])
        yield from _opened(found, within, limits)


def find_inputs(
    arguments: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    limits: Limits = DEFAULT,
    in_place: bool = False,
) -> list[InputFile]:
    """The inputs that the arguments name, numbered in order; a directory is one run of many files.

    Pipes, standard input and files behind URLs are copied and archives unpacked, so call it once a run. With
    ``in_place`` URLs are not copied: who reads them, on whatever machine, asks for what it needs.

    Raises:
        UsageError: a path does not exist or cannot be read.
        NotJudgedError: the arguments name no file.
    """
    if isinstance(arguments, (str, os.PathLike)):
        arguments = [arguments]
    inputs: list[InputFile] = []
    seen: set[tuple[int, int] | str] = set()
    for argument in arguments:
        for found in _expand(os.fspath(argument), limits, in_place):
            known, size, packed = _identity(found)
            if known in seen:
                continue
            seen.add(known)
            damage = found.damage
            if len(inputs) + 1 == limits.files:
                damage = f"there are more inputs than {limits.files:,} (limit files); the rest was not read"
            about = (found.path, found.display, size, packed, found.origin, damage, limits)
            proved = _checked(found) if packed else found.checked
            inputs.append(InputFile(len(inputs), *about, remote=found.remote, checked=proved))
            if len(inputs) == limits.files:
                return inputs
    if not inputs:
        raise NotJudgedError("no input files found; name a log, a trace or a directory that holds them")
    return inputs


def _identity(found: _Found) -> tuple[tuple[int, int] | str, int, str]:
    """What tells whether it was seen already, its size and its compression."""
    if found.remote is not None:
        return found.remote.url, found.remote.size_bytes or 0, found.packed
    status = found.path.stat()
    with found.path.open("rb") as raw:
        return (status.st_dev, status.st_ino), status.st_size, compression_of(raw.read(8))


def _checked(found: _Found) -> bool | None:
    """Whether a checksum covers the file: that of an archive around it, or its own."""
    if found.checked or found.remote is not None:
        return found.checked
    with found.path.open("rb") as raw:
        own = checked(raw)
    return found.checked if own is None else own


def fetched(file: InputFile) -> InputFile:
    """An input that is read in place as a copy of this process, for readers that need a file."""
    if file.remote is None:
        return file
    try:
        copy = downloaded(file.remote, file.size_bytes)
    except OSError as error:
        copy = Copy(_nothing(), f"it cannot be read ({error})")
    return replace(file, path=copy.path, damage=file.damage or copy.damage, remote=None)


def watched(arguments: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Identity, size and time of every file that the arguments name, without opening any: tells what changed."""
    found: dict[str, tuple[int, ...]] = {}
    for argument in arguments:
        with contextlib.suppress(UsageError):
            for path, _ in _listed(argument):
                with contextlib.suppress(OSError):
                    status = path.stat()
                    found[str(path)] = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    return found


def piped(arguments: Iterable[str]) -> bool:
    """Whether one of the arguments is a pipe, a device or a socket."""
    return any(Path(a).exists() and not Path(a).is_file() and not Path(a).is_dir() for a in arguments)


def discard(inputs: Iterable[InputFile]) -> None:
    """Removes the temporary copies of a run that is not needed any more."""
    for file in inputs:
        if file.temporary:
            temporary.discard(file.path)
