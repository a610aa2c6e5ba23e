"""The entry points: one file, or the variables of an environment, in; findings with their lines out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath

from nccl_insight.model import Severity
from nccl_insight.settings.catalog import catalog
from nccl_insight.settings.check import Issue, check_pinned, check_setting, check_together
from nccl_insight.settings.lint.files import read_conf, read_dockerfile, read_unit
from nccl_insight.settings.lint.hosts import check_hosts
from nccl_insight.settings.lint.launch import check_launch
from nccl_insight.settings.lint.model import LintFinding, LintResult, Script, Setting
from nccl_insight.settings.lint.pods import check_pods
from nccl_insight.settings.lint.prints import will_print
from nccl_insight.settings.lint.python_ import read_python
from nccl_insight.settings.lint.shell import read_shell
from nccl_insight.settings.lint.yaml_ import read_yaml

KINDS = ("shell", "yaml", "dockerfile", "nccl.conf", "env-file", "python", "unit")
_COSTLY = frozenset({"COLL", "CALL", "PROXY", "ALL", "ALLOC", "REG"})
_SEMICOLON = re.compile(
    r"(?m)^[ \t]*(?:export[ \t]+)?([A-Z][A-Z0-9_]*_[A-Z0-9_]+)=([^\s'\";#]+);([A-Za-z]+[,:;\w]*)[ \t]*(?:#.*)?$"
)
_PERF = re.compile(r"\b([a-z_]{3,20})_perf\b")
_ULIMIT = re.compile(r"^[ \t]*ulimit[ \t]+(?:-[HS][ \t]*)?(-[HSlsn]+)[ \t]+(\S+)", re.M)


def kind_of(path: str, text: str) -> str:
    """What the file is, from its name and its first lines."""
    pure = PurePath(path)
    name, suffix = pure.name.lower(), pure.suffix.lower()
    if name.startswith(("dockerfile", "containerfile")) or suffix in {".dockerfile", ".containerfile"}:
        return "dockerfile"
    if name.endswith(("nccl.conf", "rccl.conf")):
        return "nccl.conf"
    if suffix in {".yaml", ".yml", ".json"}:
        return "yaml"
    if suffix in {".env", ".conf"} or name in {".env", ".deepspeed_env"}:
        return "env-file"
    if suffix == ".py":
        return "python"
    if suffix in {".service", ".container", ".kube"} and re.match(r"\s*(?:[#;][^\n]*\n\s*)*\[\w+\]", text):
        return "unit"
    if suffix in {".sh", ".bash", ".sbatch", ".slurm", ".job", ".zsh", ".csh"} or text.startswith("#!"):
        return "python" if re.match(r"#!.*python", text) else "shell"
    if re.match(r"(?:\s*#[^\n]*\n)*\s*(?:FROM|ARG)\s+\S+", text):
        return "dockerfile"
    if re.search(r"(?m)^(?:apiVersion|kind|services):\s", text):
        return "yaml"
    return "shell"


def read_script(path: str, text: str, kind: str | None = None) -> Script:
    """The settings and launches of a file. Never raises on odd text."""
    kind = kind or kind_of(path, text)
    script = Script(path, kind)
    if kind == "yaml":
        found = read_yaml(script, text)
        script.problems.extend(check_pods(found))
        for line, inner in script.embedded:
            read_conf(script, inner, literal=True, first_line=line + 1)
    elif kind == "dockerfile":
        read_dockerfile(script, text)
    elif kind in {"nccl.conf", "env-file"}:
        read_conf(
            script, text, literal=kind == "nccl.conf", deepspeed=PurePath(path).name == ".deepspeed_env"
        )
    elif kind == "python":
        read_python(script, text)
    elif kind == "unit":
        read_unit(script, text)
    else:
        read_shell(script, text)
    return script


def lint_text(path: str, text: str, version: str | None = None, kind: str | None = None) -> LintResult:
    """All findings about one file. ``version`` is the NCCL release the job will use, None if not known."""
    script = read_script(path, text, kind)
    version = version or script.version
    rows = text.split("\n")
    found: list[tuple[int, Issue]] = [
        *(item for item in _settings(script, version) if not _served(item[1], text)),
        *script.problems, *check_launch(script), *check_hosts(script, text),
        *_limits(script, text), *_traps(script, text),
    ]  # fmt: skip
    findings = tuple(
        LintFinding(path, line, issue, rows[line - 1].strip() if 0 < line <= len(rows) else "")
        for line, issue in _unique(found)
    )
    return LintResult(
        path, script.kind, findings, tuple(script.settings), tuple(sorted(set(script.not_evaluated))), version,
        judged=bool(script.settings or script.launches or found),
        prints=_prints(script),
    )  # fmt: skip


def _served(issue: Issue, text: str) -> bool:
    """Whether a file runs programs of nccl-tests only, none of them a collective that the algorithm leaves out."""
    if issue.name != "algorithm-unavailable":
        return False
    runs = {name.replace("_", "") for name in _PERF.findall(text)}
    left = issue.title.partition(" leaves ")[2].partition(" without ")[0].split(", ")
    return bool(runs) and not runs & set(left)


def lint_environment(environment: Mapping[str, str], version: str | None = None) -> LintResult:
    """All findings about the variables of a process. Other variables than ours are not looked at."""
    names = sorted(name for name in environment if catalog().relevant(name))
    script = Script("environment", "environment")
    script.settings.extend(Setting(name, environment[name], 0, "environment") for name in names)
    findings = tuple(
        LintFinding("environment", 0, issue, f"{issue.variable}={environment.get(issue.variable, '')}")
        for _, issue in _unique(_settings(script, version))
    )
    return LintResult("environment", "environment", findings, tuple(script.settings), (), version,
        prints=_prints(script),
    )  # fmt: skip


def _prints(script: Script) -> tuple[str, ...]:
    """Only where something is launched or configured for NCCL, and no value stays open."""
    if not script.settings and not script.launches:
        return ()
    if any(
        s.name in {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS"} and (s.conditional or not s.complete)
        for s in script.settings
    ):
        return ()
    return tuple(will_print({s.name: s.value for s in _effective(script)}))


def _settings(script: Script, version: str | None) -> Iterator[tuple[int, Issue]]:
    single = [
        (setting.line, issue)
        for setting in script.settings
        for issue in check_setting(setting.name, setting.value if setting.complete else "", version)
        if not _own_name(script, setting, issue)
    ]
    invalid = {issue.variable for _, issue in single if issue.name == "env-invalid-value"}
    yield from single
    for scope in dict.fromkeys(_scope(script, s) for s in script.settings):
        effective = {s.name: s for s in _effective(script) if _scope(script, s) == scope}
        together = {name: s.value for name, s in effective.items()}
        pinned = (issue for issue in check_pinned(together) if issue.variable not in invalid)
        for issue in (*check_together(together, version), *pinned):
            yield effective[issue.variable].line if issue.variable in effective else 0, issue
    yield from _twice(script)
    if script.launches or script.kind == "environment":
        yield from _debug_hints(script, {s.name: s.value for s in _effective(script)})


def _own_name(script: Script, setting: Setting, issue: Issue) -> bool:
    """Whether an unknown name is a variable of the script itself: not exported, or used by it and like no other."""
    if issue.name != "env-unknown-name" or setting.name not in script.mentioned:
        return False
    return not setting.exported or issue.severity is Severity.INFO


def _scope(script: Script, setting: Setting) -> str:
    """Settings that meet: the documents of a manifest are on their own, a script is one."""
    return setting.scope if script.kind == "yaml" else ""


def _effective(script: Script) -> Iterator[Setting]:
    """What holds at the end of the file: unconditional settings, the last one winning."""
    for setting in script.settings:
        if setting.conditional:
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
        if before.value != setting.value and not between and before.scope == "" and "prefix" not in {before.how, setting.how}:  # fmt: skip  # noqa: E501
            yield setting.line, Issue(
                "env-set-twice", Severity.INFO, setting.name,
                f"{setting.name}={setting.value[:60]} replaces the value {before.value[:60]} of line {before.line}",
                "Remove the line that is not meant.",
            )  # fmt: skip


def _debug_hints(script: Script, together: Mapping[str, str]) -> Iterator[tuple[int, Issue]]:
    set_anywhere = {s.name for s in script.settings}
    if "NCCL_DEBUG" not in set_anywhere and script.kind == "shell":
        yield script.launches[0].line, Issue(
            "debug-output-insufficient", Severity.INFO, "NCCL_DEBUG",
            "NCCL_DEBUG is not set: if the job fails or is slow, there will be nothing to read",
            "Set NCCL_DEBUG=INFO with NCCL_DEBUG_FILE=/path/nccl.%h.%p.log (WARN at the least; it costs nothing).",
        )  # fmt: skip
    level = together.get("NCCL_DEBUG", "").upper()
    chosen = {w.strip().upper() for w in together.get("NCCL_DEBUG_SUBSYS", "").split(",")}
    if level in {"INFO", "TRACE"} and chosen & _COSTLY and not together["NCCL_DEBUG_SUBSYS"].startswith("^"):
        words = ", ".join(sorted(chosen & _COSTLY))
        line = next(s.line for s in script.settings if s.name == "NCCL_DEBUG_SUBSYS")
        yield line, Issue(
            "debug-output-heavy", Severity.INFO, "NCCL_DEBUG_SUBSYS",
            f"NCCL_DEBUG_SUBSYS with {words} writes lines for every call: large logs and some slowdown",
            "Fine for an investigation; INIT,ENV,NET,GRAPH,TUNING is enough otherwise.",
        )  # fmt: skip


def _limits(script: Script, text: str) -> Iterator[tuple[int, Issue]]:
    if script.kind != "shell":
        return
    for match in _ULIMIT.finditer(text):
        line = text.count("\n", 0, match.start(1)) + 1
        if "l" in match[1] and match[2].isdigit() and int(match[2]) < 1 << 20:
            yield line, Issue(
                "memlock-limit", Severity.WARNING, "", f"ulimit -l {match[2]} limits locked memory to {match[2]} KiB",
                "Use ulimit -l unlimited.", "RDMA registers pinned memory; with a low limit ibv_reg_mr fails.",
                f"{match[2]} KiB", "unlimited",
            )  # fmt: skip
        if "s" in match[1] and match[2] == "unlimited":
            yield line, Issue(
                "stack-unlimited", Severity.INFO, "", "ulimit -s unlimited can crash NCCL before 2.28 at init",
                "Use ulimit -s 8192.", "glibc gives helper threads a 2 MiB stack when the limit is unlimited.",
            )  # fmt: skip


def _traps(script: Script, text: str) -> Iterator[tuple[int, Issue]]:
    """Shell text that reads like a setting and is none."""
    if script.kind != "shell":
        return
    for match in _SEMICOLON.finditer(text):
        name = match[1]
        if catalog().relevant(name):
            yield text.count("\n", 0, match.start(1)) + 1, Issue(
                "env-invalid-value", Severity.WARNING, name,
                f"{name}={match[2][:60]}: the shell ends the command at ; and runs {match[3][:40]} as a program",
                f'Quote the value: {name}="{match[2][:60]};{match[3][:40]}" (subsystems are joined by commas).',
                "An unquoted ; separates commands.", match[2][:80], "a quoted value",
            )  # fmt: skip


def _unique(found: Iterable[tuple[int, Issue]]) -> list[tuple[int, Issue]]:
    seen: set[tuple[int, str, str]] = set()
    out: list[tuple[int, Issue]] = []
    for line, issue in sorted(found, key=lambda f: (f[0], f[1].severity.order, f[1].name, f[1].title)):
        key = (line, issue.name, issue.title)
        if key not in seen:
            seen.add(key)
            out.append((line, issue))
    return out
