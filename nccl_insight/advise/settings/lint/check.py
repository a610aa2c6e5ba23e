"""The entry points: one file, or the variables of an environment, in; findings with their lines out."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from nccl_insight.advise.settings.catalog import catalog, edit_distance
from nccl_insight.advise.settings.check import Issue, check_name, check_pinned, check_setting, check_together, issue_of
from nccl_insight.advise.settings.check.values import RCCL_LEVEL
from nccl_insight.advise.settings.lint import declared
from nccl_insight.advise.settings.lint.files import read_conf, read_dockerfile, read_unit
from nccl_insight.advise.settings.lint.hosts import check_hosts
from nccl_insight.advise.settings.lint.kinds import kind_of
from nccl_insight.advise.settings.lint.launch import check_launch
from nccl_insight.advise.settings.lint.machine import check_machine, one_node, vendor_of
from nccl_insight.advise.settings.lint.model import Embedded, LintFinding, LintResult, Script, Setting
from nccl_insight.advise.settings.lint.pods import check_pods
from nccl_insight.advise.settings.lint.prints import will_print
from nccl_insight.advise.settings.lint.python_ import read_python
from nccl_insight.advise.settings.lint.shell import COMMAND, read_shell
from nccl_insight.advise.settings.lint.yaml_ import read_yaml
from nccl_insight.base import texts
from nccl_insight.base.model import Severity
from nccl_insight.base.natures import called
from nccl_insight.base.words import line_at

_RE: Final = texts.compiled(__file__)

_READERS: Final[Mapping[str, Callable[[Script, str], object]]] = {
    "shell": read_shell, "csh": partial(read_shell, dialect="csh"), "fish": partial(read_shell, dialect="fish"),
    "yaml": lambda script, text: script.problems.extend(check_pods(read_yaml(script, text))),
    "dockerfile": read_dockerfile, "nccl.conf": read_conf, "env-file": read_conf, "python": read_python,
    "unit": read_unit, **declared.READERS,
}  # fmt: skip
KINDS = tuple(_READERS)
_MOST_EMBEDDED: Final = 100
_COSTLY = frozenset({"COLL", "CALL", "PROXY", "ALL", "ALLOC", "REG"})
_TRAINERS: Final = frozenset({"torchrun", "accelerate", "deepspeed"})


def read_script(path: str, text: str, kind: str | None = None) -> Script:
    """The settings and launches of a file and of those it holds or writes. Never raises on odd text."""
    script = Script(path, kind or kind_of(path, text))
    reader = _READERS.get(script.kind)
    if reader is not None:
        reader(script, _rendered(script, text))
    for number, part in enumerate(script.embedded):  # grows while files hold files
        if number >= _MOST_EMBEDDED:
            script.not_evaluated.append((part.line, "more files inside this one"))
            break
        _embedded(script, part)
    if script.room.left < 0:
        script.not_evaluated.append((1, "variables: put in, they would make the file many times as large"))
    return script


def _rendered(script: Script, text: str) -> str:
    """A template without its statements; in shell text its values are variables that nobody knows."""
    if "{%" not in text and "<%" not in text and (script.kind != "shell" or "{{" not in text):
        return text
    text = _RE["statement"].sub(lambda m: "\n" * m[0].count("\n"), text)
    return _RE["expression"].sub("$x", text) if script.kind == "shell" else text


def _embedded(script: Script, part: Embedded) -> None:
    inner = Script(part.path or f"embedded.{part.kind}", part.kind, room=script.room)
    above = "\n" * (part.line - 1)
    if part.kind in {"nccl.conf", "env-file"}:
        read_conf(inner, part.text, part.path, part.line, filled=part.open)
    elif part.kind == "shell":
        read_shell(inner, part.text, part.line, 2)
        script.problems += [*check_launch(inner), *check_hosts(inner, part.text, part.line)]
    else:
        _READERS[part.kind](inner, above + part.text)
    scope = f"{part.kind} in line {part.line}"
    script.settings += [replace(s, scope=f"{scope} {s.scope}") for s in inner.settings]
    script.take(inner)


def lint_text(path: str, text: str, version: str | None = None, kind: str | None = None) -> LintResult:
    """All findings about one file. ``version`` is the NCCL release the job will use, None if not known."""
    script = read_script(path, text, kind)
    version = version or script.version
    rows = text.replace("\r\n", "\n").split("\n")
    alone, amd = one_node(script, text), vendor_of(script, text) == "AMD"
    bench = _RE["bench"].search(text) is not None and not _TRAINERS & {launch.program for launch in script.launches}
    found: list[tuple[int, Issue]] = [
        *(_quieter(item, alone, bench, amd) for item in _settings(script, version) if not _served(script, item, text)),
        *script.problems,
        *_named(script),
        *check_launch(script),
        *check_hosts(script, text),
        *check_machine(script, text),
        *_limits(script, text),
        *_traps(script, text),
    ]
    findings = tuple(
        LintFinding(path, line, issue, rows[line - 1].strip() if 0 < line <= len(rows) else "")
        for line, issue in _unique(found)
    )
    judged, unknown = bool(script.settings or script.launches or found), tuple(sorted(set(script.not_evaluated)))
    settings, prints = tuple(script.settings), _prints(script)
    return LintResult(path, script.kind, findings, settings, unknown, version, judged=judged, prints=prints)


def _quieter(item: tuple[int, Issue], alone: bool, bench: bool, amd: bool) -> tuple[int, Issue]:
    """What is a choice, not a fault: an interface that reaches no other host where all ranks are on one; a benchmark
    that leaves only the network, to measure it; a level of RCCL on GPUs of AMD."""
    line, issue = item
    chosen = (alone and issue.name == called("far-interface")) or (
        bench and issue.variable == "NCCL_SHM_DISABLE" and issue.name != called("bad-value")
    )
    named = (issue.variable, issue.name, issue.observed.upper())
    if chosen or (amd and named == ("NCCL_DEBUG", called("bad-value"), RCCL_LEVEL)):
        return line, replace(issue, severity=Severity.INFO)
    return item


def _named(script: Script) -> Iterator[tuple[int, Issue]]:
    """Names of settings that are passed on, taken away or looked at, that nothing here sets and NCCL does not know."""
    given = {s.name for s in script.settings} | script.assigned
    own = set(given)
    for line, name in script.named:
        issue = check_name(name) if name not in own and catalog().relevant(name) else None
        if issue is not None and issue.severity is Severity.WARNING and name not in catalog().myths:
            yield line, issue
        own.add(name)
    for setting in script.settings:  # NAME=$MANE
        put, name = _RE["put_in"].fullmatch(setting.value), setting.name
        if put is None or put[1] in given or len(put[1]) != len(name) or any(map(str.isdigit, put[1])):
            continue
        if not catalog().relevant(put[1]) and edit_distance(put[1], name, 1) == 1:
            why = f"Nothing here sets {put[1]}, so {name} gets no value."
            issue = issue_of("version-knows-did", put[1], source="", shown=put[1], near=name, explanation_said=why)
            yield setting.line, issue


def _served(script: Script, item: tuple[int, Issue], text: str) -> bool:
    """Whether a file runs programs of nccl-tests only, none of them a collective that the algorithm leaves out.

    In a list of tests the program that was named last counts.
    """
    line, issue = item
    if issue.name != called("no-algorithm"):
        return False
    named = [(line_at(text, m.start()), m[1].replace("_", "")) for m in _RE["perf"].finditer(text)]
    above = [name for number, name in named if number <= line]
    runs = set(above[-1:] if script.kind == "yaml" and above else [name for _, name in named])
    return bool(runs) and not runs & set(issue.left)


def lint_environment(environment: Mapping[str, str], version: str | None = None) -> LintResult:
    """All findings about the variables of a process. Other variables than ours are not looked at."""
    names = sorted(name for name in environment if catalog().relevant(name))
    script = Script("environment", "environment")
    script.settings.extend(Setting(name, environment[name], 0, "environment") for name in names)
    findings = tuple(
        LintFinding("environment", 0, issue, f"{issue.variable}={environment.get(issue.variable, '')}")
        for _, issue in _unique(_settings(script, version))
    )
    return LintResult(
        "environment", "environment", findings, tuple(script.settings), (), version, prints=_prints(script)
    )


def _prints(script: Script) -> tuple[str, ...]:
    """Only where something is launched or configured for NCCL, and no value stays open."""
    names = {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS"}
    unsure = any(s.name in names and (s.conditional or not s.complete) for s in script.settings)
    if unsure or not (script.settings or script.launches):
        return ()
    return tuple(will_print({s.name: s.value for s in _effective(script)}))


def _settings(script: Script, version: str | None) -> Iterator[tuple[int, Issue]]:
    single = [
        (setting.line, replace(issue, severity=Severity.INFO) if setting.dead else issue)
        for setting in script.settings
        for issue in check_setting(setting.name, setting.value if setting.complete else "", version)
        if not _own_name(script, setting, issue)
    ]
    invalid = {issue.variable for _, issue in single if issue.name == called("bad-value")}
    yield from single
    groups = dict[str, dict[str, Setting]]()
    for setting in _effective(script):
        groups.setdefault(_scope(script, setting), {})[setting.name] = setting
    for scope, own in groups.items():
        effective = {**groups.get("", {}), **own} if scope.startswith(COMMAND) else own
        together = {name: s.value for name, s in effective.items()}
        pinned = (issue for issue in check_pinned(together) if issue.variable not in invalid)
        for issue in (*check_together(together, version), *pinned):
            yield effective[issue.variable].line if issue.variable in effective else 0, issue
    yield from _twice(script)
    if script.launches or script.kind == "environment":
        yield from _debug_hints(script, {s.name: s.value for s in _effective(script)})


def _own_name(script: Script, setting: Setting, issue: Issue) -> bool:
    """Whether an unknown name is a variable of the script itself: not exported, or used by it and like no other."""
    if issue.name != called("unknown-setting") or setting.name not in script.mentioned:
        return False
    return not setting.exported or issue.severity is Severity.INFO


def _scope(script: Script, setting: Setting) -> str:
    """Settings that meet: the documents of a manifest are on their own, a script is one."""
    return setting.scope if script.kind == "yaml" or " in line " in setting.scope else ""


def _effective(script: Script) -> Iterator[Setting]:
    """What holds at the end of the file: unconditional settings, the last one winning."""
    for setting in script.settings:
        if setting.conditional or setting.dead:
            continue
        if setting.complete or setting.name == "NCCL_DEBUG_FILE":
            yield setting


def _twice(script: Script) -> Iterator[tuple[int, Issue]]:
    last: dict[tuple[str, str], Setting] = {}
    for setting in script.settings:
        key = (setting.name, setting.scope)
        before = last.get(key)
        last[key] = setting
        if before is None or setting.conditional or before.conditional or script.kind != "shell":
            continue
        between = any(before.line < launch.line <= setting.line for launch in script.launches)
        lasting = before.scope == "" and "prefix" not in {before.how, setting.how}
        if lasting and before.value != setting.value and not between:
            yield setting.line, issue_of("replaces-value-line", setting.name, setting=setting, before=before)


def _debug_hints(script: Script, together: Mapping[str, str]) -> Iterator[tuple[int, Issue]]:
    names = {s.name for s in script.settings}
    said = (*names, *(text for _, text in script.directives), *(w for launch in script.launches for w in launch.words))
    if "NCCL_DEBUG" not in names and script.kind == "shell" and any(map(_RE["on_gpus"].search, said)):
        yield script.launches[0].line, issue_of("debug-set-job")
    level = together.get("NCCL_DEBUG", "").upper()
    chosen = {w.strip().upper() for w in together.get("NCCL_DEBUG_SUBSYS", "").split(",")}
    if level in {"INFO", "TRACE"} and chosen & _COSTLY and not together["NCCL_DEBUG_SUBSYS"].startswith("^"):
        words = ", ".join(sorted(chosen & _COSTLY))
        line = next(s.line for s in script.settings if s.name == "NCCL_DEBUG_SUBSYS")
        yield line, issue_of("debug-subsys-writes", words=words)


def _limits(script: Script, text: str) -> Iterator[tuple[int, Issue]]:
    if script.kind != "shell":
        return
    for match in _RE["ulimit"].finditer(text):
        line = line_at(text, match.start(1))
        if "l" in match[1] and match[2].isdigit() and int(match[2]) < 1 << 20:
            yield line, issue_of("ulimit-limits-locked", match=match)
        if "s" in match[1] and match[2] == "unlimited":
            yield line, issue_of("ulimit-unlimited-can")


def _traps(script: Script, text: str) -> Iterator[tuple[int, Issue]]:
    """Shell text that reads like a setting and is none."""
    if script.kind != "shell":
        return
    if "\r\n" in text:
        yield from _windows(script)
    for match in _RE["semicolon"].finditer(text):
        name = match[1]
        if catalog().relevant(name):
            yield line_at(text, match.start(1)), issue_of("shell-ends-command", name, match=match)


def _windows(script: Script) -> Iterator[tuple[int, Issue]]:
    ours = [s for s in script.settings if not s.dead]
    if ours:
        names = ", ".join(dict.fromkeys(s.name for s in ours))
        yield ours[0].line, issue_of("lines-end-carriage", ours[0].name, names=names)


def _unique(found: Iterable[tuple[int, Issue]]) -> list[tuple[int, Issue]]:
    seen: set[tuple[int, str, str]] = set()
    out: list[tuple[int, Issue]] = []
    for line, issue in sorted(found, key=lambda f: (f[0], f[1].severity.order, f[1].name, f[1].title)):
        key = (line, issue.name, issue.title)
        if key not in seen:
            seen.add(key)
            out.append((line, issue))
    return out
