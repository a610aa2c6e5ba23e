"""XML from strangers: what is read, what is refused, and what of a broken file stays."""

from __future__ import annotations

import re

import pytest

from nccl_insight.inputs.limits import DEFAULT
from nccl_insight.readers.xml import begins_with, parse


def test_elements_keep_lines_attributes_and_children() -> None:
    root, problem = parse(b'<system version="1">\n <cpu numaid="0">\n  <gpu dev="3"/>\n </cpu>\n</system>\n')
    assert problem == ""
    assert root is not None
    (cpu,) = root.children
    assert (root.name, root.get("version"), cpu.line, cpu.children[0].line) == ("system", "1", 2, 3)
    assert (cpu.children[0].get("dev"), cpu.get("none", "-")) == ("3", "-")


def test_a_cut_file_keeps_what_came_before() -> None:
    root, problem = parse(b'<system>\n <cpu numaid="0"/>\n <gpu dev=')
    assert problem
    assert root is not None
    assert [child.name for child in root.children] == ["cpu"]


@pytest.mark.parametrize(
    "text",
    [
        b'<!DOCTYPE s [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><s>&b;</s>',
        b'<!DOCTYPE s SYSTEM "file:///etc/passwd"><s/>',
        b"<s>" * (DEFAULT.xml_depth + 2),
        b"text",
    ],
)
def test_what_is_not_read_is_said(text: bytes) -> None:
    _, problem = parse(text)
    assert problem
    assert "root:" not in problem


def test_the_first_bytes_tell_a_document() -> None:
    tag = re.compile(rb"<system\b")
    assert begins_with(b'\xef\xbb\xbf<?xml version="1.0"?>\n<!-- made by hand -->\n<system>', tag)
    assert not begins_with(b"see <system> in the log", tag)
    assert not begins_with(b"<graphs/>", tag)
