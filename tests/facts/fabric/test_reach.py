"""Whether a job leaves its node, and what an absence in the log can prove."""

from __future__ import annotations

import polars as pl

from nccl_insight.facts.fabric import reach
from nccl_insight.tables.run import build_run
from tests.facts.tables_by_hand import _env, _links, _ranks


def test_one_node_without_p2p_and_shm_does_not_span_hosts() -> None:
    ranks = _ranks(("c", 0, "a", 100, 2, 2), ("c", 1, "a", 101, 2, 2))
    comms = pl.DataFrame({"comm_id": ["c"], "nranks": [2], "ranks_seen": [2], "hosts": [["a"]], "n_nodes": [2]})
    connections = _links((0, 1, "send", "NET", "Socket", False))
    env = _env((100, "NCCL_P2P_DISABLE", "1"), (100, "NCCL_SHM_DISABLE", "1."))
    plain = build_run({"ranks": ranks, "communicators": comms, "connections": connections})
    isolated = build_run({"ranks": ranks, "communicators": comms, "connections": connections, "env": env})
    assert reach.spans_hosts(plain) is True
    assert reach.spans_hosts(isolated) is False


def test_unknown_reach_is_not_one_node() -> None:
    assert reach.spans_hosts(build_run({})) is None
