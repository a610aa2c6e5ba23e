"""Rules on side files and traces that no log fixture can show."""

from __future__ import annotations

import polars as pl
import pytest

from nccl_insight.base.model import CannotJudge, Hit, Severity
from nccl_insight.tables.run import Run, build_run
from tests.checks import check


def _nvlinks(*gpus: tuple[str, list[float | None]]) -> Run:
    """Links by GPU: speeds, None for an inactive link."""
    rows = [(g, model, n, speed) for g, (model, links) in enumerate(gpus) for n, speed in enumerate(links)]
    return build_run(
        {
            "nvlinks": pl.DataFrame(
                {
                    "input_id": [0] * len(rows),
                    "line": list(range(1, len(rows) + 1)),
                    "gpu": [r[0] for r in rows],
                    "model": [r[1] for r in rows],
                    "link": [r[2] for r in rows],
                    "speed_gbps": pl.Series([r[3] for r in rows], dtype=pl.Float64),
                    "active": [r[3] is not None for r in rows],
                }
            )
        }
    )


def _hits(found: object) -> list[Hit]:
    return [f for f in found if isinstance(f, Hit)]  # type: ignore[attr-defined]


def test_a_gpu_with_fewer_active_links_than_its_neighbour() -> None:
    (hit,) = _hits(check("NI313", _nvlinks(("card", [25.0, 25.0]), ("card", [25.0, None]))))
    assert (hit.observed, hit.expected) == ("1 active links", "2 active links")
    assert [r.line for r in hit.evidence] == [4]


def test_a_board_whose_gpus_all_lost_a_link() -> None:
    run = _nvlinks(*(("NVIDIA A100-SXM4-80GB", [25.0] * 11 + [None]) for _ in range(2)))
    (hit,) = _hits(check("NI313", run))
    assert "expected 12" in hit.title


def test_a_slow_link() -> None:
    (hit,) = _hits(check("NI313", _nvlinks(("card", [26.5, 26.5]), ("card", [26.5, 12.0]))))
    assert hit.observed == "12.0 GB/s"


@pytest.mark.parametrize(
    "gpus",
    [
        (("NVIDIA H100 80GB HBM3", [26.5] * 18),) * 2,
        (("NVIDIA H800", [26.5] * 8),) * 2,
        (("NVIDIA A40", [None] * 4),) * 2,
    ],
)
def test_healthy_boards_are_silent(gpus: tuple[tuple[str, list[float | None]], ...]) -> None:
    assert _hits(check("NI313", _nvlinks(*gpus))) == []


def _trace(size_bytes: int, count: int, duration_ns: int, large_ns: int) -> Run:
    sizes = [size_bytes] * count + [64 << 20]
    return build_run(
        {
            "collectives": pl.DataFrame(
                {
                    "input_id": [0] * len(sizes),
                    "rank": [0] * len(sizes),
                    "op": ["AllReduce"] * len(sizes),
                    "size_bytes": sizes,
                    "duration_ns": [duration_ns] * count + [large_ns],
                    "source": ["kernel"] * len(sizes),
                }
            )
        }
    )


def test_small_collectives_of_a_trace_count_by_their_time() -> None:
    (hit,) = _hits(check("NI602", _trace(4096, 300, 20_000, 1_000_000)))
    assert "4.0 KiB" in hit.observed or "4.0 KiB" in hit.title
    assert (hit.severity or Severity.WARNING) is Severity.WARNING
    cheap = _hits(check("NI602", _trace(4096, 300, 10, 1_000_000_000)))
    assert all(h.severity is Severity.INFO for h in cheap)


def test_large_collectives_of_a_trace_are_silent() -> None:
    assert _hits(check("NI602", _trace(32 << 20, 300, 20_000, 1_000_000))) == []


def _job(hosts: list[str], networks: list[str]) -> dict[str, pl.DataFrame]:
    n = len(hosts)
    return {
        "ranks": pl.DataFrame(
            {
                "comm_id": ["c"] * n, "rank": list(range(n)), "host": hosts, "pid": list(range(100, 100 + n)),
                "nranks": [n] * n, "n_nodes": [len(set(hosts))] * n, "input_id": [0] * n, "line": list(range(1, n + 1)),
            }
        ),
        "communicators": pl.DataFrame(
            {
                "comm_id": ["c"], "comm_id_made": [False], "nranks": [n], "ranks_seen": [n],
                "hosts": [sorted(set(hosts))], "n_nodes": [len(set(hosts))], "init_complete": [True],
            }
        ),
        "processes": pl.DataFrame(
            {
                "host": hosts, "pid": list(range(100, 100 + n)), "network": networks, "input_id": [0] * n,
                "line": list(range(50, 50 + n)),
            }
        ),
    }  # fmt: skip


def test_one_host_on_another_network_is_named_whole() -> None:
    tables = _job(["a", "a", "b", "b", "z", "z"], ["IB"] * 4 + ["Socket"] * 2)
    (hit,) = _hits(check("NI239", build_run(tables)))
    assert (hit.hosts, hit.ranks, hit.severity) == (("z",), (4, 5), Severity.ERROR)
    assert hit.title.startswith("z: network Socket")


def test_a_setting_on_one_rank_is_not_guessed_in_a_torn_log() -> None:
    tables = _job(["a", "a", "a"], ["IB"] * 3)
    tables["env"] = pl.DataFrame(
        {
            "host": ["a"] * 2, "pid": [100, 101], "name": ["NCCL_MAX_NCHANNELS"] * 2, "value": ["4"] * 2,
            "origin": ["environment"] * 2, "input_id": [0] * 2, "line": [7, 8],
        }
    )  # fmt: skip
    tables["processes"] = tables["processes"].with_columns(nccl_version=pl.lit("2.27.7"))
    inputs = {"input_id": [0], "path": ["x"], "torn_lines": [0]}
    whole = build_run({**tables, "inputs": pl.DataFrame(inputs)})
    torn = build_run({**tables, "inputs": pl.DataFrame({**inputs, "torn_lines": [3]})})
    (hit,) = _hits(check("NI107", whole))
    assert (hit.ranks, hit.observed) == ((2,), "not set")
    assert _hits(check("NI107", torn)) == []


def test_rings_that_the_log_cuts_are_not_judged() -> None:
    tables = _job(["a", "a", "b", "b"], ["IB"] * 4)
    tables["rings"] = pl.DataFrame(
        {
            "comm_id": ["c"] * 2, "channel": [0] * 2, "position": [0, 1], "rank": [0, 2], "truncated": [True] * 2,
            "input_id": [0] * 2, "line": [9] * 2,
        }
    )  # fmt: skip
    (found,) = check("NI310", build_run(tables))
    assert isinstance(found, CannotJudge)
