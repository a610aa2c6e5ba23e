"""Reads the smaller kinds of files: Dockerfiles, nccl.conf and .env files, Python launch scripts."""

from __future__ import annotations

import re

from nccl_insight.model import Severity
from nccl_insight.settings.catalogue import catalogue
from nccl_insight.settings.check import Issue
from nccl_insight.settings.lint.model import Script, Setting
from nccl_insight.settings.lint.shell import read_shell, read_words
from nccl_insight.settings.lint.words import expand, tokenize

_PYTHON = re.compile(
    r"environ\s*(?:\[\s*|\.setdefault\(\s*|\.update\(\s*\{\s*|\.pop\(\s*)?"
    r"[\"']([A-Za-z_][A-Za-z0-9_]*)[\"']\s*(?:\]\s*=(?!=)|,|:)\s*(.*)$"
)
_PYTHON_PUTENV = re.compile(r"putenv\(\s*[\"']([A-Za-z_][A-Za-z0-9_]*)[\"']\s*,\s*(.*)$")
_LITERAL = re.compile(r"(?:str\(\s*)?(?:\"([^\"\\]*)\"|'([^'\\]*)'|([0-9]+))\s*\)?\s*[,)}]*\s*(?:#.*)?$")
_MAX_ROW = 20_000  # no person writes longer lines, and patterns are slow on them
_INSTRUCTION = re.compile(r"(?i)\s*(ENV|CMD|ENTRYPOINT|RUN|ARG)\s+(.*)$", re.S)


def read_dockerfile(script: Script, text: str) -> None:
    """Adds what ENV sets and what CMD and ENTRYPOINT start."""
    for line, row in _logical_lines(text):
        match = _INSTRUCTION.match(row)
        if match is None:
            continue
        instruction, rest = match[1].upper(), match[2].strip()
        if instruction in {"ENV", "ARG"}:
            _dockerfile_env(script, rest, line, instruction)
        elif instruction in {"CMD", "ENTRYPOINT"}:
            if rest.startswith("["):
                words = re.findall(r'"((?:[^"\\]|\\.)*)"', rest)
                read_words(script, [(word, line) for word in words], "image")
            else:
                read_shell(script, rest, line, 1, "image")


def _dockerfile_env(script: Script, rest: str, line: int, instruction: str) -> None:
    words = [(t.text, t.line) for t in tokenize(rest, line) if t.kind == "word"]
    if words and "=" not in words[0][0] and len(words) >= 2 and instruction == "ENV":
        words = [(f"{words[0][0]}={rest.split(None, 1)[1]}", line)]
    for word, at in words:
        name, equals, raw = word.partition("=")
        value, complete = expand(raw, {})
        if name == "NCCL_VERSION" and complete and re.match(r"2\.\d+", value):
            script.version = script.version or value.split("-")[0]
        if equals and catalogue().relevant(name) and instruction == "ENV":
            script.settings.append(Setting(name, value, at, "Dockerfile ENV", complete=complete))
            if not complete:
                script.not_evaluated.append((at, f"{name}={value}: depends on build arguments"))


def _logical_lines(text: str) -> list[tuple[int, str]]:
    out: list[tuple[int, str]] = []
    held, start = "", 0
    for number, row in enumerate(text.split("\n"), 1):
        row = row.rstrip("\r")
        if row.lstrip().startswith("#"):
            continue
        start = start or number
        if row.rstrip().endswith("\\"):
            held += row.rstrip() + "\n"
            continue
        out.append((start, held + row))
        held, start = "", 0
    if held:
        out.append((start, held))
    return out


def read_conf(script: Script, text: str, literal: bool) -> None:
    """``NAME=VALUE`` lines. ``literal``: nccl.conf, where quotes, blanks and ``export`` are taken as they stand."""
    for number, row in enumerate(text.split("\n"), 1):
        row = row.rstrip("\r")
        if not row.strip() or row.lstrip().startswith("#"):
            continue
        name, equals, value = row.partition("=")
        bare = name.strip().removeprefix("export ").strip()
        if not equals or not catalogue().relevant(bare):
            continue
        if literal and name != bare:
            why = "NCCL takes the text before = as the name, blanks and all"
            script.problems.append((number, _conf_issue(bare, why)))
        if literal and value.strip()[:1] in {'"', "'"}:
            script.problems.append((number, _conf_issue(bare, "NCCL takes the quotes as part of the value")))
        complete = True
        if not literal:
            value, complete = expand(value.strip(), {})
        value = value.strip().strip("\"'")
        script.settings.append(Setting(bare, value, number, "configuration file", complete=complete))


def _conf_issue(name: str, why: str) -> Issue:
    return Issue(
        "env-invalid-value", Severity.WARNING, name, f"{name}: {why}",
        f"Write {name}=VALUE, without blanks and quotes.",
        "The configuration file of NCCL is not read by a shell.",
    )  # fmt: skip


def read_python(script: Script, text: str) -> None:
    """``os.environ["NAME"] = "VALUE"`` and its relatives with literal values."""
    for number, row in enumerate(text.split("\n"), 1):
        row = row.strip()
        if row.startswith("#") or len(row) > _MAX_ROW:
            continue
        match = _PYTHON.search(row) or _PYTHON_PUTENV.search(row)
        if match is None or not catalogue().relevant(match[1]):
            continue
        literal = _LITERAL.match(match[2])
        if literal is None:
            script.not_evaluated.append((number, f"{match[1]}: its value is computed by the program"))
            continue
        value = next(group for group in literal.groups() if group is not None)
        script.settings.append(Setting(match[1], value, number, "os.environ"))
