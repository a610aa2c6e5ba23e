"""JSON: objects in what other programs write, and documents for them."""

import json
from typing import Any


def object_of(text: str) -> dict[str, Any]:
    """The JSON object that a text is; empty where it is none, is cut, or is nested without end."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def json_text(document: object) -> str:
    """The document with indents and a newline at its end; the same values always give the same text."""
    import orjson

    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
