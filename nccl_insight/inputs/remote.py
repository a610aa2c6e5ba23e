"""Inputs by URL: whatever fsspec has a file system for (``s3://``, ``gs://``, ``https://``, ``hdfs://`` ...).

fsspec comes with the extra ``remote``; the driver of a kind of URL (s3fs, gcsfs, adlfs ...), its configuration and its
credentials are the user's. Nothing here runs unless an argument is a URL, and nothing but that URL is asked for: over
HTTP one file, elsewhere also what a folder or a pattern of it holds.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from nccl_insight.base import late
from nccl_insight.base.data import dataclass
from nccl_insight.base.errors import UsageError

_URL: Final = late.compiled(r"[A-Za-z][A-Za-z0-9+.-]*(?:::[A-Za-z][A-Za-z0-9+.-]*)*://")
_WEB: Final = ("http", "https")
_PATTERN: Final = late.compiled(r"[*?\[]")
_USER: Final = late.compiled(r"(://)[^/@\s]*@")
_SECRET: Final = late.compiled(r"(://[^\s?#'\"]*)[?#][^\s'\"]*")
_MESSAGE: Final = 200


@dataclass(frozen=True)
class Remote:
    """A file behind a URL: ``size_bytes`` is None where its server does not say."""

    url: str
    size_bytes: int | None

    @property
    def display(self) -> str:
        """The URL without user names, passwords and signatures."""
        return clean(self.url)

    def open(self) -> io.BufferedReader:
        """Its bytes, from the beginning; seeking asks for other ranges.

        Raises OSError: it cannot be read; other errors of a driver become this one.
        """
        try:
            return io.BufferedReader(_Raw(*_files(self.url)), 1 << 20)
        except UsageError as error:
            raise OSError(str(error).partition(": ")[2] or str(error)) from error


class _Raw(io.RawIOBase):
    """A file of a driver whose every error is an OSError."""

    def __init__(self, files: Any, path: str) -> None:
        super().__init__()
        self._file: Any = None
        with _told():
            self._file = files.open(path, "rb")

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """As far as the driver can."""
        return bool(self._file.seekable())

    def readinto(self, buffer: Any) -> int:
        """Fills as much of the buffer as is there."""
        view = memoryview(buffer).cast("B")
        with _told():
            data: bytes = self._file.read(len(view))
        view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Goes to a byte."""
        with _told():
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        """Where it is."""
        return int(self._file.tell())

    def close(self) -> None:
        """Ends the transfer."""
        if self._file is not None:
            self._file.close()
        super().close()


@contextmanager
def _told() -> Iterator[None]:
    """Turns whatever a driver raises into an OSError of one line."""
    try:
        yield
    except Exception as error:
        raise OSError(_reason(error)) from error


def is_url(argument: str) -> bool:
    """Whether an argument is a URL and no path."""
    return _URL.match(argument) is not None


def clean(url: str) -> str:
    """A URL, or a text with URLs, without what can give access: user, password, query, fragment."""
    return _SECRET.sub(r"\1", _USER.sub(r"\1", url))


def listed(url: str) -> Iterator[tuple[Remote, bool]]:
    """Files that a URL names, in order, and whether a folder gave them.

    Raises UsageError: fsspec or the driver is missing, nothing is there, or there is no access.
    """
    try:
        yield from _listed(url)
    except UsageError:
        raise
    except Exception as error:  # drivers raise errors of their own libraries
        _refuse(url, error)


def _listed(url: str) -> Iterator[tuple[Remote, bool]]:
    files, path = _files(url)
    if _protocol(url) in _WEB:
        # Listing would follow the links of a page; a pattern cannot be told from a query.
        yield Remote(url, _size(files.info(path))), False
        return
    try:
        info = files.info(path)
    except FileNotFoundError:
        if not _PATTERN.search(path):
            raise
        matches = files.glob(path, detail=True)
        if not matches:
            raise
        for name in sorted(matches):
            yield from _below(files, matches[name], False)
        return
    yield from _below(files, info, False)


def _below(files: Any, info: dict[str, Any], within: bool) -> Iterator[tuple[Remote, bool]]:
    if info.get("type") != "directory":
        yield Remote(files.unstrip_protocol(info["name"]), _size(info)), within
        return
    top = info["name"].rstrip("/") + "/"
    found = files.find(info["name"], detail=True)
    for name in sorted(found):
        inner = name.removeprefix(top)
        if not any(part.startswith(".") for part in inner.split("/")) and found[name].get("type") == "file":
            yield Remote(files.unstrip_protocol(name), _size(found[name])), True


def _size(info: dict[str, Any]) -> int | None:
    size = info.get("size")
    return size if isinstance(size, int) and size >= 0 and not info.get("partial") else None


def _protocol(url: str) -> str:
    return url.partition("://")[0].lower()


def _files(url: str) -> tuple[Any, str]:
    """The file system of a URL and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{clean(url)}: reading URLs needs fsspec: pip install 'nccl-insight[remote]', and its driver of "
            f"{_protocol(url)}://"
        ) from error
    try:
        files, path = url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise UsageError(f"{clean(url)}: no driver of {_protocol(url)}:// is installed ({_reason(error)})") from error
    except Exception as error:
        _refuse(url, error)
    return files, str(path)


def _refuse(url: str, error: Exception) -> NoReturn:
    if isinstance(error, FileNotFoundError):
        raise UsageError(f"{clean(url)}: no such file or directory") from error
    if isinstance(error, PermissionError):
        raise UsageError(f"{clean(url)}: no access ({_reason(error)})") from error
    raise UsageError(f"{clean(url)}: cannot be read ({_reason(error)})") from error


def _reason(error: BaseException) -> str:
    text = clean(" ".join(str(error).split()))[:_MESSAGE]
    return text or type(error).__name__
