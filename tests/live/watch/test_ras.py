"""The status that NCCL's RAS service gives (NCCL 2.24 and later)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

from nccl_insight.base.errors import NotJudgedError, UsageError
from nccl_insight.live.watch import ras
from tests.live.watch.watched import Clock, Service, report, watched


def test_a_service_that_goes_away_and_one_that_is_none(serve: Callable[..., Service]) -> None:
    service = serve([report([1, 1])])

    def stop() -> None:
        service._listener.shutdown(socket.SHUT_RDWR)
        service.close()

    lines, state = watched([], ("127.0.0.1", service.port), 60, Clock({2: stop}))
    assert lines[0].startswith("+10 RAS at 127.0.0.1:")
    assert "the job may have ended" in lines[0]
    assert lines[1:] == ["+15 the job has ended: RAS does not answer any more"]
    assert not state.troubled
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        with pytest.raises(NotJudgedError, match="does a job run there"):
            ras.status("127.0.0.1", probe.getsockname()[1])


def test_something_else_on_the_port() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def greet() -> None:
        link, _ = listener.accept()
        with link:
            link.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
            link.recv(100)

    threading.Thread(target=greet, daemon=True).start()
    with pytest.raises(NotJudgedError, match="not NCCL's RAS"):
        ras.status("127.0.0.1", listener.getsockname()[1])
    listener.close()


def test_a_service_that_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(NotJudgedError, match="no answer within"):
        ras.status("127.0.0.1", listener.getsockname()[1], timeout_s=0.2)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", ("localhost", 28028)), ("gpu07", ("gpu07", 28028)), ("gpu07:4000", ("gpu07", 4000)),
        (":4000", ("localhost", 4000)), ("[fd00::1]:4000", ("fd00::1", 4000)), ("fd00::1", ("fd00::1", 28028)),
    ],
)  # fmt: skip
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert ras.parse_address(text) == address


def test_an_address_without_a_port() -> None:
    with pytest.raises(UsageError):
        ras.parse_address("gpu07:x")
