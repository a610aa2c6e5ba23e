"""Reads files that declare settings in their own way: HCL, TOML, INI, make, just, Lua, Tcl, Groovy, notebooks."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from nccl_insight.advise.settings.catalog import catalog
from nccl_insight.advise.settings.check import issue_of
from nccl_insight.advise.settings.lint.kinds import PROSE, kind_of, kind_of_target
from nccl_insight.advise.settings.lint.model import Embedded, Script, Setting
from nccl_insight.advise.settings.lint.python_ import read_python
from nccl_insight.advise.settings.lint.shell import not_exported, read_own_shell, read_shell
from nccl_insight.advise.settings.lint.words import Known, logical_lines
from nccl_insight.base import texts
from nccl_insight.base.data import dataclass, replace
from nccl_insight.base.words import line_at

_RE: Final = texts.compiled(__file__)

_PROSE: Final = re.compile(rf"[\"']?(?:{PROSE.pattern})[\"']?\s*[=:]", re.I)
_CUT: Final = "\0"  # a line end that is written as \n
_LASTING: Final = frozenset({"environment", "runscript", "startscript", "appenv", "apprun"})
_OWN: Final = "Put both into one line: export {name}={value} && COMMAND."


def read_declared(script: Script, text: str) -> None:
    """HCL, TOML, INI and Groovy: names with a value wherever they stand; shell text in here-documents."""
    text = _shell_steps(script, text) if script.kind == "groovy" else _heredocs(script, text)
    around: list[str] = [""]
    above: list[Sequence[str]] = []
    for number, row in enumerate(text.split("\n"), 1):
        bare, own = _RE["string"].sub("", row), f"block in line {number}"
        above.append((*around, own) if "{" in bare else tuple(around))
        around += [own] * bare.count("{")
        del around[max(1, len(around) - bare.count("}")) :]
        if row.lstrip().startswith(("#", "//", "--", ";", "*")) or _PROSE.match(row.lstrip()):
            continue
        for name, value, complete in _pairs(row):
            _add(script, Setting(name, value, number, script.kind, complete=complete, scope=above[-1][-1]))
    for match in _RE["named"].finditer(text):
        given = _RE["value"].search(text, match.end(), match.end() + 200)
        if given is not None and not _RE["named"].search(text, match.end(), given.start()):
            value = (given[2] or given[3] or "").strip()
            line = line_at(text, given.start())
            outer = above[line_at(text, match.start()) - 1][-2:][0]  # the block holds name and value only
            complete = not _open(value, bool(given[1]))
            _add(script, Setting(match[1], value, line, script.kind, complete=complete, scope=outer))


def _pairs(row: str) -> Iterator[tuple[str, str, bool]]:
    row = row.replace("\\n", f"{_CUT} ")
    for match in _RE["name"].finditer(row):
        opened, name, closed = match[1], match[2], match[3]
        at = match.end()
        if opened and not closed:  # "NAME=value" as one string
            end = row.find(opened, at)
            value, quoted = row[at : end if end >= 0 else len(row)].partition(_CUT)[0], True
        elif row[at : at + 1] in {'"', "'"}:
            quote = row[at]
            end = at + 1
            while end < len(row) and row[end] != quote:
                end += 2 if row[end] == "\\" else 1
            value, quoted = row[at + 1 : end].replace("\\" + quote, quote), True
        else:
            bare = _RE["bare"].match(row, at)
            value, quoted = bare[0].partition(_CUT)[0] if bare else "", False
        if value or quoted:
            yield name, value, not _open(value, quoted)


def _open(value: str, quoted: bool) -> bool:
    return (
        "${" in value
        or "{{" in value
        or "$(" in value
        or (not quoted and _RE["expression"].fullmatch(value) is not None)
    )


def _add(script: Script, setting: Setting) -> None:
    if not catalog().relevant(setting.name):
        return
    script.settings.append(replace(setting, seq=script.seq))
    if not setting.complete:
        said = f"{setting.name}={setting.value}: known only when the file is used"
        script.not_evaluated.append((setting.line, said))


def _heredocs(script: Script, text: str) -> str:
    """Reads here-documents by what they become; the text without them."""
    out, at = list[str](), 0
    while (match := _RE["heredoc"].search(text, at)) is not None:
        end = re.compile(rf"^[ \t]*{re.escape(match[1])}[ \t]*$", re.M).search(text, match.end())
        stop = end.start() if end else len(text)
        body = text[match.end() : stop]
        line = line_at(text, match.end())
        near = text[max(0, match.start() - 300) : match.start()] + text[stop : stop + 300].partition("}")[0]
        target = _RE["target"].search(near)
        inner = re.sub(r"(?m)^[ \t]+(?=#!)", "", body)
        kind = kind_of_target(target[1], inner) if target else None
        if kind is None and re.search(r"\benv[ \t]*=[ \t]*true", near):
            kind = "env-file"
        if kind is None and (
            inner.startswith("#!") or re.search(r"\b(?:user_data|startup|script|command|inline)\b", near)
        ):
            kind = kind_of("", inner)
        if kind not in {None, "unknown"}:
            script.embedded.append(Embedded(line, inner, kind or "", target[1] if target else "", True))
        out += [text[at : match.end()], "\n" * body.count("\n")]
        at = stop
    return "".join([*out, text[at:]])


def _shell_steps(script: Script, text: str) -> str:
    """``sh '...'`` of Jenkins, each a shell of its own; the text without them."""
    out, at = list[str](), 0
    while (match := _RE["groovy_shell"].search(text, at)) is not None:
        quote = match[1]
        end = match.end()
        while end < len(text) and not text.startswith(quote, end):
            end += 2 if text[end] == "\\" else 1
        body = text[match.end() : end]
        if match[0].startswith("before"):  # in the shell of the task
            read_shell(script, body, line_at(text, match.end()), 1)
        else:
            read_own_shell(script, body, line_at(text, match.end()), "a step sh", _OWN)
        out += [text[at : match.end()], "\n" * body.count("\n")]
        at = min(end + len(quote), len(text))
    return "".join([*out, text[at:]])


def read_program(script: Script, text: str) -> None:
    """Programs of languages whose environment is written by name: ``ENV["NAME"] = "value"`` and the like."""
    for match in _RE["program"].finditer(text):
        row = text[text.rfind("\n", 0, match.start()) + 1 : match.start()].lstrip()
        if not row.startswith(("#", "//", "*", "--")):
            form, name = next((key, name) for key in ("set", "one", "key", "pair") if (name := match[key]))
            value = match[f"{form}_value"] or (match[f"{form}_number"] if form in {"set", "key"} else "") or ""
            complete = "$" not in value and "%" not in value
            # Which statements are run is not looked at.
            line = line_at(text, match.start(form))
            _add(script, Setting(name, value, line, "program", conditional=form == "set", complete=complete))


def read_definition(script: Script, text: str) -> None:
    """Definition files of Apptainer: what ``%environment`` exports and ``%runscript`` starts lasts."""
    heads = [*_RE["section"].finditer(text)]
    for head, following in zip(heads, [*heads[1:], None], strict=False):
        body = text[head.end() + 1 : following.start() if following else len(text)]
        line = line_at(text, head.end()) + 1
        if head[1] in _LASTING:
            read_shell(script, body, line)
        elif head[1] == "post":
            step = "Write export {name}={value} into %environment"
            read_own_shell(script, body, line, "%post (lasts for the build only)", step, scope="%post", build=True)


def read_condor(script: Script, text: str) -> None:
    """Submit files of HTCondor: ``environment = "A=1 B='2 3'"``, in the old form ``A=1;B=2``."""
    for match in _RE["condor"].finditer(text):
        raw = match[1].strip()
        quoted = len(raw) > 1 and raw[0] == raw[-1] == '"'
        inner = raw[1:-1].replace('""', '"') if quoted else raw
        parts = re.findall(r"(?:[^\s']|'[^']*')+", inner) if quoted else inner.split(";")
        for part in parts:
            name, equals, value = part.strip().partition("=")
            if equals:
                line = line_at(text, match.start(1))
                _add(script, Setting(name, value.replace("'", ""), line, "environment", complete="$(" not in value))


def read_lua(script: Script, text: str) -> None:
    """Module files of Lmod: ``setenv("NAME", "value")``."""
    _module(script, text, _RE["lua"], "--")


def read_tcl(script: Script, text: str) -> None:
    """Module files of Environment Modules: ``setenv NAME value``."""
    _module(script, text, _RE["tcl"], "#")


def _module(script: Script, text: str, pattern: re.Pattern[str], comment: str) -> None:
    for match in _RE["tcl_set"].finditer(text) if comment == "#" else ():
        if catalog().relevant(match[1]) and f"${match[1]}" not in text and f"${{{match[1]}}}" not in text:
            script.problems.append((line_at(text, match.start(1)), not_exported(match[1], f"setenv {match[1]} VALUE")))
    for match in pattern.finditer(text):
        if match[0].lstrip().startswith(comment):
            continue
        raw = match[2].strip()
        line = line_at(text, match.start(1))
        quoted = (len(raw) > 1 and raw[0] == raw[-1] and raw[0] in "\"'") or raw[:1] + raw[-1:] == "{}"
        value = raw[1:-1] if quoted else raw
        plain = quoted if comment == "--" else "$" not in value and "[" not in value
        _add(script, Setting(match[1], value, line, "module file", complete=plain))


def read_make(script: Script, text: str) -> None:
    """Makefiles and justfiles: variables, and recipe lines, each of which is a shell of its own."""
    just = script.kind == "just"
    one_shell = re.search(r"(?m)^\.ONESHELL[ \t]*:", text) is not None
    everything = re.search(r"(?m)^(?:export[ \t]*$|\.EXPORT_ALL_VARIABLES[ \t]*:|set export)", text) is not None
    named = {w for row in re.findall(r"(?m)^export[ \t]+([\w \t]+)$", text) for w in row.split()}
    used = {a or b for a, b in _RE["make_use"].findall(text)} if "CCL_" in text else set()
    known = Known(script.room)
    makefile = _Makefile(known, everything, frozenset(named), frozenset(used), just)
    recipe: list[tuple[int, str]] = []
    for number, row in logical_lines(text):
        inside = row.startswith("\t") or (just and row[:1] == " ")
        if inside and row.strip():
            recipe.append((number, row.strip("\t ") if just else row.lstrip("\t")))
            continue
        if row.strip() and not row.startswith("#"):
            _recipe(script, recipe, known, one_shell, just)
            recipe = []
            _variable(script, row, number, makefile)
    _recipe(script, recipe, known, one_shell, just)


@dataclass(frozen=True)
class _Makefile:
    """What holds in the whole file: values so far, whether ``everything`` is exported or what is ``named`` for it."""

    known: Known
    everything: bool
    named: frozenset[str]
    used: frozenset[str]
    just: bool


def _variable(script: Script, row: str, number: int, file: _Makefile) -> None:
    match = _RE["make_set"].match(row)
    if match is None:
        return
    name, raw = match[2], match[4]
    value, hash_, _ = raw.partition("#")
    value = value if hash_ else raw.rstrip("\r")
    if file.just:
        value = value.strip()
        complete = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        value = value[1:-1] if complete else value
    else:
        value, complete = _filled(value, file.known)
    exported = (
        "export" in (match[1] or "") or "export " in row.partition(name)[0] or file.everything or name in file.named
    )
    file.known[name] = value if complete else f"$({name})"
    if not exported:
        if name in catalog().variables and name not in file.used:
            write = f"export {name} := {value.strip()[:60]}"
            script.problems.append((number, not_exported(name, write)))
        return
    if value != value.rstrip() and not file.just and catalog().relevant(name) and not value.strip().isdigit():
        issue = issue_of("make-keeps-blanks", name, hash_=hash_, strip=value.strip(), value=value)
        script.problems.append((number, issue))
    _add(script, Setting(name, value.rstrip(), number, "make export", complete=complete))


def _filled(text: str, known: Known) -> tuple[str, bool]:
    value = _RE["make_variable"].sub(
        lambda m: (m[0] if (put := known.put(m[1] or m[2])) is None else put) if m[1] or m[2] else "$", text
    )
    return value, "$" not in value


def _recipe(script: Script, rows: list[tuple[int, str]], known: Known, one_shell: bool, just: bool) -> None:
    if not rows:
        return
    if one_shell or rows[0][1].startswith("#!"):
        first, lines = rows[0][0], dict(rows)
        text = "\n".join(lines.get(n, "") for n in range(first, rows[-1][0] + 1))
        kind = kind_of("", text) if text.startswith("#!") else "shell"
        if kind == "shell":
            read_shell(script, _of_make(text, known), first, 1)
        elif kind == "python":
            script.embedded.append(Embedded(first, text, kind))
        return
    for number, row in rows:
        text = row.lstrip("@-+ ") if not just else re.sub(r"\{\{.{0,500}?\}\}", "$x", row.lstrip("@-"))
        read_own_shell(script, _of_make(text, known), number, "one line of a recipe", _OWN)


def _of_make(text: str, known: Known) -> str:
    """A recipe as the shell sees it; what make does not know here stays a variable of the shell."""
    filled = _RE["make_variable"].sub(
        lambda m: "$" if not (m[1] or m[2]) else known.put(m[1] or m[2]) or f"${m[1] or m[2]}", text
    )
    return re.sub(r"\$\((\w+)\)", r"$\1", filled)


def read_notebook(script: Script, text: str) -> None:
    """Code cells: ``%env``, ``!command`` (each a shell of its own), cells of a shell, and Python."""
    try:
        cells: Any = json.loads(text).get("cells", [])
        sources = [c.get("source", "") for c in cells if c.get("cell_type") == "code"]
    except (ValueError, AttributeError, RecursionError):
        script.not_evaluated.append((1, "no valid notebook"))
        return
    python: dict[int, str] = {}
    at = 0
    for source in sources:
        rows: list[tuple[int, str]] = []
        for row in source if isinstance(source, list) else str(source).splitlines(keepends=True):
            written = json.dumps(str(row), ensure_ascii=False)[1:-1]
            place = text.find(written, at)
            at = place + len(written) if place >= 0 else at
            rows.append((line_at(text, max(place, 0)), str(row).rstrip("\n")))
        _cell(script, rows, python)
    inner = Script(script.path, "python", room=script.room)
    order = sorted(python)
    read_python(inner, "\n".join(python[n] for n in order))
    place_of = dict(enumerate(order, 1))
    script.settings += [replace(s, line=place_of.get(s.line, s.line)) for s in inner.settings]
    script.problems += [(place_of.get(line, line), issue) for line, issue in inner.problems]
    script.not_evaluated += [(place_of.get(line, line), said) for line, said in inner.not_evaluated]


def _cell(script: Script, rows: list[tuple[int, str]], python: dict[int, str]) -> None:
    if not rows:
        return
    head = rows[0][1].split()
    body = "\n".join(row for _, row in rows[1:])
    if head and head[0] in {"%%bash", "%%sh", "%%script"}:
        step = "Use %env {name}={value} in a cell of its own."
        read_own_shell(script, body, rows[0][0] + 1, "a shell cell", step)
        return
    if head and head[0] in {"%%writefile", "%%file"}:
        kind = kind_of_target(head[-1], body)
        if kind is not None:
            script.embedded.append(Embedded(rows[0][0] + 1, body, kind, head[-1]))
        return
    if head and head[0].startswith("%%"):
        rows = rows[1:] if head[0] in {"%%time", "%%timeit", "%%capture"} else []
    for line, row in rows:
        bare = row.strip()
        if bare.startswith("!"):
            read_own_shell(script, bare[1:], line, "a ! line", "Write %env {name}={value}: it lasts for the notebook.")
        elif match := re.match(r"%(?:set_)?env\s+(\w+)(?:\s*=\s*|\s+)(.*)", bare):
            complete = "$" not in match[2] and "{" not in match[2]
            _add(script, Setting(match[1], match[2].strip(), line, "%env", complete=complete))
        elif not bare.startswith("%"):
            # Several rows of a notebook may stand in one line of its file.
            while line in python:
                line += 1
            python[line] = row


READERS: Final[Mapping[str, Callable[[Script, str], None]]] = {
    "hcl": read_declared, "ini": read_declared, "groovy": read_declared, "lua": read_lua, "tcl": read_tcl,
    "make": read_make, "just": read_make, "notebook": read_notebook, "condor": read_condor,
    "definition": read_definition, "program": read_program,
}  # fmt: skip
