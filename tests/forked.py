"""The command line in a process of its own, forked from one that has imported all: imports are most of a short command.

What a process reads before its first line (variables of the interpreter, extensions on its path) is that of the tests.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import socket
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path

_REQUEST_MOST = 1 << 20
# Modules of processes of their own, and of packages that may not be there.
_LEFT_OUT = ("nccl_insight.live.capture", "nccl_insight.share.agents", "nccl_insight.live.preflight.nvml")
_LEFT_OUT += ("nccl_insight.__main__", "nccl_insight.live.preflight.burn")


def serve(fd: int) -> None:
    """Runs a command for each request, with the streams that come with it, and answers with its exit code."""
    import nccl_insight
    from nccl_insight import cli
    from nccl_insight.language.catalog import default_catalog
    from nccl_insight.rules import discover

    for module in pkgutil.walk_packages(nccl_insight.__path__, "nccl_insight."):
        if not module.name.startswith(_LEFT_OUT):
            importlib.import_module(module.name)
    discover()
    default_catalog()
    gc.freeze()
    with socket.socket(fileno=fd) as asked:
        while True:
            request, streams, _, _ = socket.recv_fds(asked, _REQUEST_MOST, 3)
            if not request:
                return
            child = os.fork()
            if child == 0:
                break
            for stream in streams:
                os.close(stream)
            asked.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.argv, folder, environ = json.loads(request)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    cli.run()


@cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _REQUEST_MOST)
    program = f"from tests.forked import serve; serve({theirs.fileno()})"
    root = str(Path(__file__).parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    server = subprocess.Popen(
        [sys.executable, "-c", program], pass_fds=[theirs.fileno()], env={**os.environ, "PYTHONPATH": path}
    )
    theirs.close()

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours


def run(
    arguments: list[str], environ: dict[str, str], cwd: Path | None, stdin: str | None, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """The finished command with its text output."""
    server = _server()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        reading, writing = os.pipe()

        def feed() -> None:
            with open(writing, "w", encoding="utf-8") as pipe:
                try:
                    pipe.write(stdin or "")
                    pipe.flush()
                except BrokenPipeError:
                    pipe.detach()

        request = json.dumps([["nccl-insight", *arguments], str(cwd or Path.cwd()), environ]).encode()
        try:
            socket.send_fds(server, [request], [reading, out.fileno(), err.fileno()])
        finally:
            os.close(reading)
        feeder = threading.Thread(target=feed)
        feeder.start()
        if not select.select([server], [], [], timeout_s)[0]:
            raise subprocess.TimeoutExpired(arguments, timeout_s)
        code = int(server.recv(99))
        feeder.join()
        shown = [(stream.seek(0), stream.read().decode())[1] for stream in (out, err)]
    return subprocess.CompletedProcess(arguments, code, *shown)
