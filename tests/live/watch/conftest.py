"""What tests of this folder are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.live.watch.watched import Service


@pytest.fixture
def serve() -> Iterator[Callable[..., Service]]:
    started: list[Service] = []

    def start(*args: Any, **more: Any) -> Service:
        started.append(Service(*args, **more))
        return started[-1]

    yield start
    for service in started:
        service.close()
