"""What must not change a finding: names of hosts, order of processes, prefixes, line ends, packing, redaction."""

from __future__ import annotations

import gzip
import itertools
import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest

import nccl_insight
from nccl_insight.share.redact import collect
from tests import planted
from tests.runs import RUNS, SHARED
from tests.slices import part

Found: TypeAlias = list[tuple[str, str, str, tuple[int, ...], int]]
Process: TypeAlias = tuple[str, str]

HEAD = re.compile(r"(?:^|\] )(?P<host>[A-Za-z][A-Za-z0-9.-]*):(?P<pid>[0-9]+):[0-9]+ ")
# Small runs of many kinds; the larger ones take too long for a unit test.
SAMPLE = (
    "2.14.3-fail-duplicate-gpu",
    "2.14.3-fail-ib-modify-qp-timeout",
    "2.21.5-2node-4gpu-ibdisable",
    "2.21.5-fail-mismatched-algo-env",
    "2.21.5-fail-tiny-shm",
    "2.27.7-fail-bad-ifname-one-node",
    "2.27.7-fail-oom-cumem",
    "2.27.7-fail-version-mismatch",
    "2.27.7-2node-2gpu-ifname-lo",
    "2.30.7-fail-ib-modify-qp-einval",
    "2.30.7-fail-rank0-dies-before-init",
)


def found(*paths: Path) -> Found:
    """Findings up to the names of hosts: name, severity, cause, ranks, how many hosts."""
    analysis = nccl_insight.analyze(list(paths))
    assert not analysis.notes
    return sorted((f.name, f.severity.value, f.caused_by or "", f.ranks, len(f.hosts)) for f in analysis.findings)


def lines_of(path: Path) -> list[str]:
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return raw.decode("utf-8", "replace").removesuffix("\n").split("\n")


@cache
def log(case: str) -> tuple[str, ...]:
    """The lines of a case: planted, bundled or simulated."""
    kind, _, name = case.partition(":")
    if kind == "planted":
        return tuple(planted.log(name, planted.CONDITIONS).removesuffix("\n").split("\n"))
    if kind == "run":
        files = sorted(p for p in (RUNS / name).iterdir() if ".log" in p.name)
    else:
        files = [SHARED / "simulated" / f"{name}.log"]
    return tuple(line for file in files for line in lines_of(file))


CASES = [
    *(f"planted:{era}" for era in ("2.19.4", "2.28.9")),
    # The table of nccl-tests is no log: its lines mean something in their order and without a prefix only.
    *(f"run:{p.name}" for p in sorted(RUNS.iterdir()) if p.is_dir() and p.name != "gate-h100"),
    *(f"simulated:{name}" for name in SAMPLE),
]


def records(lines: tuple[str, ...]) -> list[tuple[Process, list[str]]]:
    """Lines with the process that printed them; lines without a head stay with a neighbour.

    An empty line precedes a warning, everything else follows a line of its process.
    """
    done: list[tuple[Process, list[str]]] = []
    waiting: list[str] = []
    for line in lines:
        match = HEAD.search(line)
        if match:
            done.append(((match["host"], match["pid"]), [*waiting, line]))
            waiting = []
        elif line.strip() and done:
            done[-1][1].extend([*waiting, line])
            waiting = []
        else:
            waiting.append(line)
    if done:
        done[-1][1].extend(waiting)
    return done


def by_process(lines: tuple[str, ...]) -> dict[Process, list[list[str]]]:
    """Records of each process in their order."""
    processes: dict[Process, list[list[str]]] = {}
    for process, record in records(lines):
        processes.setdefault(process, []).append(record)
    return processes


def write(folder: Path, lines: list[str], end: str = "\n") -> list[Path]:
    path = folder / "run.log"
    path.write_bytes((end.join(lines) + end).encode())
    return [path]


def renamed(lines: tuple[str, ...], folder: Path) -> list[Path]:
    """Hosts get names that sort the other way round."""
    hosts = sorted({process[0] for process, _ in records(lines)})
    names = {h: f"{chr(ord('z') - i % 20)}lab{len(hosts) - i:03}.site-b" for i, h in enumerate(hosts)}
    if not hosts:
        return write(folder, list(lines))
    pattern = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, hosts))})(?![\w-])")
    return write(folder, [pattern.sub(lambda m: names[m[0]], line) for line in lines])


def shuffled(lines: tuple[str, ...], folder: Path) -> list[Path]:
    """Records of processes in another order; that of each process stays."""
    dice = random.Random(11)
    queues = [list(reversed(queue)) for queue in by_process(lines).values()]
    merged: list[str] = []
    while queues:
        queue = dice.choice(queues)
        merged += queue.pop()
        queues = [q for q in queues if q]
    return write(folder, merged)


def one_after_another(lines: tuple[str, ...], folder: Path) -> list[Path]:
    """Whole processes, the last one first."""
    processes = reversed(list(by_process(lines).values()))
    return write(folder, [line for queue in processes for record in queue for line in record])


def mpirun(lines: tuple[str, ...], folder: Path) -> list[Path]:
    """``[1,3]<stdout>:`` before every line, empty ones too."""
    order = {process: i for i, process in enumerate(by_process(lines))}
    return write(folder, [f"[1,{order[p]}]<stdout>:{line}" for p, record in records(lines) for line in record])


def stamped(lines: tuple[str, ...], folder: Path) -> list[Path]:
    """A log collector's time before every line."""
    return write(folder, [f"2026-03-04T10:31:07.120Z {line}" for _, record in records(lines) for line in record])


def crlf(lines: tuple[str, ...], folder: Path) -> list[Path]:
    """Line ends of Windows."""
    return write(folder, list(lines), "\r\n")


def zipped(lines: tuple[str, ...], folder: Path) -> list[Path]:
    """Compressed by gzip."""
    path = folder / "run.log.gz"
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    return [path]


def split(lines: tuple[str, ...], folder: Path) -> list[Path]:
    """One file a process, as NCCL_DEBUG_FILE=nccl.%h.%p.log writes them."""
    paths = []
    for (host, pid), queue in by_process(lines).items():
        path = folder / f"nccl.{host}.{pid}.log"
        path.write_text("".join(f"{line}\n" for record in queue for line in record), encoding="utf-8")
        paths.append(path)
    return paths


def redacted(lines: tuple[str, ...], folder: Path) -> list[Path]:
    """Names and addresses replaced by the product itself."""
    text = "\n".join(lines) + "\n"
    (path,) = write(folder, list(lines))
    redactor = collect(nccl_insight.load([path]), [text])
    hidden = redactor.text(text)
    hosts = {process[0] for process, _ in records(lines)}
    assert not [host for host in hosts if host in hidden]
    path.write_text(hidden, encoding="utf-8")
    return [path]


CHANGES: list[Callable[[tuple[str, ...], Path], list[Path]]] = [
    renamed,
    shuffled,
    one_after_another,
    mpirun,
    stamped,
    crlf,
    zipped,
    split,
    redacted,
]


@cache
def unchanged(case: str, folder: Path) -> Found:
    """What the untouched log says (records in their own order, so that lines without heads stay in place)."""
    return found(*write(folder, [line for _, record in records(log(case)) for line in record] or list(log(case))))


@pytest.mark.parametrize(
    ("case", "change"),
    [pytest.param(*pair, id=f"{pair[0]}-{pair[1].__name__}") for pair in part(itertools.product(CASES, CHANGES), 4)],
)
def test_findings_stay(
    case: str, change: Callable[[tuple[str, ...], Path], list[Path]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    if case.startswith("simulated:") and not (SHARED / "simulated").is_dir():
        pytest.skip("the simulated runs : set NCCL_INSIGHT_REFERENCE_DATA")
    before = unchanged(case, tmp_path_factory.getbasetemp())
    folder = tmp_path_factory.mktemp("changed")
    assert found(*change(log(case), folder)) == before


def test_planted_log_has_findings_to_keep(tmp_path: Path) -> None:
    assert len({entry[0] for entry in found(*write(tmp_path, list(log("planted:2.28.9"))))}) >= 11
