"""The rules on settings and plugins: every block of their fixtures, and who is not judged without a release."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from nccl_insight.base.model import CannotJudge, Hit, Severity
from nccl_insight.share import api
from nccl_insight.tables.run import build_run
from tests.checks import page, rule

BLOCK = re.compile(r"^## (Fires|Silent): (.*?)\n+```log\n(.*?)```", re.M | re.S)
CODES = ("NI105", "NI106", "NI108", "NI114", "NI116")


def hits(code: str, path: Path) -> list[Hit]:
    return [h for h in rule(code).check(api.load([path])) if not isinstance(h, CannotJudge)]


def blocks() -> list[tuple[str, str, str, str]]:
    found = [(code, *match.groups()) for code in CODES for match in BLOCK.finditer(page(code))]
    assert len(found) >= 15
    return [(a, b, c, d) for a, b, c, d in found]


@pytest.mark.parametrize(("code", "kind", "title", "log"), blocks(), ids=lambda v: str(v)[:40].replace("\n", " "))
def test_fixtures(code: str, kind: str, title: str, log: str, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(log)
    found = hits(code, path)
    assert bool(found) == (kind == "Fires"), title
    for hit in found:
        assert hit.evidence, "a line is the evidence"
        assert hit.next_step


def test_one_finding_for_all_hosts(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    lines = ["NCCL version 2.21.5+cuda12.4", "NCCL_IB_GID_INDEX set by environment to 3."]
    path.write_text("".join(f"gpu{n:02}:{n + 10}:{n + 10} [0] NCCL INFO {text}\n" for n in range(8) for text in lines))
    (hit,) = hits("NI106", path)
    assert hit.hosts == tuple(f"gpu{n:02}" for n in range(8))


def test_names_from_other_sources_than_the_log() -> None:
    env = pl.DataFrame(
        {
            "input_id": [0, 0], "line": [1, 2], "host": ["a", "a"], "pid": [1, 1],
            "name": ["NCCL_SOCKET_IFNAMES", "NCCL_DEBUG"], "value": ["eth0", "INFO"], "origin": ["environment"] * 2,
        }
    )  # fmt: skip
    (hit,) = (h for h in rule("NI105").check(build_run({"env": env})) if isinstance(h, Hit))
    assert "NCCL_SOCKET_IFNAME?" in hit.title
    assert rule("NI105").severity is Severity.INFO
