"""What watch gives to other programs: JSON lines, a command for each event, OpenMetrics in a file or over HTTP."""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from nccl_insight.base.errors import UsageError
from nccl_insight.base.writing import writing
from nccl_insight.live.watch.progress import Event, Watch

_MOST_COMMS: Final = 1000
_MOST_RUNNING: Final = 16
_COMMAND_S: Final = 60.0
STATES: Final = ("starting", "running", "behind", "stalled", "failed", "ended")
_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def to_json(event: Event, time_text: str) -> str:
    """One event as a line of JSON; what is not known is left out. ``time_text``: UTC, ISO 8601."""
    said = {"time": time_text, "event": event.kind, "text": event.text, "comm_id": event.comm or None}
    whom = {"ranks": event.ranks or None, "hosts": event.hosts or None, "operation": event.operation, "of": event.of}
    since_s = None if event.since_s is None else round(event.since_s, 3)
    values: dict[str, Any] = {**said, **whom, "since_s": since_s, "next": event.commands or None}
    return json.dumps({key: value for key, value in values.items() if value is not None})


def to_openmetrics(state: Watch, now: float) -> str:
    """The state of the job: of communicators the thousand with the largest spread."""
    found: dict[str, tuple[str, list[tuple[str, float]]]] = {
        "job_state": (
            "1 for the state that the job is in.",
            [(f'{{state="{name}"}}', float(name == state.state)) for name in STATES],
        ),
        "warnings": ("Failure lines of NCCL and its surroundings that were seen.", [("", state.warnings)]),
    }
    for name, text, value in (
        ("step", "The newest training step.", state.step),
        ("step_seconds", "Seconds that one training step takes.", state.step_s),
        ("seconds_since_operation", "Seconds since any rank began an operation or a step.", state.since_s(now)),
    ):
        if value is not None:
            found[name] = (text, [("", value)])
    comms = sorted(
        ((name, comm) for name, comm in state.comms.items() if comm.ranks), key=lambda c: (-c[1].spread, c[0])
    )[:_MOST_COMMS]
    for name, text, of in (
        ("comm_operation", "The operation that the first rank is at.", lambda n, c: c.top),
        ("comm_spread", "Operations between the first and the last rank.", lambda n, c: c.spread),
        ("comm_seconds_since_operation", "Seconds since a rank began an operation.", lambda n, c: now - c.since),
        ("comm_ranks_behind", "Ranks that the others wait for.", lambda n, c: len(state.behind.get(n, ()))),
    ):
        found[name] = (text, [(f'{{comm="{_label(n)}"}}', float(of(n, c))) for n, c in comms])
    lines = []
    for name, (text, rows) in found.items():
        kind = "counter" if name == "warnings" else "gauge"
        lines += [f"# HELP nccl_insight_watch_{name} {text}", f"# TYPE nccl_insight_watch_{name} {kind}"]
        suffix = "_total" if kind == "counter" else ""
        lines += [f"nccl_insight_watch_{name}{suffix}{labels} {value:.10g}" for labels, value in rows]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


class Metrics:
    """OpenMetrics in a file, which is replaced whole at each look, or at ``http://[HOST:]PORT/metrics``.

    Raises UsageError: the port is taken or the file cannot be written.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._text = "# EOF\n"
        self._server: ThreadingHTTPServer | None = None
        self._path = Path(target)
        if port.isdigit() and "/" not in host:
            try:
                self._server = ThreadingHTTPServer((host.strip("[]") or "127.0.0.1", int(port)), self._handler())
            except (OSError, OverflowError) as error:
                raise UsageError(f"--metrics {target}: {getattr(error, 'strerror', None) or error}") from error
            threading.Thread(target=self._server.serve_forever, daemon=True).start()
        elif not self._path.parent.is_dir():
            raise UsageError(f"--metrics {target}: no such directory, and no port")

    @property
    def port(self) -> int | None:
        """The port that answers, if one does."""
        return None if self._server is None else self._server.server_address[1]

    def show(self, state: Watch, now: float) -> None:
        """Takes the state of a look."""
        self._text = to_openmetrics(state, now)
        if self._server is None:
            with writing(self._path) as out:
                out.write(self._text.encode())

    def close(self) -> None:
        """Frees the port."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        metrics = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                found = self.path.partition("?")[0] == "/metrics"
                body = metrics._text.encode() if found else b"/metrics\n"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", _TYPE if found else "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


class Command:
    """A command of the user that runs once for each event, with the event as JSON on its standard input.

    Raises UsageError: it cannot be found.
    """

    def __init__(self, text: str) -> None:
        try:
            self._argv = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"--exec {text!r}: {error}") from error
        if not self._argv or shutil.which(self._argv[0]) is None:
            raise UsageError(f"--exec {text!r}: {self._argv[0] if self._argv else 'nothing'} is no command")
        self._running: list[tuple[subprocess.Popen[bytes], threading.Timer]] = []

    def run(self, event: Event, line: str) -> Iterator[str]:
        """Starts it and goes on; what cannot be started is a line to show. It may run for a minute."""
        for process, timer in self._running:
            if process.poll() is not None:
                timer.cancel()
        self._running = [pair for pair in self._running if pair[0].returncode is None]
        if len(self._running) >= _MOST_RUNNING:
            yield f"--exec: {_MOST_RUNNING} commands still run; not started for {event.kind}"
            return
        try:
            own = {**os.environ, "NCCL_INSIGHT_EVENT": event.kind}
            pipe, none = subprocess.PIPE, subprocess.DEVNULL
            process = subprocess.Popen(self._argv, stdin=pipe, stdout=none, start_new_session=True, env=own)
        except OSError as error:
            yield f"--exec: {self._argv[0]}: {error.strerror or error}"
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):  # it need not read
            process.stdin.write(line.encode() + b"\n")
            process.stdin.close()
        timer = threading.Timer(_COMMAND_S, _kill, (process,))
        timer.daemon = True
        timer.start()
        self._running.append((process, timer))

    def close(self, wait_s: float = 10.0) -> None:
        """Waits for what runs; ends what does not end."""
        for process, timer in self._running:
            timer.cancel()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(wait_s)
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
