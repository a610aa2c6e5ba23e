"""A claim."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import nccl_insight
from nccl_insight.facts.progress.absent import absences
from nccl_insight.facts.progress.claims import CALLS, DUMPS, INSPECTOR, RAS, WATCHDOG
from nccl_insight.facts.progress.standings import standings
from tests.dumps import done, entry
from tests.hangs import HASH, call, dumps, inits, log, ras, timeout


@pytest.mark.parametrize("behind", [1, 2])
def test_standings_hold_the_numbers_of_every_source(tmp_path: Path, behind: int) -> None:
    calls = [call(r, n) for n in range(5) for r in range(4) if r != 3 or n < 5 - behind]
    waits = [line for r in (0, 1, 2) for line in timeout(r, 35, 36, 34)]
    record = {
        "header": {"id": f"0x{HASH}", "rank": 3, "n_ranks": 4, "nnodes": 2},
        "metadata": {"inspector_output_format_version": "v4.0", "dump_timestamp_us": 1, "hostname": "gpu02",
                     "pid": 4003},
        "coll_perf": {"coll": "AllReduce", "coll_sn": 9, "coll_msg_size_bytes": 1024, "coll_exec_time_us": 61,
                      "coll_algobw_gbs": 1.0, "coll_busbw_gbs": 1.0},
    }  # fmt: skip
    (tmp_path / "inspector.log").write_text(json.dumps(record) + "\n")
    run = nccl_insight.load(
        [
            log(tmp_path / "run.log", *inits(), *calls, *waits),
            dumps(tmp_path / "dumps", {r: [done(34), entry(35)] for r in (0, 1, 2)} | {3: [done(34)]}),
            ras(tmp_path / "ras.json", {0: 5, 1: 5, 2: 5, 3: 5 - behind}),
            str(tmp_path / "inspector.log"),
        ]
    )
    rows = standings(run)
    numbers = {
        source: rows.filter((pl.col("source") == source) & (pl.col("rank") == 3)).select("enqueued", "completed").rows()
        for source in (CALLS, DUMPS, RAS, INSPECTOR)
    }
    assert numbers == {
        CALLS: [(5 - behind, None)],
        DUMPS: [(34, 34)],
        RAS: [(5 - behind, None)],
        INSPECTOR: [(None, 9)],
    }
    watchdog = rows.filter(pl.col("source") == WATCHDOG).sort("rank")
    assert watchdog["rank"].to_list() == [0, 1, 2]
    assert watchdog["enqueued"].to_list() == [36, 36, 36]
    assert watchdog["host"].to_list() == ["gpu01", "gpu01", "gpu02"]
    item = absences(run)[0]
    assert item.lead.ranks == (3,)
    assert {c.source for c in item.claims} >= {DUMPS, WATCHDOG, CALLS, RAS}
