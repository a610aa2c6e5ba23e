"""What host tools say, with the host that each fact is of."""

from __future__ import annotations

from nccl_insight.facts.said.host_facts import by_device, counters, facts, job_hosts, named, sidecars
from tests.by_hand import run

FACT = {"input_id": 0, "host": "a", "device": "mlx5_0", "tool": "ethtool -S"}
RANKS = [{"host": h, "pid": p, "rank": r, "comm_id": "c"} for h, p, r in (("a", 7, 0), ("b", 8, 1))]


def test_a_fact_without_a_host_is_of_the_one_that_its_path_names() -> None:
    given = [{**FACT, "host": None, "line": 1, "name": "x", "value": "1", "input_id": n} for n in range(3)]
    inputs = [{"input_id": n, "path": path} for n, path in enumerate(("logs/a/smi.txt", "logs/ab/smi.txt", "a-b.txt"))]
    found = facts(run(ranks=RANKS, host_facts=given, inputs=inputs))
    assert [fact.host for fact in found] == ["a", None, None]
    assert found[0].at == "mlx5_0 on a"
    assert found[1].at == "mlx5_0"
    assert job_hosts(run(ranks=RANKS)) == ("a", "b")
    (only,) = facts(run(ranks=RANKS[:1], host_facts=given[1:2], inputs=inputs))
    assert only.host == "a"
    assert facts(run()) == ()


def test_a_counter_grew_by_its_last_less_its_first_value() -> None:
    read = [("rx_errors", "5"), ("rx_errors", "9"), ("resets", "9"), ("resets", "4"), ("once", "3"), ("text", "x")]
    one = run(
        host_facts=[{**FACT, "line": n, "name": f"counter.{name}", "value": v} for n, (name, v) in enumerate(read)]
    )
    found = counters(one)["a", "mlx5_0"]
    assert {name: (counter.value, counter.grew) for name, counter in found.items()} == {
        "rx_errors": (9, 4), "resets": (4, None), "once": (3, None),
    }  # fmt: skip
    assert [fact.value for fact in named(one, r"counter\.re.*")] == ["9", "4"]
    assert list(named(one, r"counter")) == []
    assert by_device(facts(one))[0, "a", "mlx5_0"]["counter.rx_errors"].number == 9.0


def test_a_line_is_about_a_sidecar_where_another_container_of_the_pod_has_the_gpus() -> None:
    pod = {**FACT, "device": "train-0"}
    told = [("pod.container", "trainer", 1), ("pod.limits.nvidia.com.gpu", "8", 3), ("pod.container", "logger", 10)]
    beside = sidecars(
        run(host_facts=[{**pod, "name": name, "value": value, "line": line} for name, value, line in told])
    )
    assert [beside(0, line) for line in (2, 12)] == [False, True]
    assert not beside(1, 12)
