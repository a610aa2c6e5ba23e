"""``nccl-insight manual``."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from nccl_insight.cli import build_app
from nccl_insight.cli.cmd_manual import page
from tests.cli import commands_of


def test_the_manual_page_has_every_command_and_option() -> None:
    text = page()
    for name in commands_of(build_app()):
        escaped = name.replace("-", r"\-")
        assert any(line == f".SS {escaped}" or line.startswith(f".SS {escaped} ") for line in text.split("\n")), name
    assert r"\-\-fail\-on" in text
    assert r"\-\-exit\-map" in text
    assert text.startswith(".TH NCCL-INSIGHT 1")


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_nothing_to_say_about_the_manual_page() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tascii", "-ww", "-z"], input=page() + "\n", capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
