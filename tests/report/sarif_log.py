"""A log with an error and where SARIF has to place it."""

from __future__ import annotations

#: The part of the SARIF 2.1.0 schema that concerns what is written; names and limits as in the standard.
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "items": {
            "type": "object", "required": ["tool"], "additionalProperties": False,
            "properties": {
                "tool": {"type": "object", "required": ["driver"], "properties": {"driver": {
                    "type": "object", "required": ["name"],
                    "properties": {"rules": {"type": "array", "uniqueItems": True, "items": {
                        "type": "object", "required": ["id"],
                        "properties": {"shortDescription": {"type": "object", "required": ["text"]}},
                    }}},
                }}},
                "results": {"type": "array", "items": {
                    "type": "object", "required": ["message"], "additionalProperties": False,
                    "properties": {
                        "ruleId": {"type": "string"},
                        "ruleIndex": {"type": "integer", "minimum": -1},
                        "level": {"enum": ["none", "note", "warning", "error"]},
                        "message": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
                        "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
                        "locations": {"type": "array", "items": {
                            "type": "object", "required": ["physicalLocation"], "properties": {"physicalLocation": {
                                "type": "object", "required": ["artifactLocation"],
                                "properties": {"region": {
                                    "type": "object", "properties": {"startLine": {"type": "integer", "minimum": 1}},
                                }},
                            }},
                        }},
                    },
                }},
            },
        }},
    },
}  # fmt: skip
