"""Reads Kubernetes manifests, compose files and other YAML for variables and commands, line by line.

Not a YAML parser: it understands ``name:``/``value:`` pairs, mappings and lists of ``NAME=VALUE``, commands
given as lists, and block scalars that hold shell text. Templates ({{ }}) are values it cannot know.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nccl_insight.model import Severity
from nccl_insight.settings.catalogue import catalogue
from nccl_insight.settings.check import Issue
from nccl_insight.settings.lint.model import Script, Setting
from nccl_insight.settings.lint.shell import read_shell, read_words

_BLOCK = re.compile(r"(\s*)((?:-\s+)*)(?:[\w.\-/\"']+\s*:\s*)?[|>][+-]?[0-9]?\s*(?:#.*)?$")
_PAIR = re.compile(r"\s*(?:-\s+)?[\"']?([A-Za-z_][A-Za-z0-9_]*)[\"']?\s*:\s+(.*)$")
_ITEM = re.compile(r"(\s*)-\s+(.*)$")
_NAME = re.compile(r"(\s*)(-\s+)?name\s*:\s*(\S.*)$")
_VALUE = re.compile(r"(\s*)(-\s+)?value\s*:\s*(.*)$")
_FLOW = re.compile(r"-?\s*\{\s*name\s*:\s*([^,}]+),\s*value\s*:\s*(.*?)\s*\}\s*$")
_COMMAND = re.compile(r"(\s*)(?:-\s+)?(command|args|entrypoint)\s*:\s*(.*)$")
_EQUALS = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)$", re.S)
_WINDOW = 4
_MAX_ROW = 20_000  # no person writes longer lines, and patterns are slow on them


def read_yaml(script: Script, text: str) -> None:
    """Adds the settings and commands of YAML text to ``script``."""
    lines = text.split("\n")
    number = 0
    document = 0
    while number < len(lines):
        row = lines[number].rstrip("\r")
        if row.startswith("---"):
            document += 1
        scope = f"document {document}"
        if not row.strip() or row.lstrip().startswith("#") or len(row) > _MAX_ROW:
            number += 1
            continue
        block = _BLOCK.fullmatch(row)
        if block is not None:
            number = _block(script, lines, number, len(block[1]) + len(block[2]), scope)
            continue
        command = _COMMAND.fullmatch(row)
        if command is not None:
            number = _command(script, lines, number, len(command[1]), command[3], scope)
            continue
        _entry(script, lines, number, row, scope)
        number += 1


def scalar(text: str) -> tuple[str, bool]:
    """Text of a YAML scalar and whether it was quoted."""
    text = text.strip()
    if text[:1] in {'"', "'"}:
        end = text.find(text[0], 1)
        while end > 0 and text[end - 1] == "\\" and text[0] == '"':
            end = text.find(text[0], end + 1)
        return (text[1:end] if end > 0 else text[1:]), True
    return re.split(r"\s#", text, maxsplit=1)[0].strip(), False


def _block(script: Script, lines: Sequence[str], number: int, indent: int, scope: str) -> int:
    body: list[str] = []
    start = number + 1
    end = start
    while end < len(lines) and (
        not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > indent
    ):
        body.append(lines[end])
        end += 1
    filled = [row for row in body if row.strip()]
    cut = min((len(row) - len(row.lstrip()) for row in filled), default=0)
    read_shell(script, "\n".join(row[cut:] for row in body), start + 1, 1, scope)
    return end


def _command(script: Script, lines: Sequence[str], number: int, indent: int, rest: str, scope: str) -> int:
    words: list[tuple[str, int]] = []
    end = number + 1
    if rest.strip().startswith("["):
        flow = rest
        while "]" not in flow and end < len(lines):
            flow += " " + lines[end].strip()
            end += 1
        words = [(word, number + 1) for word in _flow_items(flow)]
    elif rest.strip():
        words = [(scalar(rest)[0], number + 1)]
    while end < len(lines):
        row = lines[end].rstrip("\r")
        item = _ITEM.fullmatch(row)
        if not row.strip() or row.lstrip().startswith("#"):
            end += 1
        elif item is None or len(item[1]) < indent or re.match(r"\s*-\s+[\w-]+:\s", row):
            break
        elif _BLOCK.fullmatch(row):
            end = _block(script, lines, end, len(item[1]), scope)
        else:
            words.append((scalar(item[2])[0], end + 1))
            end += 1
    read_words(script, [w for w in words if " " not in w[0]], scope)
    for word, line in words:
        if " " in word:
            read_shell(script, word, line, 1, scope)
    return end


def _flow_items(text: str) -> list[str]:
    return [a or b or c for a, b, c in re.findall(r'"((?:[^"\\]|\\.)*)"|\'([^\']*)\'|([^\s,\[\]"\']+)', text)]


def _entry(script: Script, lines: Sequence[str], number: int, row: str, scope: str) -> None:
    flow = _FLOW.fullmatch(row.strip())
    if flow is not None:
        _add(script, scalar(flow[1])[0], flow[2], number + 1, scope, strings_only=True)
        return
    named = _NAME.fullmatch(row)
    if named is not None:
        name = scalar(named[3])[0]
        if catalogue().relevant(name):
            _named(script, lines, number, name, len(named[1]) + len(named[2] or ""), scope)
        return
    pair = _PAIR.fullmatch(row)
    if pair is not None:
        if catalogue().relevant(pair[1]):
            _add(script, pair[1], pair[2], number + 1, scope)
        return
    item = _ITEM.fullmatch(row)
    if item is not None:
        equals = _EQUALS.fullmatch(scalar(item[2])[0])
        if equals is not None and catalogue().relevant(equals[1]):
            _add(script, equals[1], f'"{equals[2]}"', number + 1, scope)


def _named(script: Script, lines: Sequence[str], number: int, name: str, column: int, scope: str) -> None:
    """The ``value:`` that belongs to a ``name:``: a neighbour in the same column."""
    above = (
        _VALUE.fullmatch(lines[number - 1].rstrip("\r"))
        if number and not _ITEM.fullmatch(lines[number])
        else None
    )
    if above is not None and above[2] and len(above[1]) + len(above[2]) == column:
        _add(script, name, above[3], number, scope, strings_only=True)
        return
    for position in range(number + 1, min(number + _WINDOW, len(lines))):
        row = lines[position].rstrip("\r")
        if _NAME.fullmatch(row) or (row.strip() and len(row) - len(row.lstrip()) < column):
            break
        value = _VALUE.fullmatch(row)
        if value is not None and len(value[1]) + len(value[2] or "") == column:
            _add(script, name, value[3], position + 1, scope, strings_only=True)
            return
        if re.match(r"\s*valueFrom\s*:", row):
            break
    script.not_evaluated.append(
        (number + 1, f"{name}: its value comes from elsewhere (valueFrom or a template)")
    )


def _add(script: Script, name: str, raw: str, line: int, scope: str, strings_only: bool = False) -> None:
    value, quoted = scalar(raw)
    if not quoted and value.lower() in {"", "null", "~"}:
        return
    complete = "{{" not in value and "$(" not in value and "${" not in value
    script.settings.append(Setting(name, value, line, "YAML env", complete=complete, scope=scope))
    if not complete:
        script.not_evaluated.append(
            (line, f"{name}={value}: known only when the manifest is rendered or the pod runs")
        )
    elif strings_only and not quoted and re.fullmatch(r"[+-]?[0-9.]+|(?i:true|false|yes|no|on|off)", value):
        script.problems.append((line, Issue(
            "env-invalid-value", Severity.ERROR, name,
            f"{name}: value {value} is not quoted, and Kubernetes takes only strings",
            f'Write value: "{value}".', "The API server refuses the manifest (cannot unmarshal into a string).",
            value, f'"{value}"',
        )))  # fmt: skip
