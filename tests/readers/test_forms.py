"""What a text is by its form, where no reader knows it."""

from __future__ import annotations

import pytest

from nccl_insight.readers.forms import form_of

DEEP = '{"zq": ' + "[" * 20_000


def test_the_form_of_what_is_nested_without_end_is_told() -> None:
    assert form_of(DEEP.encode()) == "JSON with the keys zq, cut short"


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("", ""), ("\n \n", ""), ("#!/usr/bin/env python3\nprint(1)", "a Python script"),
        ("#!/bin/bash\nls", "a shell script"),
        ('{"a": 1, "b-c": 2}', "JSON with the keys a, b-c"), ('{"a": [1,', "JSON with the keys a, cut short"),
        ("<?xml version='1.0'?>\n<system>", "HTML or XML (<system>)"), ("FROM ubuntu\nRUN ls", "a Dockerfile"),
        ("a,b,c\n1,2,3\n4,5,6", "a table (CSV) with the columns a, b, c"),
        ("a,b,c\n1,2\n4,5,6", 'text that begins "a,b,c"'),
    ],
)  # fmt: skip
def test_what_a_text_looks_like(text: str, form: str) -> None:
    assert form_of(text.encode()) == form


def test_bytes_that_are_no_text_have_a_form_too() -> None:
    assert form_of(b"\xef\xbb\xbf#!/bin/sh\n") == "a shell script"
    assert form_of(b"\xff\xfe hello there").startswith("text that begins")
