"""Tables of small jobs, written out by hand."""

from __future__ import annotations

import polars as pl

from nccl_insight.tables.run import Run, build_run


def _ranks(*rows: tuple[str, int, str, int, int, int | None]) -> pl.DataFrame:
    """Rows of (comm_id, rank, host, pid, nranks, n_nodes)."""
    return pl.DataFrame(
        {
            "comm_id": [r[0] for r in rows],
            "rank": [r[1] for r in rows],
            "host": [r[2] for r in rows],
            "pid": [r[3] for r in rows],
            "nranks": [r[4] for r in rows],
            "n_nodes": [r[5] for r in rows],
            "input_id": [0] * len(rows),
            "line": list(range(1, len(rows) + 1)),
        }
    )


def _links(*rows: tuple[int, int, str, str, str | None, bool]) -> pl.DataFrame:
    """Rows of (src, dst, direction, transport, network, gdr), printed by the rank's host of two ranks each."""
    printer = [r[0] if r[2] == "send" else r[1] for r in rows]
    return pl.DataFrame(
        {
            "comm_id": ["c"] * len(rows),
            "host": ["a" if p < 2 else "b" for p in printer],
            "pid": [100 + p for p in printer],
            "channel": list(range(len(rows))),
            "conn_index": [0] * len(rows),
            "src_rank": [r[0] for r in rows],
            "dst_rank": [r[1] for r in rows],
            "direction": [r[2] for r in rows],
            "transport": [r[3] for r in rows],
            "network": [r[4] for r in rows],
            "net_dev": [0 if r[3] == "NET" else None for r in rows],
            "gdr": [r[5] for r in rows],
            "input_id": [0] * len(rows),
            "line": list(range(50, 50 + len(rows))),
        }
    )


def _env(*rows: tuple[int, str, str]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "host": ["a" if r[0] < 102 else "b" for r in rows],
            "pid": [r[0] for r in rows],
            "name": [r[1] for r in rows],
            "value": [r[2] for r in rows],
            "origin": ["environment"] * len(rows),
            "input_id": [0] * len(rows),
            "line": list(range(20, 20 + len(rows))),
        }
    )


def two_hosts(connections: pl.DataFrame | None = None, **more: pl.DataFrame) -> Run:
    tables = {
        "ranks": _ranks(*(("c", r, "a" if r < 2 else "b", 100 + r, 4, 2) for r in range(4))),
        "communicators": pl.DataFrame(
            {"comm_id": ["c"], "nranks": [4], "ranks_seen": [4], "hosts": [["a", "b"]], "n_nodes": [2]}
        ),
        **more,
    }
    if connections is not None:
        tables["connections"] = connections
    return build_run(tables)


def _facts(*rows: tuple[str | None, int, str, str | None]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "comm_id": [r[0] for r in rows],
            "rank": [r[1] for r in rows],
            "host": [r[2] for r in rows],
            "fact": [r[3] for r in rows],
            "input_id": [0] * len(rows),
            "line": list(range(1, len(rows) + 1)),
        },
        schema_overrides={"comm_id": pl.String, "fact": pl.String},
    )
