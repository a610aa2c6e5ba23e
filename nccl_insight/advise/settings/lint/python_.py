"""Reads Python launch scripts: what they put into the environment, and when. Nothing is imported or run."""

import ast
import warnings
from collections.abc import Iterator
from typing import Final

from nccl_insight.advise.settings.catalog import catalog
from nccl_insight.advise.settings.check import issue_of
from nccl_insight.advise.settings.lint.model import Embedded, Script, Setting
from nccl_insight.advise.settings.lint.shell import read_own_shell, read_words
from nccl_insight.base import late
from nccl_insight.base.words import line_at

# The first of these makes NCCL, or a process that will, read the environment.
_STARTS: Final = frozenset({"init_process_group", "init_distributed", "initialize_model_parallel"})
_TEXTS: Final = frozenset({"split", "sudo", "getoutput", "getstatusoutput"})
_SHELLS: Final = _TEXTS | {"system", "popen", "run", "Popen", "call", "check_call", "check_output"}
# What gets text for people.
_SAYS: Final = frozenset(
    {"print", "echo", "debug", "info", "warning", "warn", "error", "exception", "critical", "raises"}
)
_RECORDS: Final = frozenset({"SimpleNamespace", "Namespace", "dict"})
_CHILDREN: Final = _SHELLS | {"execvpe", "execve", "spawn"}
_LINE: Final = late.compiled(r"environ\s*\[\s*[\"']([A-Za-z_][A-Za-z0-9_]*)[\"']\s*\]\s*=(?!=)\s*[\"']([^\"'\\]*)[\"']")
_EXPORT: Final = late.compiled(r"(?m)^[ \t]*(?:export[ \t]+([A-Za-z_]\w*)=|([A-Z_]{0,9}CCL_\w+)=\S*[ \t]+[^\s=])")
_QUOTED: Final = late.compiled(r"(?s)(\"\"\"|\'\'\')(.*?)\1|shell:\s*([\"'])(?!\3)([^\n]*)\3")
_MAX_ROW: Final = 20_000
_NEAR: Final = 50  # settings of one statement stand close together


def read_python(script: Script, text: str) -> None:
    """Adds settings with literal values; others are named as not evaluated."""
    if any(len(row) > _MAX_ROW for row in text.split("\n")):
        _by_line(script, text)
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        _by_line(script, text)
        return
    try:
        _body(script, tree.body, False)
    except RecursionError:
        script.not_evaluated.append((1, "nested too deeply"))


def _by_line(script: Script, text: str) -> None:
    """Text that is no Python 3: plain assignments, and shell text between triple quotes (Snakemake)."""
    for quoted in _QUOTED.finditer(text):
        _shell_text(script, quoted[2] or quoted[4] or "", line_at(text, quoted.start(2 if quoted[2] else 4)))
    for number, row in enumerate(text.split("\n"), 1):
        if row.lstrip().startswith("#") or len(row) > _MAX_ROW:
            continue
        match = _LINE.search(row)
        if match is not None and catalog().relevant(match[1]):
            script.settings.append(Setting(match[1], match[2], number, "os.environ"))


def _body(script: Script, body: list[ast.stmt], conditional: bool) -> None:
    """One block in order; settings after the start of a process group in the same block come too late."""
    started: int | None = None
    for statement in body:
        before = len(script.settings)
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for decorator in statement.decorator_list:
                for node in ast.walk(decorator):
                    _node(script, node, conditional)
            _body(script, statement.body, True)
            continue
        blocks = _blocks(statement)
        nodes = list(_own_nodes(statement))
        taken = _no_commands(statement, nodes)
        for node in nodes:
            _node(script, node, conditional or bool(blocks))
            if isinstance(node, (ast.Constant, ast.JoinedStr)) and id(node) not in taken:
                _shell_text(script, _said(node), node.lineno)
        for block in blocks:
            _body(script, block, conditional or not isinstance(statement, (ast.With, ast.AsyncWith, ast.Try)))
        if started is not None:
            for setting in script.settings[before:]:
                if setting.how.startswith("os."):
                    issue = issue_of("set-after-process", setting.name, setting=setting, started=started)
                    script.problems.append((setting.line, issue))
        if started is None and any(isinstance(n, ast.Call) and _method(n) in _STARTS for n in ast.walk(statement)):
            started = statement.lineno


def _no_commands(statement: ast.stmt, nodes: list[ast.AST]) -> set[int]:
    """Texts that are no commands of their own: read elsewhere, printed, parts of others, a docstring."""
    calls = [n for n in nodes if isinstance(n, ast.Call)]
    taken = {id(n.args[0]) for n in calls if n.args and _method(n) in _SHELLS}
    taken |= {id(part) for n in calls if _method(n) in _SAYS for a in n.args for part in ast.walk(a)}
    taken |= {id(part) for n in nodes if isinstance(n, ast.JoinedStr) for part in n.values}
    return taken | ({id(statement.value)} if isinstance(statement, ast.Expr) else set())


def _blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    blocks = [getattr(statement, name, []) or [] for name in ("body", "orelse", "finalbody")]
    blocks += [handler.body for handler in getattr(statement, "handlers", [])]
    blocks += [case.body for case in getattr(statement, "cases", [])]
    return [block for block in blocks if block]


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement without those of the statements inside it."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(
            child for child in ast.iter_child_nodes(node) if not isinstance(child, (ast.stmt, ast.excepthandler))
        )


def _name(node: ast.AST) -> str:
    """``os.environ`` of the expression; empty if it is no dotted name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        left = _name(node.value)
        return f"{left}.{node.attr}" if left else node.attr
    return ""


def _is_environ(node: ast.AST) -> bool:
    return _name(node).rpartition(".")[2] == "environ"


def _node(script: Script, node: ast.AST, conditional: bool) -> None:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                here = "os.environ" if _is_environ(target.value) else "env"
                _set(script, target.slice, node.value, here, conditional)
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.BitOr) and _is_environ(node.target):
        _mapping(script, node.value, "os.environ", conditional)
    elif isinstance(node, ast.Call):
        _taken(script, node)
        _call(script, node, conditional)
    elif isinstance(node, ast.Dict):
        _mapping(script, node, "env", conditional)
        _pair(script, [(_said(k) if k else "", v) for k, v in zip(node.keys, node.values, strict=True)], conditional)


def _taken(script: Script, node: ast.Call) -> None:
    """Values that a call takes for an environment as they are; a mapping elsewhere may become strings later."""
    if _method(node) in _RECORDS:
        return
    ours = "env" in _method(node).lower()
    given = [k.value for k in node.keywords if "env" in (k.arg or "").lower()]
    given += node.args if ours else []
    script.taken |= {id(v) for part in given for d in ast.walk(part) if isinstance(d, ast.Dict) for v in d.values}
    script.taken |= {id(k.value) for k in node.keywords if ours and k.arg == "value"}


def _method(node: ast.Call) -> str:
    return _name(node.func).rpartition(".")[2]


def _said(node: ast.AST) -> str:
    """The text of a node, empty if it is none; what the program fills in stays a variable."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    if not any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in parts):
        return ""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "$x" for part in parts)


def _shell_text(script: Script, value: str, line: int) -> None:
    if any(catalog().relevant(exported or set_) for exported, set_ in _EXPORT.findall(value)):
        script.embedded.append(Embedded(line, value, "shell"))


def _call(script: Script, node: ast.Call, conditional: bool) -> None:
    method = _method(node)
    if method in _SHELLS and node.args:
        _commands(script, node)
    if method in _CHILDREN:
        _child(script, node)
    environ = isinstance(node.func, ast.Attribute) and _is_environ(node.func.value)
    if method in {"setdefault", "putenv", "setenv"} and len(node.args) >= 2:
        _set(script, node.args[0], node.args[1], "os.environ" if environ or method == "putenv" else "env", conditional)
        return
    if "env" in method.lower() and not method.startswith("get") and len(node.args) == 2:
        _set(script, node.args[0], node.args[1], "env", conditional)
    keywords = [(k.arg or "", k.value) for k in node.keywords]
    _pair(script, keywords, conditional)
    how = "os.environ" if method == "update" and environ else "env"
    for name, value in keywords:
        if name.isupper():
            _set(script, ast.Constant(name, lineno=value.lineno), value, how, conditional)
    if how == "os.environ":
        for argument in node.args:
            _mapping(script, argument, how, conditional)


def _pair(script: Script, parts: list[tuple[str, ast.expr]], conditional: bool) -> None:
    """``V1EnvVar(name=, value=)``, ``set_env_variable(name=, value=)``, ``{"name": ..., "value": ...}``."""
    given = {name: value for name, value in parts if name in {"name", "value"}}
    if len(given) == 2:
        _set(script, given["name"], given["value"], "env", conditional)


def _commands(script: Script, node: ast.Call) -> None:
    """Commands given to ``os.system``, ``shlex.split``, ``run`` of whatever runs them: each is a shell of its own."""
    text = node.args[0]
    if said := _said(text):  # with a blank: no name of a program, whoever runs it
        step = 'Write os.environ["{name}"] = "{value}" above.'
        if " " in said:
            read_own_shell(script, said, text.lineno, "this command", step, scope="command")
    elif isinstance(text, ast.List):
        read_words(script, [(_said(w) or "$x", w.lineno) for w in text.elts], "command")


def _child(script: Script, node: ast.Call) -> None:
    """A process that gets an environment made from nothing."""
    given = next((k.value for k in node.keywords if k.arg == "env"), None)
    if not isinstance(given, ast.Dict) or any(key is None for key in given.keys):
        return
    names = {key.value for key in given.keys if isinstance(key, ast.Constant)}
    lost = [s for s in script.settings if s.how == "os.environ" and s.name not in names and not s.conditional]
    if lost:
        said = ", ".join(list(dict.fromkeys(s.name for s in lost))[:4])
        script.problems.append((given.lineno, issue_of("env-this-process", lost[0].name, said=said)))


def _mapping(script: Script, node: ast.AST, how: str, conditional: bool) -> None:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None:
                _set(script, key, value, how, conditional)


def _set(script: Script, key: ast.AST, value: ast.expr, how: str, conditional: bool) -> None:
    if not isinstance(key, ast.Constant) or not isinstance(key.value, str) or not catalog().relevant(key.value):
        return
    if how == "env" and not key.value.isupper():  # a key of a configuration of the program's own
        return
    name, line = key.value, value.lineno
    if any(s.name == name and s.line == line and s.how.startswith("os.") for s in script.settings[-_NEAR:]):
        return
    literal = _literal(value)
    if literal is None:
        script.not_evaluated.append((line, f"{name}: its value is computed by the program"))
        return
    if not isinstance(literal, str) and (how == "os.environ" or id(value) in script.taken):
        issue = issue_of("no-string", name, shown=_shown(literal), written=repr(literal))
        script.problems.append((line, issue))
    script.settings.append(Setting(name, _shown(literal), line, how, conditional=conditional))


def _literal(node: ast.expr) -> str | int | float | bool | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, int, float, bool)):
        return node.value
    if isinstance(node, ast.Call) and _name(node.func) == "str" and len(node.args) == 1:
        inner = _literal(node.args[0])
        return None if inner is None else str(inner)
    return None


def _shown(value: str | float) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
