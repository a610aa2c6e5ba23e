"""Where tasks run that read inputs for a run: processes of a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final, Protocol

from nccl_insight.errors import UsageError

# Tasks whose worker died are run again so many times.
_RETRIES: Final = 5


class Workers(Protocol):
    """Runs functions elsewhere. A task whose worker dies is run again; what it gives can be passed to another task."""

    slots: int
    """How many tasks run at a time."""

    def start(self, function: Callable[..., bytes], *arguments: Any) -> Any:
        """Begins a task; gives a token for its result, which may be an argument of another task."""

    def result(self, token: Any) -> bytes:
        """What a task gave, when it is done."""

    def close(self) -> None:
        """Lets the workers go."""


class RayWorkers:
    """Tasks of a Ray cluster: the one of ``RAY_ADDRESS``, or one on this machine. Paths must mean the same everywhere.

    Raises:
        UsageError: Ray is not installed.
    """

    def __init__(self) -> None:
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

    def start(self, function: Callable[..., bytes], *arguments: Any) -> Any:
        """A task; its arguments may be tokens."""
        return self._ray.remote(function).options(max_retries=_RETRIES).remote(*arguments)

    def result(self, token: Any) -> bytes:
        """What the task gave."""
        data: bytes = self._ray.get(token)
        return data

    def close(self) -> None:
        """Ends a cluster that was started for this."""
        if self._own:
            self._ray.shutdown()
