"""Corrections of lint: certain ones are made, the rest is left, and nothing else in the file changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from nccl_insight.advise.settings.lint.fix import fix_text
from nccl_insight.base.errors import UsageError
from nccl_insight.cli import build_app

# fmt: off
SCRIPT = (
    "#!/bin/bash\r\n# NCCL_DEBGU\nexport NCCL_DEBGU=INFO NCCL_P2P_LEVEL=nvl # keep\nexport NCCL_BUFFSIZE=8M\n"
    "export NCCL_IB_DISABLE=true\nexport NCCL_SOCKET_IFNAME=eth*\nexport NCCL_IB_TIMEOUT=99 NCCL_ALGO=Rng\ntorchrun a.py"  # noqa: E501
)
FIXED = (
    "#!/bin/bash\r\n# NCCL_DEBUG\nexport NCCL_DEBUG=INFO NCCL_P2P_LEVEL=NVL # keep\nexport NCCL_BUFFSIZE=8388608\n"
    "export NCCL_IB_DISABLE=1\nexport NCCL_SOCKET_IFNAME=eth\nexport NCCL_IB_TIMEOUT=99 NCCL_ALGO=Rng\ntorchrun a.py"
)
CASES = {
    "pod.yaml": (
        "spec:\n  containers:\n  - env:\n    - name: NCCL_CROSS_NIC\n      value: 0\n    - {name: NCCL_SHM_DISABLE, value: \"off\"}\n",  # noqa: E501
        "spec:\n  containers:\n  - env:\n    - name: NCCL_CROSS_NIC\n      value: \"0\"\n    - {name: NCCL_SHM_DISABLE, value: \"0\"}\n",  # noqa: E501
    ),
    "nccl.conf": ("NCCL_IB_HCA=\"mlx5\"\nNCCL_DEBUG= INFO\n", "NCCL_IB_HCA=mlx5\nNCCL_DEBUG=INFO\n"),
    "Dockerfile": ("FROM a\nENV NCCL_DBUG=INFO \\\n  NCCL_BUFFSIZE=4MiB\n", "FROM a\nENV NCCL_DEBUG=INFO \\\n  NCCL_BUFFSIZE=4194304\n"),  # noqa: E501
    "a.py": ("import os\nos.environ['NCCL_IB_SL'] = 3\n", "import os\nos.environ['NCCL_IB_SL'] = \"3\"\n"),
    "x.fish": ("set -gx NCCL_DEBUGG INFO\ntorchrun a.py\n", "set -gx NCCL_DEBUG INFO\ntorchrun a.py\n"),
}  # fmt: skip
LEFT = {
    "two.sh": "export NCCL_MAX_CTA=4 NCCL_TIMEOUT=9\n",  # a name near to nothing else is certain, a myth is not
    "values.sh": "export NCCL_IB_TIMEOUT=99 NCCL_PROTO=LL12 NCCL_SOCKET_IFNAME=eth[01] NCCL_DEBUG=debug\n",
    "open.sh": "export NCCL_P2P_LEVEL=$LEVEL NCCL_IB_HCA=$(ls /sys)\n",
    "bytes.sh": "export NCCL_DEBGU=INFO # \ufffd\n",
    "right.sh": "export NCCL_DEBUG=INFO\ntorchrun a.py\n",
    "own.sh": "NCCL_DEBGU=x\necho $NCCL_DEBGU\n",
}


def test_what_is_certain_is_corrected_and_stays_so() -> None:
    assert fix_text("job.sh", SCRIPT) == FIXED
    assert fix_text("job.sh", FIXED) == FIXED


@pytest.mark.parametrize("name", CASES)
def test_other_kinds(name: str) -> None:
    text, right = CASES[name]
    assert fix_text(name, text) == right


@pytest.mark.parametrize("name", [n for n in LEFT if n != "two.sh"])
def test_what_is_not_certain_is_left(name: str) -> None:
    assert fix_text(name, LEFT[name]) == LEFT[name]


def test_a_near_name_is_corrected_and_a_myth_is_not() -> None:
    assert fix_text("two.sh", LEFT["two.sh"]) == "export NCCL_MAX_CTAS=4 NCCL_TIMEOUT=9\n"


def _lint(*arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(build_app("lint"), ["lint", *arguments], input=text)


def test_diff_shows_and_fix_writes(tmp_path: Path) -> None:
    job, right = tmp_path / "job.sh", tmp_path / "right.sh"
    job.write_bytes(SCRIPT.encode())
    job.chmod(0o750)
    right.write_text("export NCCL_DEBUG=INFO\ntorchrun a.py\n")
    shown = _lint("--diff", str(job), str(right))
    assert shown.exit_code == 1
    assert {"-export NCCL_BUFFSIZE=8M", "+export NCCL_BUFFSIZE=8388608"} <= set(shown.stdout.split("\n"))
    assert "right.sh" not in shown.stdout
    assert "left to you" in shown.stderr
    assert "NCCL_ALGO" in shown.stderr
    assert job.read_bytes() == SCRIPT.encode()
    written = _lint("--fix", str(job), str(right))
    assert written.exit_code == 1  # NCCL_ALGO and the timeout are left
    assert "NCCL_DEBGU" not in written.stdout
    assert job.read_bytes() == FIXED.encode()
    assert job.stat().st_mode & 0o777 == 0o750
    assert _lint("--diff", str(job)).exit_code == 0
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".part")] == []


def test_standard_input_is_shown_and_not_written() -> None:
    assert "+export NCCL_BUFFSIZE=8388608" in _lint("--diff", "-", text="export NCCL_BUFFSIZE=8M\nsrun a\n").stdout
    refused = _lint("--fix", "-", text="export NCCL_BUFFSIZE=8M\n")
    assert isinstance(refused.exception, UsageError)
