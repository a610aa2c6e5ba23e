"""JSON objects in what other programs write."""

import json
from typing import Any


def object_of(text: str) -> dict[str, Any]:
    """The JSON object that a text is; empty where it is none, is cut, or is nested without end."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
