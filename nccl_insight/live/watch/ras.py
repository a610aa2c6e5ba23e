"""The status that NCCL's RAS service gives (NCCL 2.24 and later): its client protocol over TCP.

Source: NCCL src/ras/client.cc and client_support.cc. Lines ``CLIENT PROTOCOL 2`` and, from 2.28.7, ``SET FORMAT json``
are each answered by a line; ``VERBOSE STATUS`` by the report, up to the end of the connection. Releases before answer
an unknown command with a line ``ERROR: ...`` and give their report as text.
"""

import socket
import time

from nccl_insight.base.errors import NotJudgedError, UsageError

PORT = 28028
_PROTOCOL = 2
_MOST_BYTES = 64 << 20
_LINE_BYTES = 4096


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of ``HOST``, ``HOST:PORT``, ``:PORT``, ``[ADDRESS]:PORT`` or an IPv6 address.

    Raises UsageError: the port is none.
    """
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    elif text.count(":") > 1:
        host, port = text, ""
    else:
        host, _, port = text.partition(":")
    if port and not (port.isdigit() and 0 < int(port) < 65536):
        raise UsageError(f"--ras {text!r}: {port!r} is not a port; write HOST:PORT (NCCL's default is {PORT})")
    return host or "localhost", int(port) if port else PORT


def status(host: str, port: int, timeout_s: float = 30.0) -> str:
    """The report of all communicators, as JSON where the service can, else as text.

    Raises NotJudgedError: nobody answers there, or not as NCCL does, or not in time.
    """
    limit = time.monotonic() + timeout_s
    where = f"RAS at {host}:{port}"
    try:
        with socket.create_connection((host, port), timeout_s) as link:
            link.sendall(f"CLIENT PROTOCOL {_PROTOCOL}\n".encode())
            answer = _read(link, limit, line=True)
            if not answer.upper().startswith("SERVER PROTOCOL"):
                raise NotJudgedError(f"{where}: this is not NCCL's RAS service (it says {answer.strip()[:60]!r})")
            link.sendall(b"SET FORMAT json\n")
            _read(link, limit, line=True)  # OK, or an error of a release that has only text
            link.sendall(b"VERBOSE STATUS\n")
            return _read(link, limit)
    except TimeoutError as error:
        raise NotJudgedError(f"{where}: no answer within {timeout_s:g} s") from error
    except OSError as error:
        raise NotJudgedError(
            f"{where}: {error.strerror or error}; does a job run there, with NCCL 2.24 or later and RAS not disabled?"
        ) from error


def _read(link: socket.socket, limit: float, line: bool = False) -> str:
    """All that comes until the other side ends, or one line of it."""
    found = bytearray()
    while len(found) < (_LINE_BYTES if line else _MOST_BYTES) and not (line and found.endswith(b"\n")):
        left = limit - time.monotonic()
        if left <= 0:
            raise TimeoutError
        link.settimeout(left)
        block = link.recv(1 if line else 65536)
        if not block:
            break
        found += block
    return found.decode("utf-8", "replace")
