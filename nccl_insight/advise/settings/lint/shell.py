"""Reads shell scripts: sbatch files, launch scripts, commands inside YAML and Dockerfiles. Executes nothing.

Commands are taken in the order in which they would run: a function where it is called. ``sh`` and its kin, csh
and fish differ in a few words only.
"""

import re
from collections.abc import Sequence
from itertools import pairwise, zip_longest
from typing import Final

from nccl_insight.advise.settings.catalog import catalog
from nccl_insight.advise.settings.check import Issue, issue_of
from nccl_insight.advise.settings.lint.arguments import (
    argument_settings,
    directive_settings,
    inside,
    kept_settings,
    nested_scripts,
    program_of,
    runtime_environments,
)
from nccl_insight.advise.settings.lint.commands import Command, commands
from nccl_insight.advise.settings.lint.hosts import fresh_environment
from nccl_insight.advise.settings.lint.kinds import DIRECTIVE, kind_of_input, kind_of_target
from nccl_insight.advise.settings.lint.model import Embedded, Launch, Script, Setting
from nccl_insight.advise.settings.lint.words import Known, Token, expand, substitute, substitutions
from nccl_insight.base import texts
from nccl_insight.base.data import dataclass, field, replace
from nccl_insight.base.words import words

_RE: Final = texts.compiled(__file__)

_EXPORTERS = frozenset({"export", "declare", "typeset", "readonly", "local", "setenv"})
_QUIET = frozenset(
    words("""grep sed awk unset test [ [[ true false : logger cd pushd popd ulimit umask shift trap
    source . module ml conda return exit shopt read mkdir sleep wait hostname date end endif break continue""")
)
_WRITERS = frozenset({"echo", "printf", "cat", "tee"})
_REMOTE = frozenset({"ssh", "oarsh", "pdsh", "clush", "pssh", "parallel-ssh", "kubectl", "docker", "podman"})
_BODY_READERS = frozenset({"bash", "sh", "zsh", "srun", "ssh", "sbatch", "qsub", "bsub", "sudo", "kubectl", "docker"})
_MAX_NESTING = 4
_MAX_CALLS = 200
COMMAND = "command in line "  # scope of what one command alone gets
_SAYS = _WRITERS | {"grep", "sed", "awk", "logger", "log", "print", "die", "usage", "warn"}


@dataclass
class _State:
    script: Script
    dialect: str = "sh"
    local: set[str] = field(default_factory=set)
    exported: set[str] = field(default_factory=set)
    empty: frozenset[str] = frozenset()
    functions: dict[str, list[Command]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    called: set[str] = field(default_factory=set)
    budget: int = _MAX_CALLS
    allexport: bool = False
    nesting: int = 0
    scope: str = ""
    conditional: bool = False
    dead: bool = False
    prolog: bool = False
    known: Known = field(init=False)
    begun: dict[str, int] = field(default_factory=dict)  # lines where the text of known variables begins

    def __post_init__(self) -> None:
        self.known = Known(self.script.room)


def read_shell(
    script: Script, text: str, first_line: int = 1, nesting: int = 0, scope: str = "", *,
    dialect: str = "sh", empty: frozenset[str] = frozenset(),
) -> None:  # fmt: skip
    """Adds the settings and launches of shell text to ``script``.

    ``scope`` names the container or remote command that runs the text; its settings stay in there. ``empty``:
    variables of the shell around it that do not get there.
    """
    if dialect == "fish":
        text = re.sub(r"(?<=[\s\"])\((?=\w)", "$(", text)
    state = _State(script, dialect, nesting=nesting, scope=scope, empty=empty)
    state.prolog = nesting == 0 and bool(re.search(r"(?i)task_?prolog", script.path + text[:2000]))
    found = list(commands(text, first_line, dialect, lambda token: _comment(token, state)))
    for command in found:
        if command.function:
            state.functions.setdefault(command.function, []).append(command)
    _mentions(script, text)
    _run([c for c in found if not c.function], found, state)
    _uncalled(found, state)
    _subshells(script, found)


def read_words(script: Script, words: list[tuple[str, int]], scope: str = "") -> None:
    """Adds what a command given as a list of words (YAML, Dockerfile) sets and starts."""
    tokens = [Token("word", "'" + text.replace("'", "'\"'\"'") + "'", line) for text, line in words if text]
    if tokens:
        _program(Command(tokens), tokens, _State(script, nesting=1, scope=scope), [])


def read_own_shell(
    script: Script, text: str, line: int, whose: str, step: str, *, scope: str = "", build: bool = False
) -> None:
    """Text that a shell of its own runs: what it exports is lost unless the text itself starts something.

    ``build``: the shell makes an image, where only a launch reads the settings.
    """
    inner = Script(script.path, "shell", version=script.version, room=script.room)
    read_shell(inner, text, line, 1, scope)
    exported = {s.name for s in inner.settings if s.exported} | inner.exported_later | inner.mentioned
    for setting in inner.settings:
        if setting.dead or setting.how not in {"export", "setenv", "assignment", "declare"}:
            continue
        used = any(at > setting.seq for at in ([run.seq for run in inner.launches] if build else inner.ran))
        if used and setting.name not in exported and not build:
            issue = not_exported(setting.name, f"export {setting.name}={setting.value[:60]}")
            script.problems.append((setting.line, issue))
        elif not used and setting.name not in inner.mentioned:
            said = step.format(name=setting.name, value=setting.value[:60])
            issue = issue_of("set-shell-own", setting.name, setting=setting, whose=whose, step=said)
            script.problems.append((setting.line, issue))
    at = script.seq
    script.settings += [replace(s, seq=s.seq + at) for s in inner.settings]
    script.launches += [replace(launch, seq=launch.seq + at) for launch in inner.launches]
    script.ran += [ran + at for ran in inner.ran]
    script.take(inner)
    script.mentioned |= inner.mentioned
    script.exported_later |= inner.exported_later
    script.version = script.version or inner.version


def not_exported(name: str, write: str) -> Issue:
    """A variable of the shell, of make or of Tcl that is no environment variable."""
    return issue_of("assigned-but-exported", name, write=write)


def _mentions(script: Script, text: str) -> None:
    script.mentioned.update(_RE["names_in"].findall(text))
    # Names in a list that a loop forwards: for name in NCCL_IB_HCA NCCL_DEBUG; do ... "${!name}".
    if "${!" in text:
        script.mentioned.update(w for row in _RE["loop"].findall(text) for w in row.replace("\\\n", " ").split())


def _run(part: Sequence[Command], everything: Sequence[Command], state: _State) -> None:
    """Commands in the order of the text; a call of a function runs its commands."""
    outer = (state.conditional, state.dead)
    for command in part:
        state.conditional = outer[0] or command.conditional
        state.dead = outer[1] or command.dead
        _command(command, state, everything)
    state.conditional, state.dead = outer


def _call(name: str, state: _State, everything: Sequence[Command]) -> None:
    state.called.add(name)
    if name in state.calls or state.budget <= 0 or len(state.calls) > _MAX_NESTING:
        return
    state.budget -= 1
    state.calls.append(name)
    _run(state.functions[name], everything, state)
    state.calls.pop()


def _uncalled(found: Sequence[Command], state: _State) -> None:
    """Functions that nothing calls: dead text where the file runs something, else a library for others."""
    open_ended = any(
        c.words and c.words[0].text.lstrip('"').startswith(("$@", "$1", "${1", "${@", "$*")) for c in found
    )
    runs = bool(state.script.ran) and not open_ended
    for name in state.functions:
        if name in state.called or name in state.script.exported_later:
            continue
        state.dead = runs
        state.conditional = True
        _run(state.functions[name], found, state)
    state.dead = state.conditional = False


def _subshells(script: Script, found: Sequence[Command]) -> None:
    """Exports in ``( ... )`` that starts nothing."""
    for shell in {c.subshell for c in found if c.subshell}:
        inside = [c for c in found if c.subshell == shell and c.words]
        first, last = inside[0].words[0].line, inside[-1].words[-1].line
        names = [w.text for c in inside for w in c.words[:1]]
        if not all(name in _EXPORTERS | _QUIET or _RE["assignment"].fullmatch(name) for name in names):
            continue
        for index, setting in enumerate(script.settings):
            if first <= setting.line <= last and not setting.scope and setting.how in {"export", "setenv"}:
                script.settings[index] = replace(setting, scope="subshell")
                issue = issue_of("exported-subshell-ends", setting.name, setting=setting)
                script.problems.append((setting.line, issue))


def _comment(token: Token, state: _State) -> None:
    mark = DIRECTIVE.match(token.text)
    if mark is None:
        return
    rest = token.text[mark.end() :].strip()
    state.script.directives.append((token.line, rest))
    for given in directive_settings(mark[0], rest):
        _add(state, Setting(given.name, given.value, token.line, f"{mark[0]} {given.how}"))
        if given.problem is not None:
            state.script.problems.append((token.line, given.problem))


def _inner_commands(command: Command, state: _State) -> None:
    """What a command names, and the commands within its words: ``X=$(NAME=value COMMAND)``."""
    said = bool(command.words) and command.words[0].text in _SAYS
    for token in () if said else (*command.words, *command.elements):
        state.script.named += [(token.line, bare or put) for bare, put in _RE["named"].findall(token.text)]
        for name, value in _RE["default"].findall(token.text):
            _add(state, Setting(name, value, token.line, "default", exported=name in state.exported))
        if "CCL_" in token.text and state.nesting < _MAX_NESTING:
            for above, text in substitutions(token.text):
                read_shell(state.script, text, token.line + above, state.nesting + 1, f"{COMMAND}{token.line}")


def _command(command: Command, state: _State, everything: Sequence[Command]) -> None:
    words = command.words
    _inner_commands(command, state)
    if command.loop:
        state.script.assigned.add(command.loop)
        state.local.add(command.loop)
        state.known.pop(command.loop, None)
    for element in command.elements:  # of an array, for a launcher
        text, complete = expand(element.text, state.known)
        pair = _RE["assignment"].fullmatch(_RE["element"].sub(r"\1=", _RE["option"].sub("", text)))
        if pair is not None:
            _add(state, Setting(pair[1], pair[2], element.line, "arguments", complete=complete, scope="arguments"))
    if not words:
        return
    assignments: list[tuple[str, str, bool, int]] = []
    rest = words
    while rest and state.dialect != "csh":
        match = _RE["assignment"].fullmatch(rest[0].text)
        if match is None:
            break
        value, complete = expand(match[2], state.known)
        assignments.append((match[1], value, complete, rest[0].line))
        rest = rest[1:]
    if not rest:
        for name, value, complete, line in assignments:
            _remember(state, name, value, complete, state.allexport)
            _add(state, Setting(name, value, line, "assignment", complete=complete, exported=state.allexport))
            for inner, given in kept_settings(value):
                _add(state, Setting(inner, given, line, "arguments", scope="arguments"))
            state.begun[name] = first = line + ("<<" in words[0].text.partition("\n")[0])
            kept = _RE["command_kept"].match(value) or _RE["exports"].search(value)
            if not complete and kept and state.nesting < _MAX_NESTING:
                read_shell(state.script, value, first, state.nesting + 1, f"{COMMAND}{line}")
            if value.lstrip()[:1] == "{" and "CCL_" in value:  # JSON, for a launcher
                state.script.embedded.append(Embedded(first, value, "yaml", open=not complete))
        return
    for name, value, complete, line in assignments:
        _add(state, Setting(name, value, line, "prefix", complete=complete, scope=f"{COMMAND}{rest[0].line}"))
    _program(command, rest, state, everything)


def _remember(state: _State, name: str, value: str, complete: bool, exported: bool) -> None:
    state.script.assigned.add(name)
    if complete and not state.conditional:
        state.known[name] = value
    else:
        state.known.pop(name, None)
    if exported:
        state.exported.add(name)
    elif name not in state.exported:
        state.local.add(name)


def _program(command: Command, words: list[Token], state: _State, everything: Sequence[Command]) -> None:
    program = expand(words[0].text, state.known)[0].rsplit("/", 1)[-1]
    if program in state.functions:
        _call(program, state, everything)
    elif program == "set":
        _set(words, state)
    elif program == "setenv" or (program in _EXPORTERS and state.dialect == "csh"):
        _setenv(program, words[0].line, _unquoted(words[1:]), state)
    elif program in _EXPORTERS:
        _export(program, _unquoted(words[1:]), state)
    elif len(words) > 1 and words[1].text.startswith("=") and catalog().relevant(program):
        _blanks(words[0].text, words[0].line, state)
    elif not _quiet(program, command, words, state):
        _starts(command, words, state)


def _quiet(program: str, command: Command, words: list[Token], state: _State) -> bool:
    """Takes what a command of the shell does; whether it starts nothing."""
    if program in _WRITERS:
        _writes(program, command, words, state)
        return program != "tee"
    if program == "read" and command.bodies:
        body, name = command.bodies[0], words[-1].text
        _remember(state, name, body.text if body.quoted else substitute(body.text, state.known), True, False)
        state.begun[name] = body.line
    return program in _QUIET and not (program == "conda" and "vars" in {w.text for w in words})


def _starts(command: Command, words: list[Token], state: _State) -> None:
    """A program with its settings, and what it starts in turn."""
    state.script.ran.append(state.script.seq)
    expanded = [expand(w.text, state.known) for w in words]
    texts = [text for text, _ in expanded]
    for given in argument_settings(texts):
        line = words[given.index].line
        complete = expanded[given.index][1]
        _add(state, Setting(given.name, given.value, line, given.how, complete=complete, scope=texts[0]))
        if given.problem is not None:
            _tell(state, line, given.problem)
    launcher = program_of(texts) or fresh_environment(texts)
    if launcher is not None and not state.dead:
        whole, line = all(whole for _, whole in expanded), words[0].line
        launch = Launch(launcher, tuple(texts), line, state.conditional, whole, state.script.seq)
        state.script.launches.append(launch)
    for index, text in runtime_environments(texts):
        if _RE["put_in"].search(words[index].text) is None:  # else read where the variable was set
            state.script.embedded.append(Embedded(words[index].line, text, "yaml"))
    if state.nesting < _MAX_NESTING:
        _inside(command, launcher, words, texts, state)


def _inside(command: Command, launcher: str | None, words: list[Token], texts: list[str], state: _State) -> None:
    """Scripts that the command hands to a shell: as an argument, or as a here-document."""
    program = texts[0].rsplit("/", 1)[-1]
    inside = state.scope if program == "eval" else launcher or program
    said = " ".join(texts)
    lost = state.local - state.exported | (state.exported if launcher in _REMOTE else set())
    lost = {name for name in lost if f"{name}=" not in said}
    lines = texts
    if any("\\\n" in w.text for w in words):
        lines = [expand(w.text, state.known, joined=False)[0] for w in words]
    for index, text in nested_scripts(lines):
        raw = words[index].text
        literal = re.fullmatch(r"(?s)'[^']*'", raw) is not None
        line = state.begun.get(raw.strip('"${}'), words[index].line)
        empty = frozenset(lost if literal else ())
        read_shell(state.script, text, line, state.nesting + 1, inside, empty=empty)
    for body in command.bodies:
        kind = kind_of_input(said) or ("yaml" if body.text.lstrip()[:1] == "{" else "shell")
        if kind != "shell":
            state.script.embedded.append(Embedded(body.line, body.text, kind, open=not body.quoted))
        elif {program, launcher} & _BODY_READERS:
            empty = frozenset(lost if body.quoted and texts[0] not in {"sbatch", "qsub", "bsub"} else ())
            read_shell(state.script, body.text, body.line, state.nesting + 1, inside, empty=empty)


def _writes(program: str, command: Command, words: list[Token], state: _State) -> None:
    """``cat``, ``echo``, ``printf``, ``tee`` whose text ends in a file that NCCL or a launcher reads."""
    expanded = _texts(words[1:], state)
    targets = [expand(t, state.known)[0] for t in command.targets]
    targets += _files(expanded) if program == "tee" else []
    reader = _texts(command.pipe.words, state) if command.pipe else []
    piped = bool(reader) and "tee" not in reader[:3]
    if piped:
        targets = [" ".join(reader)]
    elif reader:
        targets += _files(reader[reader.index("tee") + 1 :])
    texts = [(b.text, b.line, not b.quoted) for b in command.bodies]
    if program in {"echo", "printf"}:
        said = _echoed(program, expanded)
        texts.append((said, words[0].line, False))
        for name, value in _RE["export_row"].findall(said) if state.prolog and not targets else ():
            _add(state, Setting(name, value, words[0].line, "printed for the task"))
    for target in targets if state.nesting < _MAX_NESTING and not state.dead else ():
        for text, line, unquoted in texts:
            kind = kind_of_input(target) if piped else kind_of_target(target, text)
            if kind is not None:
                filled = substitute(text, state.known) if unquoted else text
                state.script.embedded.append(Embedded(line, filled, kind, target, unquoted))


def _texts(words: Sequence[Token], state: _State) -> list[str]:
    return [expand(w.text, state.known)[0] for w in words]


def _files(words: Sequence[str]) -> list[str]:
    return [w for w in words if not w.startswith("-")]


def _echoed(program: str, words: Sequence[str]) -> str:
    """What ``echo`` or ``printf`` prints; a format is used again until nothing is left."""
    plain = [w for w in words if not re.fullmatch(r"-[neE]+", w)]
    each = plain[0].count("%s") if program == "printf" and plain else 0
    if each:
        plain = [_printed(plain[0], plain[at : at + each]) for at in range(1, len(plain), each)]
    return ("" if each else " ").join(plain).replace("\\n", "\n")


def _printed(form: str, given: Sequence[str]) -> str:
    parts = form.split("%s")
    return "".join(text for pair in zip_longest(parts, given[: len(parts) - 1], fillvalue="") for text in pair)


def _set(words: list[Token], state: _State) -> None:
    if state.dialect == "fish":
        _fish_set(words, state)
        return
    # Positional parameters in sh and bash, a variable of the shell in csh.
    plain = [w for w in words[1:] if w.text[:1] not in "-+"] if words[1:] and words[1].text != "--" else []
    if plain and catalog().relevant(name := plain[0].text.partition("=")[0]):
        _tell(state, plain[0].line, issue_of("set-sets-environment", name))
    elif any(w.text in {"-a", "allexport"} or re.fullmatch(r"-[a-z]*a[a-z]*", w.text) for w in words[1:]):
        state.allexport = True
    elif any(w.text == "+a" for w in words[1:]):
        state.allexport = False


def _fish_set(words: list[Token], state: _State) -> None:
    """``set -gx NAME VALUE ...`` of fish; without -x other programs do not see it."""
    options = "".join(
        w.text.lstrip("-")[:1] if w.text.startswith("--") else w.text for w in words[1:] if w.text.startswith("-")
    )
    plain = [w for w in words[1:] if not w.text.startswith("-")]
    exported = "x" in options or any(w.text == "--export" for w in words)
    if not plain or set(options) & set("eqSn"):
        return
    name = plain[0].text
    if "=" in name and catalog().relevant(name.partition("=")[0]):
        _blanks(name.partition("=")[0], plain[0].line, state, f"set -gx {name.replace('=', ' ')}")
        return
    parts = [expand(w.text, state.known) for w in plain[1:]]
    value, complete = " ".join(text for text, _ in parts), all(whole for _, whole in parts)
    _remember(state, name, value, complete, exported)
    how = "export" if exported else "assignment"
    _add(state, Setting(name, value, plain[0].line, how, complete=complete, exported=exported))


def _unquoted(tokens: Sequence[Token]) -> list[Token]:
    return [replace(token, text=_RE["quoted"].sub(r"\2\1\3\1", token.text)) for token in tokens]


def _export(program: str, words: list[Token], state: _State) -> None:
    """Settings by ``export`` and its kin."""
    flags = {w.text for w in words if w.text.startswith("-")}
    if program == "export" and flags & {"-n", "-f"}:
        return
    exported = program == "export" or any("x" in flag for flag in flags)
    for word, after in pairwise([*words, Token("word", "", 0)]):
        match = _RE["assignment"].fullmatch(word.text)
        name = match[1] if match else word.text
        ours = catalog().relevant(name)
        if after.text[:1] == "=" if match is None else ours and after.text and not _RE["next"].match(after.text):
            if ours:
                _blanks(name, word.line, state)
            return
        if match is not None:
            value, complete = expand(match[2], state.known)
            known = exported or state.allexport
            _remember(state, name, value, complete, known)
            _add(state, Setting(name, value, word.line, program, complete=complete, exported=known))
        elif exported and name not in flags:
            state.script.exported_later.add(name)
            state.exported.add(name)


def _setenv(program: str, at: int, words: list[Token], state: _State) -> None:
    """A setting by ``setenv``, or by what csh does not know instead."""
    name, line = (words[0].text, words[0].line) if words else ("", at)
    if program != "setenv":
        if catalog().relevant(name.partition("=")[0]):
            _foreign(name.partition("=")[0], line, f"{program} is no command of csh", state)
    elif state.dialect != "csh" and state.script.kind == "shell" and catalog().relevant(name):
        _foreign(name, at, "setenv belongs to csh: this shell does not know it", state)
    elif state.dialect == "csh" and "=" in name:
        _blanks(name.partition("=")[0], line, state, "setenv NAME VALUE")
    elif len(words) >= 2:
        value, complete = expand(words[1].text, state.known)
        _remember(state, name, value, complete, True)
        _add(state, Setting(name, value, line, "setenv", complete=complete))


def _tell(state: _State, line: int, issue: Issue) -> None:
    if not state.dead:
        state.script.problems.append((line, issue))


def _foreign(name: str, line: int, why: str, state: _State) -> None:
    good = f"setenv {name} VALUE" if state.dialect == "csh" else f"export {name}=VALUE"
    _tell(state, line, issue_of("foreign-set", name, why=why, good=good))


def _blanks(name: str, line: int, state: _State, good: str = "") -> None:
    wrong = "this shell wants a blank, not =" if good else "blanks around = keep the shell from setting it"
    good = good or f"export {name}=VALUE without blanks"
    _tell(state, line, issue_of("blanks", name, wrong=wrong, good=good))


def _add(state: _State, setting: Setting) -> None:
    value, line, scope = setting.value, setting.line, setting.scope
    said, name = setting.name, inside(setting.name)
    if said != name:
        scope = scope or ("container" if setting.exported else f"container {said}")
    if name == "NCCL_VERSION" and setting.complete and state.script.version is None and re.match(r"2\.\d+", value):
        state.script.version = value.split("-")[0]
    if not catalog().relevant(name):
        return
    script = state.script
    if state.prolog and setting.how == "export" and not state.dead:
        _tell(state, line, issue_of("exported-taskprolog-which", name, value=value))
        return
    blank = (
        sorted(set(_RE["names_in"].findall(value)) & state.empty - state.known.keys()) if not setting.complete else []
    )
    if blank:
        _tell(state, line, issue_of("empty-there-variable", name, value=value, blank=blank))
    where = replace(setting, name=name, scope=scope or state.scope, conditional=state.conditional)
    script.settings.append(replace(where, dead=state.dead, seq=script.seq))
    if not setting.complete and catalog().get(name) is not None and not state.dead:
        script.not_evaluated.append((line, f"{name}={value}: known only when the script runs"))
