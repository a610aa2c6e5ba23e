"""A node under load: products and memory of all GPUs at once, and each RDMA port against itself (perftest)."""

import contextlib
import math
import re
import shutil
import socket
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from nccl_insight.base.objects import object_of
from nccl_insight.base.units import plural
from nccl_insight.live.capture.processes import Task, run_group
from nccl_insight.live.preflight.fabric import Port, compute_ports
from nccl_insight.live.preflight.model import Check, Status, check_of

_BURN: Final = Path(__file__).with_name("burn.py")
_PERFTEST: Final = "ib_write_bw"
_MESSAGE_BYTES: Final = 8 << 20
#: A cold start of torch, and of a connection.
_START_S, _CONNECT_S = 60.0, 15.0
#: Shares of what the others do, and of the rate of a port, that count as less.
_LESS_COMPUTE, _LESS_RATE = 0.9, 0.8
_LEAST: Final = 3
#: The server of a pair of programs listens by then.
_LISTENS_S: Final = 1.0


def stress_checks(
    devices: Sequence[str], ports: Sequence[Port], seconds: float, environ: Mapping[str, str]
) -> Iterator[Check]:
    """All GPUs (``cuda:0`` ...) for some seconds, then port after port."""
    with tempfile.TemporaryDirectory(prefix="nccl-insight-stress-") as directory:
        yield from _burned(devices, seconds, environ, Path(directory))
        yield from _looped(compute_ports(list(ports)), environ, Path(directory))


def _burned(devices: Sequence[str], seconds: float, environ: Mapping[str, str], directory: Path) -> Iterator[Check]:
    if not devices or find_spec("torch") is None:
        yield Check("burn", Status.SKIP, "needs torch and a GPU")
        return
    tasks = [
        Task(device, (sys.executable, str(_BURN), device, str(seconds)), environ, directory / f"burn.{number}")
        for number, device in enumerate(devices)
    ]
    done = run_group(tasks, seconds + _START_S, straggle_s=seconds + _START_S)
    told = {task.name: _told(task.output) for task in tasks}
    yield from burn_checks(told, [ended.name for ended in done.children if ended.killed], seconds)


def _told(output: Path | None) -> dict[str, Any]:
    """The last line of a child that is JSON; empty if there is none."""
    text = output.read_text("utf-8", "replace") if output is not None and output.exists() else ""
    return next(filter(None, map(object_of, reversed(text.splitlines()))), {})


def _rates(told: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    for device, one in told.items():
        with contextlib.suppress(LookupError, TypeError, ValueError, OverflowError):  # a line of something else
            if math.isfinite(rate := float(one["tflops"])):
                yield device, rate


def burn_checks(told: Mapping[str, Mapping[str, Any]], killed: Sequence[str], seconds: float) -> Iterator[Check]:
    """What the burn of each device says: wrong results, no end, less than the others."""
    wrong = [device for device, one in told.items() if one.get("words") or one.get("wrong")]
    rates = dict(_rates(told))
    silent = [device for device in told if device not in rates and device not in killed]
    usual = statistics.median(rates.values()) if len(rates) >= _LEAST else 0.0
    slow = [device for device, rate in rates.items() if rate < _LESS_COMPUTE * usual]
    if wrong:
        yield check_of("burn-wrong", devices=", ".join(wrong))
    if killed:
        yield check_of("burn-hung", devices=", ".join(killed), seconds=seconds)
    if silent:
        why = str(told[silent[0]].get("failed") or "it ended silently")
        yield check_of("burn-failed", devices=", ".join(silent), why=why)
    if slow:
        shown = ", ".join(f"{device} {rates[device]:.3g}" for device in slow)
        yield check_of("burn-slow", shown=shown, usual=usual)
    if rates and not [*wrong, *killed, *silent, *slow]:
        shown = f"{min(rates.values()):.3g} to {max(rates.values()):.3g} TFLOP/s, no wrong product, no wrong word"
        yield Check("burn", Status.PASS, f"{plural(len(rates), 'device')} for {seconds:g} s: {shown}")


def _looped(ports: Sequence[Port], environ: Mapping[str, str], directory: Path) -> Iterator[Check]:
    """Each port writes to itself, so that a NIC, its slot and its memory path show without a partner."""
    tool = shutil.which(_PERFTEST)
    if tool is None or not ports:
        why = "no active RDMA port" if tool else f"{_PERFTEST} (perftest) is not installed"
        yield Check("rdma loopback", Status.SKIP, why)
        return
    rates = {}
    for port in ports:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            number = str(free.getsockname()[1])
        asked = ("-d", port.device, "-i", port.number, "-p", number, "-s", str(_MESSAGE_BYTES))
        command = (tool, *asked, "-F", "--report_gbits")
        wait = ("/bin/sh", "-c", f'sleep {_LISTENS_S}; exec "$0" "$@"')
        output = directory / f"loop.{port.device}.{port.number}"
        server = Task("server", command, environ, directory / "server")
        run_group([server, Task("client", (*wait, *command, "127.0.0.1"), environ, output)], _CONNECT_S, straggle_s=1.0)
        rates[port] = loop_gbit(output.read_text("utf-8", "replace"))
    yield from loop_checks(rates)


def loop_gbit(text: str) -> float | None:
    """The average rate in the table of ``ib_write_bw --report_gbits``; None where it has none."""
    row = re.search(rf"(?m)^[ \t]*{_MESSAGE_BYTES}[ \t]+[0-9]+[ \t]+[0-9.]+[ \t]+([0-9.]+)", text)
    return float(row[1]) if row else None


def loop_checks(rates: Mapping[Port, float | None]) -> Iterator[Check]:
    """Ports that reach less than their rate, or nothing."""
    bad = [
        f"{port.name} {'no result' if rate is None else f'{rate:.0f} of {port.rate_gbit:.0f} Gb/s'}"
        for port, rate in rates.items()
        if rate is None or rate < _LESS_RATE * port.rate_gbit
    ]
    if bad:
        yield check_of("rdma-loopback", shown=", ".join(bad))
    else:
        least = min(rate or 0.0 for rate in rates.values())
        yield Check(
            "rdma loopback", Status.PASS, f"{plural(len(rates), 'port')}, {least:.0f} Gb/s or more, each to itself"
        )
