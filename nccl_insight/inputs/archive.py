"""Archives of one run (``capture --archive``, tarred log directories): unpacked to a temporary directory, bounded."""

from __future__ import annotations

import atexit
import contextlib
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from nccl_insight.errors import UsageError

_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst")
MAX_FILES = 20_000
MAX_BYTES = 32 << 30
_BLOCK = 1 << 20


def is_archive(path: Path) -> bool:
    """Whether the name is that of a tar archive."""
    return path.name.lower().endswith(_SUFFIXES)


def unpack(path: Path) -> Iterator[tuple[Path, str]]:
    """Regular files of the archive as (temporary file, name inside), in the archive's order.

    Links, devices, absolute names and names that leave the archive are passed over. A damaged archive gives the
    files before the damage and an empty one whose name says so. The temporary directory goes when the process ends.

    Raises:
        UsageError: the archive holds more than is read.
    """
    directory = Path(tempfile.mkdtemp(prefix="nccl-insight-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    files = 0
    try:
        for member, name in _members(path):
            files += 1
            target = directory / f"{files}" / (PurePosixPath(name).name or "x")
            target.parent.mkdir()
            with target.open("wb") as out:
                shutil.copyfileobj(member, out, _BLOCK)
            yield target, name
    except UsageError:
        raise
    except Exception as error:  # damage shows as TarError, EOFError, OSError, zlib.error or ZstdError
        if files == 0:
            raise UsageError(f"{path}: the archive is damaged ({error}); nothing could be read") from error
        note = directory / "damaged"
        note.touch()
        yield note, f"(the archive is damaged after file {files}; the rest is missing)"


def _members(path: Path) -> Iterator[tuple[IO[bytes], str]]:
    """Readable regular files of the archive."""
    count = total = 0
    with _opened(path) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            name = PurePosixPath(member.name)
            if not member.isreg() or name.is_absolute() or ".." in name.parts:
                continue
            count, total = count + 1, total + member.size
            if count > MAX_FILES or total > MAX_BYTES:
                raise UsageError(
                    f"{path}: more than {MAX_FILES:,} files or {MAX_BYTES >> 30} GiB; unpack it and name the files"
                )
            source = tar.extractfile(member)
            if source is not None:
                yield source, str(name)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """The tar stream, decompressed by what its first bytes say."""
    with path.open("rb") as raw:
        magic = raw.read(4)
        raw.seek(0)
        if magic[:2] == b"\x1f\x8b":
            import gzip

            with gzip.GzipFile(fileobj=raw) as plain:
                yield plain  # type: ignore[misc]
        elif magic == b"\x28\xb5\x2f\xfd":
            import zstandard

            with zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True) as stream:
                yield stream
        else:
            yield raw
