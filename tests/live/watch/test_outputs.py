"""What watch gives to other programs."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

import pytest
import yaml

from nccl_insight.base.errors import UsageError
from nccl_insight.live.watch.outputs import Command, Metrics, to_openmetrics
from nccl_insight.live.watch.progress import Event, Watch
from nccl_insight.live.watch.seen import Seen

# --- for other programs ----------------------------------------------------------------------------------------


def test_metrics_in_a_file_and_over_http(tmp_path: Path) -> None:
    state = Watch(10, 60)
    list(state.take(Seen(counts={"c": {0: 7, 1: 5}}, grew=True), 100.0))
    text = to_openmetrics(state, 103.0)
    for line in (
        'nccl_insight_watch_job_state{state="running"} 1',
        'nccl_insight_watch_comm_operation{comm="c"} 7',
        'nccl_insight_watch_comm_spread{comm="c"} 2',
        "nccl_insight_watch_seconds_since_operation 3",
        "nccl_insight_watch_warnings_total 0",
    ):
        assert line in text.splitlines()
    assert text.endswith("# EOF\n")
    page = Metrics(str(tmp_path / "nccl.prom"))
    page.show(state, 103.0)
    assert (tmp_path / "nccl.prom").read_text() == text
    served = Metrics("127.0.0.1:0")
    try:
        served.show(state, 103.0)
        with urllib.request.urlopen(f"http://127.0.0.1:{served.port}/metrics", timeout=5) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
            assert answer.read().decode() == text
        with pytest.raises(UsageError):
            Metrics(f"127.0.0.1:{served.port}")
    finally:
        served.close()


def test_a_command_runs_once_for_each_event(tmp_path: Path) -> None:
    script = tmp_path / "page"
    script.write_text(f'#!/bin/sh\ncat >> {tmp_path}/heard; echo "$NCCL_INSIGHT_EVENT" >> {tmp_path}/kinds\n')
    script.chmod(0o755)
    command = Command(str(script))
    assert list(command.run(Event("behind", "x"), '{"event": "behind"}')) == []
    command.close()
    assert (tmp_path / "heard").read_text() == '{"event": "behind"}\n'
    assert (tmp_path / "kinds").read_text() == "behind\n"
    with pytest.raises(UsageError):
        Command("no-such-command-here")


def test_alerts_and_dashboard_ask_for_metrics_that_there_are() -> None:
    state = Watch(10, 60)
    list(state.take(Seen(counts={"c": {0: 7}}, step=3, step_s=1.0, grew=True), 1.0))
    given = set(re.findall(r"^(nccl_insight_watch_\w+)", to_openmetrics(state, 2.0), re.M))
    folder = Path(__file__).parents[3] / "docs" / "jobs"
    for name in ("watch-alerts.yaml", "watch-dashboard.json"):
        asked = set(re.findall(r"nccl_insight_watch_\w+", (folder / name).read_text()))
        assert asked, name
        assert asked <= given, name
    json.loads((folder / "watch-dashboard.json").read_text())
    yaml.safe_load((folder / "watch-alerts.yaml").read_text())
