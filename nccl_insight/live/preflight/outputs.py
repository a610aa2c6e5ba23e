"""A preflight for other programs: JSON, JUnit, a Prometheus textfile, and a history with its trend."""

import json
import math
import re
import statistics
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from nccl_insight.base.errors import as_usage
from nccl_insight.base.objects import object_of
from nccl_insight.live.preflight.expect import RATES
from nccl_insight.live.preflight.model import Check, Result, Status, check_of
from nccl_insight.report import junit

FORMATS = ("text", "json", "junit", "prometheus")
#: Facts that are measured each time, so that a fall of them says something.
TRENDS = RATES
_LEAST_RUNS = 3
_RUNS = 20
_FALL = 0.9


def to_json(result: Result) -> str:
    """The result as one JSON document."""
    return json.dumps(
        {
            "schema_version": 1, "node": result.node, "level": result.level, "verdict": result.verdict.value,
            "exit": int(result.code),
            "checks": [
                {"name": c.name, "status": c.status.value, "observed": c.observed, "expected": c.expected,
                 "do": c.fix, "code": c.code, "action": c.action.value}
                for c in result.checks
            ],
            "facts": {k: ("unlimited" if v == math.inf else v) for k, v in sorted(result.facts.items())},
        },
        indent=2,
    )  # fmt: skip


def to_junit(result: Result) -> str:
    """A test case per check; a warning passes with its text as output."""
    suite = ElementTree.Element("testsuite", {"name": "nccl-insight preflight", "hostname": _clean(result.node)})
    for check in result.checks:
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": f"preflight.{check.code}", "name": _clean(check.name)}
        )
        text = _clean(check.line())
        if check.status is Status.FAIL:
            ElementTree.SubElement(case, "failure", {"type": check.action.value, "message": text})
        elif check.status is Status.SKIP:
            ElementTree.SubElement(case, "skipped", {"message": _clean(check.observed)})
        else:
            ElementTree.SubElement(case, "system-out").text = text
    return junit.document(suite)


def to_prometheus(result: Result) -> str:
    """Metrics for node_exporter's textfile collector."""
    order = {Status.PASS: 0, Status.WARN: 1, Status.FAIL: 2, Status.SKIP: 3}
    worst: dict[tuple[str, str], Status] = {}
    for check in result.checks:
        key = (check.name, check.code)
        if key not in worst or order[check.status] % 3 > order[worst[key]] % 3:
            worst[key] = check.status
    told = ((name, value) for name, value in sorted(result.facts.items()) if isinstance(value, float))
    outcomes = "Outcome of a check: 0 pass, 1 warning, 2 failed, 3 skipped."
    metrics: dict[tuple[str, str], list[tuple[dict[str, str], float]]] = {
        ("exit_code", "Exit code of the last preflight."): [({"level": result.level}, int(result.code))],
        ("check", outcomes): [({"check": name, "code": code}, order[s]) for (name, code), s in worst.items()],
        ("fact", "What the node has; bandwidths in GB/s (1e9 bytes)."): [
            ({"fact": name}, value) for name, value in told if math.isfinite(value)
        ],
    }
    lines = []
    for (name, about), samples in metrics.items():
        lines += [f"# HELP nccl_insight_preflight_{name} {about}", f"# TYPE nccl_insight_preflight_{name} gauge"]
        for labels, value in samples:
            said = ",".join(f'{key}="{_label(text)}"' for key, text in {"node": result.node, **labels}.items())
            lines.append(f"nccl_insight_preflight_{name}{{{said}}} {value:g}")
    return "\n".join(lines) + "\n"


def trend(path: Path, node: str, facts: Mapping[str, str | float | None]) -> list[Check]:
    """What this node lost against the median of its own last runs in a history file.

    Raises UsageError: the file cannot be read.
    """
    with as_usage(f"{path}: cannot be read"):
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    entries = map(object_of, text.splitlines())
    earlier = [item for item in entries if item.get("node") == node and isinstance(item.get("facts"), dict)]
    checks = []
    for key in TRENDS:
        now = facts.get(key)
        past = [(e.get("time"), e["facts"][key]) for e in earlier if isinstance(e["facts"].get(key), float)]
        past = past[-_RUNS:]
        if not isinstance(now, float) or len(past) < _LEAST_RUNS:
            continue
        usual = statistics.median(value for _, value in past)
        if now < _FALL * usual:
            checks.append(check_of("trend", key=key, now=now, share=1 - now / usual, past=past, usual=usual))
    return checks


def remember(path: Path, result: Result, time_text: str) -> None:
    """Appends one line to a history file. Raises UsageError: it cannot be written."""
    entry = {
        "time": time_text,
        "node": result.node,
        "level": result.level,
        "verdict": result.verdict.value,
        "facts": {k: v for k, v in result.facts.items() if not isinstance(v, float) or math.isfinite(v)},
    }
    with as_usage(f"{path}: cannot be written"), path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(entry) + "\n")


def _clean(text: str) -> str:
    return re.sub(r"[^\x20-\x7e\xa0-\ud7ff\ue000-\ufffd]", " ", text)


def _label(text: str) -> str:
    return _clean(text).replace("\\", "\\\\").replace('"', '\\"')
