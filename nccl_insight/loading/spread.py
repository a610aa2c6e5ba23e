"""Reading on several workers: inputs cut into shares, whose rows are joined again in their order."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from nccl_insight.base.errors import UsageError
from nccl_insight.inputs.chunks import file_sha256
from nccl_insight.inputs.find import InputFile, discard, fetched
from nccl_insight.loading.reading import LOG, Part, chosen_format, read_with
from nccl_insight.readers import Format, discover
from nccl_insight.readers.nccl_log import shares
from nccl_insight.readers.nccl_log.log import LogPart, neighbours
from nccl_insight.readers.nccl_log.shares import Share, Taken

Watch: TypeAlias = "Callable[[Callable[[], tuple[int, int]] | None], None]"
# Bytes that one task of another process reads, and how many results one joins.
_SHARE_LEAST: Final = 32 * 1024 * 1024
_SHARE_MOST: Final = 256 * 1024 * 1024
_GROUP_MOST: Final = 1024
_JOINED_AT_ONCE: Final = 4
# Tasks whose worker died are run again so many times.
_RETRIES: Final = 5


class RayWorkers:
    """Tasks of a Ray cluster: the one of ``RAY_ADDRESS``, or one on this machine. Paths must mean the same everywhere.
    ``slots``: how many run at a time. A task whose worker dies is run again.

    ``counted``: somebody asks for :meth:`counts` now and then. Raises UsageError: Ray is not installed.
    """

    def __init__(self, counted: bool = False) -> None:
        self._guard = threading.Lock()
        # A cluster that this process starts reports nothing to anybody.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ModuleNotFoundError as error:
            raise UsageError("--engine ray needs Ray: pip install 'nccl-insight[ray]'") from error
        self._ray = ray
        self._own = not ray.is_initialized()
        if self._own:
            ray.init(log_to_driver=False, logging_level="ERROR")
        self.slots = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._counted = counted
        self._running: list[Any] = []
        self._begun = 0

    def start(self, function: Callable[..., bytes], *arguments: Any) -> Any:
        """Begins a task; gives a token for its result, which may be an argument of another task."""
        token = self._ray.remote(function).options(max_retries=_RETRIES).remote(*arguments)
        if self._counted:  # a token that is kept keeps the result
            with self._guard:
                self._begun += 1
                self._running.append(token)
        return token

    def counts(self) -> tuple[int, int]:
        """Tasks that are done, of those begun; without ``counted`` none of none."""
        with self._guard:
            if self._running:
                most = len(self._running)
                _, self._running = self._ray.wait(self._running, num_returns=most, timeout=0, fetch_local=False)
            return self._begun - len(self._running), self._begun

    def result(self, token: Any) -> bytes:
        """What the task gave."""
        data: bytes = self._ray.get(token)
        return data

    def close(self) -> None:
        """Ends a cluster that was started for this."""
        if self._own:
            self._ray.shutdown()


def _spread(
    workers: RayWorkers, files: Sequence[InputFile], kind: str | None, details: bool, share_bytes: int | None = None
) -> tuple[list[Part], list[LogPart], int]:
    """Reads inputs with tasks of other processes; what they give is joined there too, as a tree.

    ``share_bytes``: about how much a task reads. Gives, besides parts and logs, how many bytes came back.
    """
    size = share_bytes or _share_bytes(files, workers.slots)
    received = 0

    def fetch(token: Any) -> Any:
        nonlocal received
        if isinstance(token, Taken):  # read here
            return token
        data = workers.result(token)
        received += len(data)
        return shares.unpacked(data)

    chosen = _formats(workers, files, kind, size, fetch)
    logs = [file for file in files if chosen[file.input_id] is None]
    begun = [(group, _begin(workers, group, details, size)) for group in neighbours(logs)]
    digests = {file.input_id: workers.start(_digest, file) for file in logs if not file.small and not file.temporary}
    traces = [(file, format_) for file in files if (format_ := chosen[file.input_id]) is not None]
    far = [workers.start(_trace, file, kind) for file, _ in traces if not file.temporary]
    parts = [read_with(file, format_) for file, format_ in traces if file.temporary]
    parts += map(fetch, far)
    read: list[LogPart] = []
    for group, tokens in begun:
        taken = shares.join(list(map(fetch, tokens)), final=True)
        read.append(taken.log)
        for file in group:
            index = taken.indexes[file.input_id]
            if file.input_id in digests and not index.sha256:
                index.sha256 = fetch(digests[file.input_id])
            parts.append(Part(file, LOG, index))
    return sorted(parts, key=lambda part: part.file.input_id), read, received


def _formats(
    workers: RayWorkers, files: Sequence[InputFile], kind: str | None, size: int, fetch: Callable[[Any], Any]
) -> dict[int, Format | None]:
    """What each input is, None for logs; what only this process can read is looked at here."""
    formats = discover()
    far = _groups([file for file in files if not file.temporary], size)
    asked = [(group, workers.start(_kinds, group, kind)) for group in far]
    chosen = {f.input_id: chosen_format(f, formats, kind) for f in files if f.temporary}
    for group, token in asked:
        numbers = fetch(token)
        chosen.update((f.input_id, None if n < 0 else formats[n]) for f, n in zip(group, numbers, strict=True))
    return chosen


def _share_bytes(files: Sequence[InputFile], slots: int) -> int:
    """Several shares for each worker, so that all end about together; none so small that starting it counts."""
    total = sum(file.size_bytes for file in files)
    return max(_SHARE_LEAST, min(_SHARE_MOST, total // (4 * slots)))


def _groups(files: Sequence[InputFile], size: int) -> Iterator[list[InputFile]]:
    """Files in their order, by at most so many and about so many bytes."""
    group: list[InputFile] = []
    held = 0
    for file in files:
        group.append(file)
        held += file.size_bytes
        if held >= size or len(group) >= _GROUP_MOST:
            yield group
            group, held = [], 0
    if group:
        yield group


def _begin(workers: RayWorkers, files: Sequence[InputFile], details: bool, size: int) -> list[Any]:
    """Tasks that read logs, and tasks that join what those give, until one is left: all in the order of the files.

    What only this process can read is read by it at once.
    """
    if any(file.temporary for file in files):
        return [shares.take(share, details) for share in shares.shares(files, size)]
    tokens: list[Any] = [workers.start(_take, share, details) for share in shares.shares(files, size)]
    while len(tokens) > 1:
        tokens = [
            workers.start(_join_taken, *tokens[n : n + _JOINED_AT_ONCE]) for n in range(0, len(tokens), _JOINED_AT_ONCE)
        ]
    return tokens


def _kinds(files: Sequence[InputFile], kind: str | None) -> bytes:
    formats = discover()
    found = [chosen_format(file, formats, kind) for file in files]
    return shares.packed([-1 if format_ is None else formats.index(format_) for format_ in found])


def _digest(file: InputFile) -> bytes:
    return shares.packed(file_sha256(file))


def _trace(file: InputFile, kind: str | None) -> bytes:
    format_ = chosen_format(file, discover(), kind)
    assert format_ is not None
    own = fetched(file)
    part = read_with(own, format_)
    discard([own] if own is not file else [])
    return shares.packed(replace(part, file=file))


def _take(share: Share, details: bool) -> bytes:
    return shares.packed(shares.take(share, details, workers=1))


def _join_taken(*parts: bytes) -> bytes:
    return shares.packed(shares.join([_taken(part) for part in parts]))


def _taken(part: bytes) -> Taken:
    taken = shares.unpacked(part)
    assert isinstance(taken, Taken)
    return taken


def read_on_ray(
    files: Sequence[InputFile], kind: str | None, details: bool, watch: Watch | None = None
) -> tuple[list[Part], list[LogPart]]:
    """Inputs read on a Ray cluster, see :class:`RayWorkers`. Raises UsageError: Ray is not installed."""
    workers = RayWorkers(counted=watch is not None)
    if watch is not None:
        watch(workers.counts)
    try:
        parts, logs, _ = _spread(workers, files, kind, details)
    finally:
        if watch is not None:
            watch(None)
        workers.close()
    return parts, logs
