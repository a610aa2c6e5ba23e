"""What a run is like, as named facts that two runs can be compared by."""

from __future__ import annotations

from nccl_insight.facts.figures.job import AREAS, facts
from tests.by_hand import run


def test_values_that_ranks_disagree_on_name_the_odd_hosts() -> None:
    versions = [("a", 1, "2.21.5"), ("b", 2, "2.21.5"), ("c", 3, "2.18.1")]
    found = facts(
        run(processes=[{"host": h, "pid": p, "nccl_version": v, "input_id": 0, "line": p} for h, p, v in versions])
    )
    odd = found["versions", "NCCL"]
    assert odd.key == ("2.18.1", "2.21.5")
    assert odd.text == "2.21.5 (2 processes), 2.18.1 (1 process)"
    assert odd.hosts == ("c",)
    assert [ref.line for ref in odd.evidence] == [1, 3]


def test_settings_that_only_say_what_is_printed_are_no_facts() -> None:
    setting = {"host": "a", "pid": 1, "origin": "environment", "input_id": 0, "line": 1}
    found = facts(run(env=[{**setting, "name": n, "value": "1"} for n in ("NCCL_DEBUG", "NCCL_IB_DISABLE")]))
    assert [subject for area, subject in found if area == "environment"] == ["NCCL_IB_DISABLE"]
    assert found["environment", "NCCL_IB_DISABLE"].text == "1"
    assert found["environment", "NCCL_IB_DISABLE"].hosts == ()


def test_the_shape_of_a_job() -> None:
    ranks = [
        {"comm_id": "c", "rank": r, "nranks": 4, "host": h, "pid": r, "input_id": 0, "line": r + 1}
        for r, h in enumerate("aabb")
    ]
    found = facts(
        run(
            ranks=ranks,
            communicators=[{"comm_id": "c", "nranks": 4, "ranks_seen": 4, "n_nodes": 2, "hosts": ["a", "b"]}],
        )
    )
    assert found["shape", "ranks"].key == (4,)
    assert found["shape", "nodes"].text == "2"
    assert {area for area, _ in found} <= set(AREAS)
    assert facts(run()) == {}
