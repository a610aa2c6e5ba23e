"""Where tasks run that read inputs for a run: processes of a Ray cluster."""

import os
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

from nccl_insight.base.errors import UsageError

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

    def counts(self) -> tuple[int, int]:
        """How many tasks are done, of how many that were begun."""

    def close(self) -> None:
        """Lets the workers go."""


class RayWorkers:
    """Tasks of a Ray cluster: the one of ``RAY_ADDRESS``, or one on this machine. Paths must mean the same everywhere.

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
        """A task; its arguments may be tokens."""
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
