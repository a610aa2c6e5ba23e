# ruff: noqa: E501
"""Changes inputs of every kind with their structure in mind and analyzes them: nothing may hang, crash or grow.

Usage: ``python -m tests.fuzz [--seconds N] [--seed N] [--only KIND]...``. The seed is taken from the commit unless it is given, so that
each commit tries something new and each failure can be repeated. What fails is kept in ``tests/data/fuzz/``.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import gzip
import io
import json
import os
import random
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import zstandard
from polars.exceptions import PanicException

import nccl_insight
from nccl_insight.advise.settings.lint.check import lint_text
from nccl_insight.base.errors import InsightError
from nccl_insight.engine.policy import load_policy
from nccl_insight.inputs.limits import changed
from nccl_insight.report import json_, junit, lint_report, markdown, text
from nccl_insight.report.timeline import chrome_json
from nccl_insight.share.redact import collect, redact_analysis, redact_run
from nccl_insight.share.redact.files import Blocks
from nccl_insight.views.events import events as events_of
from tests import fuzz_more, pages, source
from tests.mutations import mutate, seeds
from tests.runs import RUNS, TINY_SHM

KEPT = Path(__file__).parent / "data" / "fuzz"
_TIMEOUT_S = 60  # of the processor: a busy machine is no fault
_WAITING_S = 1800
SCRIPT_NAMES = (
    "run.sh", "job.yaml", "train.py", "hosts", "nccl.conf", "job.sbatch", "Makefile", "justfile", "Dockerfile", "a.lua", "a.tf", "a.toml",
    "a.ini", "a.service", "a.ipynb", "a.csh", "a.fish", "a.def", "a.sub", "Jenkinsfile", "a.json", "a.sh.j2", "a.go", "",
)  # fmt: skip
_MEMORY_MIB = 4096
_ODD: tuple[Any, ...] = (
    None, True, -1, 2**63, 2**64, 10**400, 1e308, float("nan"), float("inf"), "", "x" * 5000, "\x00", "\u202e", "=1+1",
    "<script>", [], {}, [[[]]], {"": {"": []}}, "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
)  # fmt: skip


def changed_json(value: Any, rng: random.Random, share: float = 0.04) -> Any:
    """The value with some of its parts replaced, dropped or repeated; keys stay most of the time."""
    if rng.random() < share:
        return rng.choice(_ODD)
    if isinstance(value, dict):
        items = [(k, changed_json(v, rng, share)) for k, v in value.items() if rng.random() > share / 2]
        return {(rng.choice(["", k + k, "ts", "args"]) if rng.random() < share / 4 else k): v for k, v in items}
    if isinstance(value, list):
        items = [changed_json(v, rng, share) for v in value if rng.random() > share / 2]
        return items * 2 if items and rng.random() < share / 4 else items
    return value


def kineto(rng: random.Random) -> bytes:
    events = [
        {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", "pid": 0, "tid": 7,
         "ts": 1000.0 + 50 * i, "dur": 20.0, "args": {"Collective name": "allreduce", "In msg nelems": 1 << i, "Group size": 8,
         "dtype": "Float", "Process Group Name": "0", "stream": 7, "correlation": i, "device": 0}}
        for i in range(rng.randrange(1, 12))
    ]  # fmt: skip
    whole = {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": rng.randrange(9), "world_size": 8},
        "deviceProperties": [{"id": 0, "name": "H100"}],
        "traceEvents": events,
    }
    return json.dumps(changed_json(whole, rng), indent=rng.choice([None, 1])).encode("utf-8", "replace")


def flight_recorder(rng: random.Random) -> bytes:
    entries = [
        {"record_id": i, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": i, "p2p_seq_id": 0, "op_id": i,
         "profiling_name": rng.choice(["nccl:all_reduce", "nccl:send 0->1", "nccl:_all_gather_base"]), "time_created_ns": 10**18 + i,
         "input_sizes": [[1 << i]], "output_sizes": [[1 << i]], "input_dtypes": ["Float"], "output_dtypes": ["Float"],
         "state": rng.choice(["completed", "started", "scheduled"]), "is_p2p": False, "retired": False, "timeout_ms": 600000, "frames": []}
        for i in range(rng.randrange(1, 20))
    ]  # fmt: skip
    whole = {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
        "pg_status": {
            "0": {"last_enqueued_collective": 3, "last_started_collective": 2, "last_completed_collective": 1}
        },
        "entries": entries,
    }
    changed = changed_json(whole, rng)
    if rng.random() < 0.5:
        return json.dumps(changed).encode()
    import pickle

    data = bytearray(pickle.dumps(changed, protocol=rng.randrange(2, 6)))
    for _ in range(rng.randrange(4)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def topology(rng: random.Random) -> bytes:
    gpu = '<pci busid="0000:{0:02x}:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="{0}" sm="90" rank="{0}"/></pci>'
    body = "".join(gpu.format(i) for i in range(rng.randrange(1, 9)))
    whole = f'<system version="1"><cpu numaid="0" arch="x86_64">{body}</cpu></system>'
    return mutate(whole.encode(), rng) if rng.random() < 0.8 else whole[: rng.randrange(len(whole))].encode()


def database(rng: random.Random) -> bytes:
    path = Path(tempfile.mkdtemp()) / "x.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("create table StringIds (id integer primary key, value text)")
        connection.execute(
            "create table CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName, shortName)"
        )
        connection.execute("create table NVTX_EVENTS (start, end, eventType, text, textId, globalTid, domainId)")
        names = ["ncclDevKernel_AllReduce_Sum_f32_RING_LL", "gemm", rng.choice(["", "x" * 9000, "\x00"])]
        connection.executemany("insert into StringIds values (?, ?)", list(enumerate(names)))
        for i in range(rng.randrange(30)):
            row = [1000 * i, 1000 * i + 500, 0, 1, 7, i, 281474976710656, i % 3, i % 3]
            if rng.random() < 0.2:
                row[rng.randrange(9)] = rng.choice([None, "x", b"\xff", -(2**63), 2**62, 1.5])  # type: ignore[call-overload]
            connection.execute(f"insert into CUPTI_ACTIVITY_KIND_KERNEL values ({','.join('?' * 9)})", row)
    connection.close()
    data = bytearray(path.read_bytes())
    path.unlink()
    path.parent.rmdir()
    for _ in range(rng.choice([0, 0, 1, 5, 50])):
        data[rng.randrange(16, len(data))] = rng.randrange(256)
    return bytes(data[: rng.choice([len(data), len(data), rng.randrange(1, len(data))])])


def log(rng: random.Random) -> bytes:
    base = rng.choice(_SEEDS)
    start = rng.randrange(len(base))
    return mutate(base[start : start + rng.randrange(200, 8000)], rng)


def packed(rng: random.Random) -> bytes:
    """A log or trace in a compressed stream or an archive, sometimes damaged."""
    inner = rng.choice([log, kineto, topology, flight_recorder])(rng)
    kind = rng.randrange(4)
    out = io.BytesIO()
    if kind == 0:
        out.write(gzip.compress(inner))
    elif kind == 1:
        out.write(zstandard.ZstdCompressor(write_checksum=rng.random() < 0.5).compress(inner))
    elif kind == 2:
        with tarfile.open(fileobj=out, mode=rng.choice(["w", "w:gz", "w:xz", "w:bz2"])) as tar:
            for name in rng.sample(["a.log", "b/c.json", "../up.log", "/abs", "x" * 200, "é.log", "t.xml"], 3):
                info = tarfile.TarInfo(name)
                info.size = len(inner)
                tar.addfile(info, io.BytesIO(inner))
    else:
        with zipfile.ZipFile(out, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
            for name in rng.sample(["a.log", "b/c.json", "../up.log", "/abs", "README.txt", "é.log", "t.xml"], 3):
                archive.writestr(name, inner)
    data = bytearray(out.getvalue())
    for _ in range(rng.choice([0, 1, 4])):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data[: rng.choice([len(data), len(data), rng.randrange(1, len(data) + 1)])])


def _strings(*names: str) -> list[bytes]:
    """Long texts in the source of tests: samples of other tools' output, configurations, launch scripts."""
    found = []
    for name in names:
        for node in ast.walk(source.tree(Path(__file__).parent / name)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 80:
                found.append(node.value.encode("utf-8", "replace"))
    return found


def _samples() -> list[bytes]:
    """Small files of the collection of traces, when there is one."""
    data = os.environ.get("NCCL_INSIGHT_REFERENCE_DATA")
    files = sorted(Path(data, "traces").rglob("*")) if data else []
    return [f.read_bytes() for f in files if f.is_file() and f.suffix != ".toml" and f.stat().st_size < 200_000]


def side(rng: random.Random) -> bytes:
    """Output of nvidia-smi, nccl-tests, RAS, the Inspector, topology dumps; sometimes two of them, one behind the other."""
    base = rng.choice(_SIDES)
    if rng.random() < 0.2:
        base += b"\n" + rng.choice(_SIDES)
    start = rng.randrange(len(base)) if rng.random() < 0.3 else 0
    if base[:2] == b"\x1f\x8b":
        data = bytearray(base)
        data[rng.randrange(len(data))] = rng.randrange(256)
        return bytes(data)
    return mutate(base[start : start + rng.randrange(100, 20_000)], rng)


def config(rng: random.Random) -> bytes:
    """A configuration whose values, names or bytes were changed."""
    if rng.random() < 0.3:
        return mutate(rng.choice(_CONFIGS), rng)
    keys = [
        "select", "ignore", "fail-on", "min-coverage", "redact", "communication", "policy", "severity", "thresholds", "limits",
        "paths", "rules", "expect", "files", "line-kib", "NI201", "net-socket-fallback", "", "a.b", "until", "reason", "hosts",
    ]  # fmt: skip
    values = [
        "true", "-1", "1e400", "nan", "inf", '""', '"error"', "[]", "[1, [2, []]]", '["NI*", "["]', "{}", "{a = {b = 1}}", "2026-01-01",
        "2026-13-01", '"(a+)+$"', '"[*"', "9223372036854775808", "0.5", '"\\u202e"', '"never"', '["net-*"]', '"x" * 3',
    ]  # fmt: skip
    lines = []
    for _ in range(rng.randrange(1, 12)):
        key = rng.choice(keys)
        key = key if re.fullmatch(r"[\w-]+", key) else f'"{key}"'
        lines.append(
            f"[{key}]" if rng.random() < 0.25 else f"{key} = {rng.choice(values)}"
        )  # a name twice is an error of TOML
    return "\n".join(lines).encode()


def script(rng: random.Random) -> bytes:
    """A launch script, a pod or a file of settings, sometimes with variables or nesting that grow."""
    base = rng.choice(_SCRIPTS)
    for _ in range(rng.choice([0, 0, 1, 3])):
        name, times = rng.choice("ABC"), rng.randrange(1, 40)
        use = rng.choice(["${0}", "${{{0}}}", "$({0})", "${{{0}:-x}}", "%env {0}", "&{0} [*{0}]"]).format(name)
        deep = rng.choice(['"$(', "${X:-", "[", "{a: ", "if true; then\n", "<<E ", "{{", "- "]) * times
        grown = rng.choice([f"{name}={use * times}", f"export NCCL_{name}={use * times}", use * times, deep])
        base = base.replace(b"\n", b"\n" + grown.encode() + b"\n", rng.randrange(1, 4))
    return mutate(base, rng)


def bundle(rng: random.Random) -> bytes:
    """A log, for redaction and all reports."""
    return log(rng)


KINDS: dict[str, Callable[[random.Random], bytes]] = {
    "log": log, "kineto": kineto, "flight_recorder": flight_recorder, "topology": topology, "database": database, "packed": packed,
    "side": side, "config": config, "script": script, "bundle": bundle, **fuzz_more.KINDS,
}  # fmt: skip
_SEEDS = seeds()
_SIDES = [
    *_strings(
        "readers/embedded/test_nccl_tests.py",
        "readers/side_files.py",
        "readers/test_graph_xml.py",
        "readers/test_inspector.py",
        "readers/test_nccl_tests.py",
        "readers/test_profiler_plugin.py",
        "readers/test_ras.py",
        "readers/test_side.py",
        "readers/test_topo_xml.py",
    ),
    *_samples(),
]
_CONFIGS = _strings(
    "engine/policy/findings.py",
    "engine/policy/test_config.py",
    "engine/policy/test_model.py",
    "cli/test_cli.py",
    "rules/test_thresholds.py",
)
_SCRIPTS = _strings(
    "advise/settings/lint/test_check.py",
    "advise/settings/lint/test_kinds.py",
    "advise/settings/lint/test_words.py",
    "advise/settings/lint/test_kinds.py",
    "advise/settings/lint/test_forms.py",
    "advise/settings/check/test_combine.py",
    "advise/settings/check/test_issue.py",
    "advise/settings/check/test_names.py",
    "advise/settings/check/test_pinned.py",
    "advise/settings/check/test_values.py",
)
SUFFIX = {
    "log": ".log",
    "kineto": ".json",
    "flight_recorder": ".dump",
    "topology": ".xml",
    "database": ".sqlite",
    "packed": ".bin",
    "side": ".txt",
    "config": ".toml",
    "script": ".sh",
    "bundle": ".log",
    **fuzz_more.SUFFIX,
}


def judge(path: Path) -> None:
    """Analyzes and renders; only errors that a user can act on are allowed."""
    try:
        analysis = nccl_insight.analyze(path)
    except InsightError as error:
        if "\n" in str(error):
            raise AssertionError("a message of several lines") from error
        return
    broken = [note for note in analysis.notes if "failed and was left out" in note]
    if broken:
        raise AssertionError(broken[0])
    json.loads(json_.render(analysis))
    for shown in (text.render(analysis), markdown.render(analysis)):
        if "\x1b" in shown:
            raise AssertionError("terminal control in a report")


def judge_config(path: Path) -> None:
    """Loads the policy and judges a small log by it."""
    try:
        policy = load_policy(config=path, environ={}, today=datetime.date(2026, 11, 22))
        limits = changed({}, policy.limits)
        run = nccl_insight.load(TINY_SHM, limits=limits, communication=policy.communication)
        json.loads(json_.render(nccl_insight.analyze(run, policy)))
    except InsightError as error:
        if "\n" in str(error):
            raise AssertionError("a message of several lines") from error


def judge_script(path: Path) -> None:
    """Checks it as whatever it may be."""
    text_ = path.read_bytes().decode("utf-8", "replace")
    for name in SCRIPT_NAMES:
        result = lint_text(name, text_)
        if "\x1b" in lint_report.render_text([result]):
            raise AssertionError("terminal control in a report")


def judge_bundle(path: Path) -> None:
    """Every report, redacted; what is redacted twice stays."""
    try:
        run = nccl_insight.load(path)
        analysis = nccl_insight.analyze(run)
    except InsightError:
        return
    redactor = collect(run, Blocks(run.inputs[0]))
    analysis, run = redact_analysis(analysis, redactor), redact_run(run, redactor)
    json.loads(json_.render(analysis))
    page = pages.render(analysis, run, js="none")
    for shown in (page, text.render(analysis), markdown.render(analysis), junit.render(analysis)):
        if "\x1b" in shown:
            raise AssertionError("terminal control in a report")
    ElementTree.fromstring(junit.render(analysis))
    json.loads(chrome_json(events_of(run)))


JUDGES: dict[str, Callable[[Path], None]] = {
    "config": judge_config,
    "script": judge_script,
    "bundle": judge_bundle,
    **fuzz_more.JUDGES,
}


def _commit_seed() -> int:
    try:
        head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
        return int(head[:12], 16)
    except (OSError, ValueError, subprocess.CalledProcessError):
        return 1


def main() -> int:
    """Runs for some time and says how many inputs were tried and what failed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=600)
    options.add_argument("--seed", type=int, default=None)
    options.add_argument("--only", choices=sorted(KINDS), action="append", help="may be given again")
    given = options.parse_args()
    rng = random.Random(_commit_seed() if given.seed is None else given.seed)

    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {_TIMEOUT_S} s")

    signal.signal(signal.SIGPROF, stop)
    signal.signal(signal.SIGALRM, stop)
    KEPT.mkdir(parents=True, exist_ok=True)
    tried = dict.fromkeys(KINDS, 0)
    failed = 0
    ends = time.monotonic() + given.seconds
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < ends:
            kind = rng.choice(given.only or list(KINDS))
            data = KINDS[kind](rng)
            path = Path(folder) / f"case{SUFFIX[kind]}"
            path.write_bytes(data)
            tried[kind] += 1
            signal.setitimer(signal.ITIMER_PROF, _TIMEOUT_S)
            signal.alarm(_WAITING_S)
            try:
                JUDGES.get(kind, judge)(path)
            except (Exception, PanicException):
                failed += 1
                kept = KEPT / f"{kind}-{hash(data) & 0xFFFFFFFF:08x}{SUFFIX[kind]}"
                kept.write_bytes(data)
                print(f"FAILED {kept}\n{traceback.format_exc()}", flush=True)
            signal.alarm(0)
            signal.setitimer(signal.ITIMER_PROF, 0)
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
            if grown > _MEMORY_MIB:
                print(f"FAILED: {grown} MiB of memory after {path.name}")
                return 1
    print(f"{sum(tried.values())} inputs tried ({', '.join(f'{n} {k}' for k, n in tried.items())}), {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.setdefault("NCCL_INSIGHT_ISOLATED", "1")
    assert RUNS.exists()
    sys.exit(main())
