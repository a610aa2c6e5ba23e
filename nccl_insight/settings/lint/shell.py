"""Reads shell scripts: sbatch files, launch scripts, commands inside YAML and Dockerfiles. Executes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from nccl_insight.model import Severity
from nccl_insight.settings.catalog import catalog
from nccl_insight.settings.check import Issue
from nccl_insight.settings.lint.arguments import CONTAINERS, argument_settings, nested_scripts, program_of
from nccl_insight.settings.lint.hosts import fresh_environment
from nccl_insight.settings.lint.model import Launch, Script, Setting
from nccl_insight.settings.lint.words import Token, expand, tokenize

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=(.*)", re.S)
_OPENERS = frozenset({"if", "for", "while", "until", "case", "select"})
_CLOSERS = frozenset({"fi", "done", "esac"})
_FILLERS = frozenset({"then", "do", "else", "elif", "!", "time", "exec", "nohup", "command", "builtin"})
_EXPORTERS = frozenset({"export", "declare", "typeset", "readonly", "local", "setenv"})
_QUIET = frozenset(
    {"echo", "printf", "grep", "sed", "awk", "unset", "test", "[", "[[", "true", ":", "logger"}
)
_PREFIXES = ("SINGULARITYENV_", "APPTAINERENV_")
_SEPARATORS = frozenset({";", "&", "&&", "||", "|", "|&", "(", ")", ";;"})
_MAX_NESTING = 4


@dataclass
class _State:
    script: Script
    known: dict[str, str] = field(default_factory=dict)
    depth: int = 0
    conditional_next: bool = False
    functions: int = 0
    allexport: bool = False
    nesting: int = 0
    scope: str = ""

    @property
    def conditional(self) -> bool:
        return self.depth > 0 or self.functions > 0 or self.conditional_next


def read_shell(script: Script, text: str, first_line: int = 1, nesting: int = 0, scope: str = "") -> None:
    """Adds the settings and launches of shell text to ``script``.

    ``scope`` names the container or remote command that runs the text; its settings stay in there.
    """
    state = _State(script, nesting=nesting, scope=scope)
    for words, bodies in _commands(tokenize(text, first_line), state):
        if words:
            _command(words, bodies, state)
    _mentions(script, text)


def read_words(script: Script, words: list[tuple[str, int]], scope: str = "") -> None:
    """Adds what a command given as a list of words (YAML, Dockerfile) sets and starts."""
    state = _State(script, nesting=1, scope=scope)
    tokens = [Token("word", _quote(text), line) for text, line in words if text]
    if tokens:
        _program(tokens, [], state)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"


_LOOP = re.compile(r"\bfor\s+\w+\s+in\s+((?:\\\n|[^;\n])*)")


def _mentions(script: Script, text: str) -> None:
    script.mentioned.update(re.findall(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)", text))
    # Names in a list that a loop forwards: for name in NCCL_IB_HCA NCCL_DEBUG; do ... "${!name}".
    if "${!" in text:
        script.mentioned.update(w for row in _LOOP.findall(text) for w in row.replace("\\\n", " ").split())


def _commands(tokens: Iterator[Token], state: _State) -> Iterator[tuple[list[Token], list[Token]]]:
    """Simple commands: their words, and here-documents fed to them. Keeps track of nesting in ``state``."""
    words: list[Token] = []
    bodies: list[Token] = []
    redirect = False
    pending: tuple[list[Token], bool] | None = None
    for token in tokens:
        if token.kind == "heredoc":
            bodies.append(token)
            continue
        if pending is not None:
            held, state_conditional = pending
            state.conditional_next = state_conditional
            yield held, bodies
            state.conditional_next = False
            pending, bodies = None, []
        if token.kind == "comment":
            _comment(token, state)
        elif token.kind == "newline" or (token.kind == "op" and token.text in _SEPARATORS):
            if token.text == "(" and len(words) == 1:  # NAME ( ) {  : a function
                state.functions += 1
                words = []
                continue
            chained = state.conditional_next
            if token.kind == "newline":
                pending = (words, chained)
            else:
                yield words, []
            words, redirect = [], False
            if token.kind == "newline":
                state.conditional_next = chained and not pending[0] if pending else False
            else:
                state.conditional_next = token.text in {"&&", "||"}
        elif token.kind == "op":
            redirect = token.text not in {"<<", "<<-"}
            if words and words[-1].text.isdigit():
                words.pop()
            if token.text in {"<<", "<<-"}:
                redirect = True
        elif redirect:
            redirect = False
        else:
            words.append(token)
    if pending is not None:
        state.conditional_next = pending[1]
        yield pending[0], bodies
        state.conditional_next = False
        bodies = []
    yield words, bodies


def _comment(token: Token, state: _State) -> None:
    for mark in ("#SBATCH", "#PBS", "#BSUB", "#$"):
        if token.text.startswith(mark):
            state.script.directives.append((token.line, token.text[len(mark) :].strip()))
            if mark == "#SBATCH":
                _sbatch_export(token, state)


def _sbatch_export(token: Token, state: _State) -> None:
    match = re.search(r"--export[= ](\S+)", token.text)
    for part in (match[1] if match else "").split(","):
        name, equals, value = part.partition("=")
        if equals:
            _add(state, name, value, token.line, "#SBATCH --export")


def _command(tokens: list[Token], bodies: list[Token], state: _State) -> None:
    words = [t for t in tokens if t.text]
    while words:
        first = words[0].text
        if first in _OPENERS:
            state.depth += 1
            if first in {"for", "select", "case"}:
                return
            words = words[1:]
        elif first in _CLOSERS:
            state.depth = max(0, state.depth - 1)
            words = words[1:]
        elif first in _FILLERS:
            words = words[1:]
        elif first == "function":
            state.functions += 1
            return
        elif first == "{":
            words = words[1:]
        elif first == "}":
            state.functions = max(0, state.functions - 1)
            words = words[1:]
        else:
            break
    if not words:
        return
    assignments: list[tuple[str, str, bool, int]] = []
    rest = words
    while rest:
        match = _ASSIGNMENT.fullmatch(rest[0].text)
        if match is None:
            break
        value, complete = expand(match[2], state.known)
        assignments.append((match[1], value, complete, rest[0].line))
        rest = rest[1:]
    if not rest:
        for name, value, complete, line in assignments:
            _remember(state, name, value, complete)
            _add(state, name, value, line, "assignment", complete, exported=state.allexport)
        return
    for name, value, complete, line in assignments:
        _add(state, name, value, line, "prefix", complete, scope=rest[0].text)
    _program(rest, bodies, state)


def _remember(state: _State, name: str, value: str, complete: bool) -> None:
    if complete and not state.conditional:
        state.known[name] = value
    else:
        state.known.pop(name, None)


def _program(words: list[Token], bodies: list[Token], state: _State) -> None:
    program = expand(words[0].text, state.known)[0].rsplit("/", 1)[-1]
    if program in _EXPORTERS:
        _export(program, words[1:], state)
        return
    if program == "set" and len(words) > 1 and _ASSIGNMENT.fullmatch(words[1].text):
        _no_setting(words[1], state)
        return
    if program == "set":
        if any(w.text in {"-a", "allexport"} for w in words[1:]):
            state.allexport = True
        if any(w.text == "+a" for w in words[1:]):
            state.allexport = False
        return
    if len(words) > 1 and words[1].text.startswith("=") and catalog().relevant(program):
        _blanks(words[0], state)
        return
    if program in _QUIET:
        return
    expanded = [expand(w.text, state.known) for w in words]
    texts = [text for text, _ in expanded]
    for index, name, value, how in argument_settings(texts):
        raw_complete = expanded[index][1]
        _add(state, name, value, words[index].line, how, raw_complete, scope=texts[0])
    launcher = program_of(texts) or fresh_environment(texts)
    if launcher is not None:
        complete = all(whole for _, whole in expanded)
        state.script.launches.append(
            Launch(launcher, tuple(texts), words[0].line, state.depth > 0 or state.conditional_next, complete)
        )
    if state.nesting < _MAX_NESTING:
        inside = launcher if launcher in CONTAINERS or launcher == "ssh" else state.scope
        for index, text in nested_scripts(texts):
            read_shell(state.script, text, words[index].line, state.nesting + 1, inside or "")
        if texts[0].rsplit("/", 1)[-1] in {"bash", "sh", "srun", "ssh", "sbatch", "cat", "tee"}:
            for body in bodies:
                read_shell(state.script, body.text, body.line, state.nesting + 1, texts[0])


def _export(program: str, words: list[Token], state: _State) -> None:
    exported = program in {"export", "setenv"} or any(w.text.startswith("-") and "x" in w.text for w in words)
    if program == "setenv" and len(words) >= 2:  # csh: setenv NAME VALUE
        value, complete = expand(words[1].text, state.known)
        _add(state, words[0].text, value, words[0].line, "setenv", complete)
        return
    for position, word in enumerate(words):
        following = words[position + 1].text if position + 1 < len(words) else ""
        if following.startswith("=") and _ASSIGNMENT.fullmatch(word.text) is None:
            if catalog().relevant(word.text):
                _blanks(word, state)
            return
        match = _ASSIGNMENT.fullmatch(word.text)
        if (
            match is not None
            and not match[2]
            and following
            and catalog().relevant(match[1])
            and (
                _ASSIGNMENT.fullmatch(following) is None
                and not following.startswith("-")
                and not re.fullmatch(r"[A-Z][A-Z0-9_]*", following)
            )
        ):
            _blanks(Token("word", match[1], word.line), state)
            return
        if match is None:
            if exported and not word.text.startswith("-"):
                state.script.exported_later.add(word.text)
            continue
        value, complete = expand(match[2], state.known)
        _remember(state, match[1], value, complete)
        _add(state, match[1], value, word.line, program, complete, exported=exported or state.allexport)


def _no_setting(word: Token, state: _State) -> None:
    """``set NAME=value``: a positional parameter in sh and bash, a variable of the shell in csh."""
    name = word.text.partition("=")[0]
    if catalog().relevant(name):
        state.script.problems.append((word.line, Issue(
            "env-not-exported", Severity.WARNING, name, f"set {name}=... sets no environment variable",
            f"Write export {name}=... (setenv {name} ... in csh).",
            "In sh and bash, set replaces the positional parameters; in csh it sets a variable of the shell only.",
        )))  # fmt: skip


def _blanks(word: Token, state: _State) -> None:
    state.script.problems.append((word.line, Issue(
        "env-invalid-value", Severity.WARNING, word.text,
        f"{word.text}: blanks around = keep the shell from setting it",
        f"Write export {word.text}=VALUE without blanks.", "The shell takes the words apart: nothing is set.",
    )))  # fmt: skip


def _add(
    state: _State, name: str, value: str, line: int, how: str, complete: bool = True, *,
    exported: bool = True, scope: str = "",
) -> None:  # fmt: skip
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    if name == "NCCL_VERSION" and complete and state.script.version is None and re.match(r"2\.\d+", value):
        state.script.version = value.split("-")[0]
    if not catalog().relevant(name):
        return
    state.script.settings.append(
        Setting(name, value, line, how, exported, state.conditional, complete, scope or state.scope)
    )
    if not complete and catalog().get(name) is not None:
        state.script.not_evaluated.append((line, f"{name}={value}: known only when the script runs"))
