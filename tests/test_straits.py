"""Every command in straits: full or closed outputs, a reader that goes, signals, few files, little memory, no home.

Each command meets some of the straits, each strait most of the commands; what must hold is the same for all: a
documented exit code, no traceback, and nothing left in the temporary directory.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.runs import TINY_SHM

COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "analyze": ("analyze", "{log}", "--isolated"),
    "json": ("analyze", "{log}", "--isolated", "--format", "json"),
    "page": ("analyze", "{log}", "--isolated", "-o", "{out}/page.html"),
    "bundle": ("analyze", "{log}", "--isolated", "--redact", "--bundle", "{out}/b.zip"),
    "input": ("analyze", "-", "--isolated"),
    "tables": ("tables", "{log}", "-o", "{out}/tables"),
    "query": ("query", "select * from inputs", "{log}"),
    "redact": ("redact", "{log}", "-o", "{out}/redacted"),
    "lint": ("lint", "{script}"),
    "explain-log": ("explain-log", "{log}"),
    "diff": ("diff", "{log}", "{log}"),
    "parse": ("parse", "{log}"),
    "explain": ("explain", "NI401"),
    "rules": ("rules",),
    "expect": ("expect", "--system", "dgx-h100", "--nodes", "2"),
    "why": ("why", "rank 0", "{log}"),
    "story": ("analyze", "{log}", "--isolated", "--format", "story"),
    "card": ("analyze", "{log}", "--isolated", "-o", "{out}/card.svg"),
    "record-env": ("record-env", "--symptom", "hang"),
    "replay": ("replay", "{log}"),
    "preflight": ("preflight",),
    "config": ("config", "show"),
    "manual": ("manual",),
    "coverage": ("grammar", "coverage", "{log}"),
    "explain-line": ("grammar", "explain-line", "NCCL INFO Connected all rings"),
    "grammar diff": ("grammar", "diff", "{out}"),
    "demo": ("demo",),
    "watch": ("watch", "{log}", "--for", "2", "--interval", "1"),
    "mcp": ("mcp", "--root", "{out}"),
    "capture": ("capture", "-o", "{out}/capture", "--", "true"),
}
#: Found nothing or something, wrong usage or an output that cannot be written, not judged; interrupted, pipe closed.
DOCUMENTED: Final = frozenset({0, 1, 2, 3, 130, 141})
_BEGUN_S: Final = 0.3
_TERMINATED: Final = frozenset({-signal.SIGTERM, 128 + signal.SIGTERM, -signal.SIGINT, -signal.SIGPIPE})


@dataclass(frozen=True)
class Strait:
    """What a shell does before a command starts, what the environment holds, and what happens afterwards."""

    before: str = ""
    environ: Mapping[str, str] = field(default_factory=dict)
    then: Callable[[subprocess.Popen[bytes]], object] = lambda process: None


def _worked_s(pid: int) -> float:
    """Seconds of the processor that a process has had; before its own code runs, Python itself answers signals."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return math.inf
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _signalled(number: int) -> Callable[[subprocess.Popen[bytes]], object]:
    def send(process: subprocess.Popen[bytes]) -> None:
        while process.poll() is None and _worked_s(process.pid) < _BEGUN_S:
            time.sleep(0.02)
        process.send_signal(number)

    return send


def _hang_up(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    process.stdout.close()


_NOWHERE: Final = {"HOME": "/nonexistent", "XDG_CONFIG_HOME": "/proc/1", "XDG_CACHE_HOME": "/proc/1"}
STRAITS: Final[Mapping[str, Strait]] = {
    "output closed": Strait("exec >&-"),
    "errors closed": Strait("exec 2>&-"),
    "output full": Strait("exec >/dev/full"),
    "reader gone": Strait(then=_hang_up),
    "few files": Strait("ulimit -n 24"),
    "little memory": Strait("ulimit -v 900000"),
    "no home": Strait(environ=_NOWHERE),
    "no terminal": Strait(environ={"TERM": "dumb", "LANG": "C", "COLUMNS": "1"}),
    "terminated": Strait(then=_signalled(signal.SIGTERM)),
    "interrupted": Strait(then=_signalled(signal.SIGINT)),
}
#: Three straits for each command, so that all meet most commands.
PAIRS: Final = [
    (command, strait)
    for at, command in enumerate(COMMANDS)
    for strait in [list(STRAITS)[(at + 3 * turn + at // len(STRAITS)) % len(STRAITS)] for turn in range(3)]
]


@pytest.mark.part(4)
@pytest.mark.parametrize(("command", "strait"), PAIRS)
def test_a_command_ends_in_order(tmp_path: Path, command: str, strait: str) -> None:
    way = STRAITS[strait]
    temporary, out, script = tmp_path / "tmp", tmp_path / "out", tmp_path / "job.sh"
    temporary.mkdir()
    out.mkdir()
    script.write_text("export NCCL_DEBUG=INFO\nsrun ./train\n")
    given = [part.format(log=TINY_SHM, out=out, script=script) for part in COMMANDS[command]]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("NCCL_INSIGHT_")}
    errors = tmp_path / "errors"
    shell = ["sh", "-c", f'{way.before or ":"}; exec "$@"', "sh", sys.executable, "-m", "nccl_insight", *given]
    with errors.open("wb") as said, TINY_SHM.open("rb") as stdin:
        process = subprocess.Popen(
            shell, stdin=stdin, stdout=subprocess.PIPE, stderr=said, start_new_session=True,
            env={**environ, "TMPDIR": str(temporary), **way.environ}, cwd=out,
        )  # fmt: skip
        way.then(process)
        assert process.stdout is not None
        if not process.stdout.closed:
            process.stdout.read()
            process.stdout.close()
        code = process.wait(600)
    text = errors.read_text(errors="replace")
    allowed = DOCUMENTED | _TERMINATED if strait in ("terminated", "interrupted", "reader gone") else DOCUMENTED
    # Neither an allocator of Rust nor glibc, which finds no room for a thread, gives way.
    if strait == "little memory" and code in (-signal.SIGABRT, 127):
        ends = (
            "memory allocation",
            "memory for thread-local data",
            "panic in a destructor during cleanup",
            "failed to register TLS destructor",
        )
        assert any(end in text for end in ends), text[-600:]
        return
    assert code in allowed, (code, text[-600:])
    assert "Traceback" not in text, text[-600:]
    assert list(temporary.iterdir()) == []


def test_each_strait_meets_several_commands() -> None:
    for strait in STRAITS:
        assert len({command for command, other in PAIRS if other == strait}) >= 3, strait


#: A command that is signalled where the interpreter cannot raise: in the callback of a weak reference.
_IN_A_CALLBACK: Final = """
import os, signal, sys, time, weakref
from nccl_insight import cli
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
class Lock: pass
def command(*_, **__):
    lock = Lock()
    seen = weakref.ref(lock, lambda _: os.kill(os.getpid(), int(sys.argv[1])))
    del lock
    time.sleep(60)
cli.build_app = lambda _: command
cli.run()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_a_signal_in_a_callback_is_not_lost(number: signal.Signals, code: int) -> None:
    given = [sys.executable, "-c", _IN_A_CALLBACK, str(int(number))]
    ended = subprocess.run(given, capture_output=True, text=True, timeout=50, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", "")
