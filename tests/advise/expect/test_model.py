"""The expectation model against measurements that others published, and its limits."""

from __future__ import annotations

import json

import pytest

from nccl_insight.advise.expect.model import OPS
from tests.cli import run_cli


def test_command() -> None:
    done = run_cli(
        "expect", "--gpu", "H100", "--nodes", "2", "--nics", "8x400", "--format", "json", "--what-if", "nodes=8"
    )
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert {e["op"] for e in document["expectations"]} == set(OPS)
    sizes = {e["size_bytes"] for e in document["expectations"]}
    assert (min(sizes), max(sizes)) == (8, 8 << 30)
    assert document["what_if"][0]["machine"]["ranks"] == 64
    assert run_cli("expect", "--gpu", "H100", "--nodes", "2").returncode == 3
    assert run_cli("expect", "--gpu", "nothing").returncode == 2
    assert run_cli("expect").returncode == 2
    text = run_cli("expect", "--gpu", "A100", "--op", "all_reduce", "--size", "1G").stdout
    assert "NVLink through NVSwitch" in text


@pytest.mark.parametrize("name", ["slingshot", "tcpx", "tcpxo"])
def test_every_network_can_be_named(name: str) -> None:
    asked = ["expect", "--gpu", "H100", "--nodes", "2", "--nics", "4x200", "--op", "AllGather", "--size", "8G"]
    result = run_cli(*asked, "--network", name, "--format", "json")
    assert result.returncode == 0, result.stderr
    (found,) = json.loads(result.stdout)["expectations"]
    assert found["busbw_high_gbps"] <= 100
