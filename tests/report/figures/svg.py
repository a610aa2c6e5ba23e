"""What a drawing says."""

from __future__ import annotations

from xml.etree import ElementTree


def words(drawing: ElementTree.Element) -> list[str]:
    return [e.text or "" for e in drawing.iter("text")]
