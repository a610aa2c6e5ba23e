"""Settings that NCCL reported, by process and by communicator."""

from __future__ import annotations

from nccl_insight.facts.setup import settings
from nccl_insight.tables.run import build_run
from tests.facts.tables_by_hand import _env


def test_settings_lose_quotes_and_full_stop_and_the_last_wins() -> None:
    run = build_run(
        {"env": _env((100, "NCCL_ALGO", '"Ring"'), (100, "NCCL_ALGO", "Tree"), (101, "NCCL_IB_DISABLE", "1."))}
    )
    assert settings.value_of(run, "NCCL_ALGO") == "Tree"
    assert settings.switched_on(run, "NCCL_IB_DISABLE").height == 1
    assert settings.value_of(run, "NCCL_NET") is None
