"""The comparison of two runs as text, markdown and JSON."""

from __future__ import annotations

import json

from nccl_insight.base.model import Severity
from nccl_insight.engine.compare import compare
from nccl_insight.report import diff as render
from tests.two_runs import _compare, _run, analysis, finding


def test_the_headline_says_what_changed_most_and_in_which_direction() -> None:
    warned = (finding("p2p-not-available", Severity.WARNING),)
    broken = _compare(_run(), _run({"NCCL_P2P_DISABLE": "1"}, total_s=20.0), after=warned)
    assert render.headline(broken) == (
        f"New warning: {warned[0].title} (likeliest explanation: NCCL_P2P_DISABLE (unset) -> 1)"
    )
    nics = [f"mlx5_{n}" for n in range(9)]
    lists = {"NCCL_IB_HCA": ",".join(nics)}, {"NCCL_IB_HCA": ",".join([*nics[1:8], "mlx5_10"])}
    assert render.headline(_compare(_run(lists[0]), _run(lists[1]))) == (
        "NCCL_IB_HCA without mlx5_0, mlx5_8 and now with mlx5_10"
    )
    slower = _compare(_run(), _run({"NCCL_ALGO": "Ring"}, total_s=20.0))
    assert render.headline(slower).startswith("Slower: ")
    assert render.headline(slower).endswith("(20.00x) (likeliest explanation: NCCL_ALGO (unset) -> Ring)")
    assert render.headline(_compare(_run(total_s=20.0), _run())).startswith("Faster: ")
    assert render.headline(_compare(_run(), _run(), before=warned)).startswith("No longer there: ")
    assert render.headline(_compare(_run(), _run({"NCCL_ALGO": "Ring"}))) == "NCCL_ALGO (unset) -> Ring"
    assert render.text(_compare(_run(), _run())).startswith("SAME  No difference in what both runs show")


def test_a_lost_data_path_outranks_seconds_of_init_and_the_setting_that_names_it_comes_first() -> None:
    lost = finding("gdr-not-used", Severity.INFO, "GPUDirect RDMA is not used")
    slow = finding("init-slow", Severity.INFO, "Init took 38 s")
    found = compare(
        _run({"NCCL_IB_HCA": "mlx5_0"}, total_s=0.4),
        _run({"NCCL_NET_GDR_LEVEL": "LOC"}, total_s=18.0),
        analysis(),
        analysis(slow, lost),
    )
    first = next(c for c in found.changes if not c.effect)
    assert first.subject == "NCCL_NET_GDR_LEVEL"
    assert render.headline(found).startswith(
        "New note: GPUDirect RDMA is not used (likeliest explanation: NCCL_NET_GDR"
    )


def test_hostile_values_stay_harmless_in_every_form() -> None:
    comparison = _compare(_run({"NCCL_NET": "a"}), _run({"NCCL_NET": "|<script>\x1b[31m\u202e"}))
    shown = render.text(comparison)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    table = render.markdown(comparison)
    assert "<script>" not in table.replace("\\<", "")
    assert json.loads(render.to_json(comparison))["changes"][0]["bad"] == "|<script>\\u202e"


def test_json_is_the_same_twice() -> None:
    comparison = _compare(_run({"NCCL_ALGO": "Ring"}), _run({"NCCL_ALGO": "Tree"}))
    assert render.to_json(comparison) == render.to_json(comparison)
    change = json.loads(render.to_json(comparison))["changes"][0]
    assert (change["good"], change["bad"], change["evidence_bad"]) == ("Ring", "Tree", ["run.log:5"])
