"""The card as a picture for chats that show no SVG."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.report.picture import png
from tests.cli import run_cli
from tests.runs import TINY_SHM

_DRAWING = '<svg xmlns="http://www.w3.org/2000/svg" width="300" height="40"><text y="20">{}</text></svg>'


def test_the_card_is_written_as_a_picture_of_its_own_size(tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    picture, drawing = tmp_path / "card.PNG", tmp_path / "card.svg"
    result = run_cli("analyze", str(TINY_SHM), "-o", str(picture), "-o", str(drawing))
    if "needs a font" in result.stderr:
        pytest.skip("no font is installed")
    assert result.returncode == 1
    content = picture.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", content[16:24]) == (1200, 630)
    # Names of colors are looked up by browsers alone.
    assert "var(" not in drawing.read_text()
    assert png(_DRAWING.format("rank 3")) != png(_DRAWING.format(""))


def test_a_picture_without_the_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(UsageError, match=r"pip install 'nccl-insight\[png\]'"):
        png(_DRAWING.format("x"))


def test_a_machine_without_fonts_is_told_from_a_picture_without_words(monkeypatch: pytest.MonkeyPatch) -> None:
    library = pytest.importorskip("resvg_py")
    draw = library.svg_to_bytes
    monkeypatch.setattr(library, "svg_to_bytes", lambda *text, **given: draw(*text, **given, skip_system_fonts=True))
    with pytest.raises(UsageError, match="needs a font that is installed"):
        png(_DRAWING.format("x"))
