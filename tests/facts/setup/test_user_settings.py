"""What the user set in the environment, one entry for each name and value, with the release that read it."""

from __future__ import annotations

from pathlib import Path

from nccl_insight import load
from nccl_insight.facts.setup.user_settings import user_settings


def test_settings_keep_versions_hosts_and_first_lines(tmp_path: Path) -> None:
    log = tmp_path / "env.log"
    lines = []
    for n in range(5):
        head = f"h{n % 3}:{10 + n}:{10 + n} [0] NCCL INFO "
        lines += [
            f"{head}NCCL version 2.2{1 + n // 4}.5+cuda12.4",
            f"{head}NCCL_IB_HCA set by environment to mlx5_{n // 4}",
        ]
    log.write_text("\n".join(lines) + "\n")
    first, second = user_settings(load([str(log)]))
    assert (first.name, first.value, first.version) == ("NCCL_IB_HCA", "mlx5_0", "2.21.5")
    assert first.hosts == ("h0", "h1", "h2")
    assert [ref.line for ref in first.evidence] == [2, 4, 6]
    assert first.processes == 4
    assert (second.value, second.version, second.hosts) == ("mlx5_1", "2.22.5", ("h1",))
