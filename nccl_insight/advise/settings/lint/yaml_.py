"""Reads Kubernetes manifests, Compose files, Helm values, Ray and accelerate configuration: any YAML.

PyYAML parses; nodes keep their lines and nothing is constructed. Understood are ``name``/``value`` pairs,
mappings and lists of ``NAME=VALUE``, commands given as lists, and block scalars that hold shell text. Templates
(``{{ }}``) are values that nobody knows before rendering.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from nccl_insight.advise.settings.catalog import catalog
from nccl_insight.advise.settings.check import issue_of
from nccl_insight.advise.settings.lint.kinds import PROSE, kind_of_target
from nccl_insight.advise.settings.lint.model import Embedded, Script, Setting
from nccl_insight.advise.settings.lint.shell import read_own_shell, read_shell, read_words
from nccl_insight.base.data import dataclass, replace
from nccl_insight.base.words import words

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVER: Final[Any] = yaml.resolver.Resolver()
_MARK: Final = "templated__value"
# Fields of a runtime environment (Ray documentation, "Handling dependencies").
_RAY_FIELDS: Final = frozenset(
    words("""env_vars working_dir py_modules py_executable excludes pip uv conda container
    image_uri nsight config worker_process_setup_hook _validate""")
)
_COMMANDS: Final = frozenset({"command", "args", "entrypoint", "cmd", "arguments"})
# Text of a file that a tool writes: cloud-init, Salt, Ansible's copy, blockinfile and lineinfile.
_WRITTEN: Final = frozenset({"content", "contents", "block", "line"})
_FILES: Final = frozenset({"path", "dest", "destination", "filename", "target"})
_STEP: Final = "Write it into the same command, or into the env of the job: {name}={value}"
_ROW: Final = re.compile(r"(?:export[ \t]+)?([A-Za-z_]\w*)=(.*?)[;,]?")
_OPTION: Final = re.compile(r"(?:-e|-x|--env|--environment)[ =]+(?=[A-Za-z_]\w*=)")
_EQUALS: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.S)
_UNKNOWN: Final = ("{{", "$(", "${", _MARK)
_JSON_COMMENT: Final = re.compile(r"(?m)(?:^|(?<=[,{\[]))[ \t]*//[^\n]*")
_DEPTH: Final = 200
_DOCUMENTS: Final = 200


@dataclass(frozen=True)
class Document:
    """One document of a file: its root node and a name for what belongs together."""

    root: yaml.Node
    scope: str


@dataclass(frozen=True)
class _Place:
    """Where a node stands: the keys above it, and whether its file is a Compose file."""

    scope: str
    compose: bool
    config_map: bool = False
    keys: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """The file that a key names above what it holds (Salt), empty without one."""
        return next((key for key in reversed(self.keys) if key.startswith("/")), "")

    def below(self, key: str) -> _Place:
        return replace(self, keys=(*self.keys, key)[-6:])


def documents(script: Script, text: str) -> list[Document]:
    """The documents that are YAML, with templates replaced where they prevent that; what is not is said."""
    roots = _compose(text)
    if isinstance(roots, str):
        return _one_by_one(script, text)
    return [Document(root, f"document {number}") for number, root in enumerate(roots)]


def _one_by_one(script: Script, text: str) -> list[Document]:
    """The same where one document is no YAML: the others are still read."""
    found: list[Document] = []
    line = 1
    for number, part in enumerate(re.split(r"(?m)^---(?=\s|$)[^\n]*$", text, maxsplit=_DOCUMENTS)):
        above = "\n" * (line - 1)
        roots = _compose(above + part)
        if isinstance(roots, str) and "{{" in part:
            roots = _compose(above + _without_templates(part))
        if isinstance(roots, str) and "${" in part:  # braces that are those of YAML, too
            roots = _compose(above + re.sub(r"\$\{[^}\n]{0,200}\}", "$x", _without_templates(part)))
        if isinstance(roots, str):
            script.not_evaluated.append((line, f"no valid YAML: {roots}"))
        else:
            found.extend(Document(root, f"document {number}") for root in roots)
        line += part.count("\n")
    return found


def _compose(text: str) -> list[yaml.Node] | str:
    """The root node of each document that is not empty, or what is wrong."""
    try:
        return _nodes(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        return f"{error.problem or 'syntax error'}" + (f" in line {mark.line + 1}" if mark else "")
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return str(error).splitlines()[0] if str(error) else type(error).__name__


def _nodes(events: Iterator[Any]) -> list[yaml.Node]:
    """Root nodes from events, by a stack of its own: PyYAML's composer calls itself and takes the process down with it.

    Raises ValueError: nested too deeply.
    """
    root: list[Any] = []
    stack: list[list[Any]] = [root]
    open_nodes: list[yaml.Node] = []
    anchors: dict[str, yaml.Node] = {}
    for event in events:
        if isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            children, node = stack.pop(), open_nodes.pop()
            if isinstance(node, yaml.MappingNode):
                node.value = _merged(list(zip(children[::2], children[1::2], strict=False)))
            continue
        if isinstance(event, yaml.AliasEvent):
            if event.anchor in anchors:
                stack[-1].append(anchors[event.anchor])
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        node = _node(event)
        stack[-1].append(node)
        if event.anchor:
            anchors[event.anchor] = node
        if not isinstance(node, yaml.ScalarNode):
            if len(stack) > _DEPTH:
                raise ValueError("nested too deeply")
            children = []
            if isinstance(node, yaml.SequenceNode):
                node.value = children
            stack.append(children)
            open_nodes.append(node)
    return root


def _merged(pairs: list[tuple[yaml.Node, yaml.Node]]) -> list[tuple[yaml.Node, yaml.Node]]:
    """The pairs of a mapping with those that it merges (``<<: *common``) and does not have itself."""
    own = {str(key.value): (key, value) for key, value in pairs if isinstance(key, yaml.ScalarNode)}
    merged = own.pop("<<", (None, None))[1]
    for node in merged.value if isinstance(merged, yaml.SequenceNode) else [merged]:
        if isinstance(node, yaml.MappingNode):
            own = {str(key.value): (key, value) for key, value in node.value} | own
    return list(own.values()) if merged is not None else pairs


def _node(event: Any) -> yaml.Node:
    start, end = event.start_mark, event.end_mark
    if isinstance(event, yaml.ScalarEvent):
        tag = event.tag or _RESOLVER.resolve(yaml.ScalarNode, event.value, event.implicit)
        return yaml.ScalarNode(tag, event.value, start, end, style=event.style)
    flow = bool(event.flow_style)
    if isinstance(event, yaml.SequenceStartEvent):
        return yaml.SequenceNode(event.tag or "", [], start, end, flow_style=flow)
    return yaml.MappingNode(event.tag or "", [], start, end, flow_style=flow)


def _without_templates(part: str) -> str:
    """Templates replaced by a word, those that have lines of their own by nothing; lines keep their numbers."""
    out: list[str] = []
    at = 0
    while (start := part.find("{{", at)) >= 0 and (end := part.find("}}", start)) >= 0:
        end += 2
        row = part[part.rfind("\n", 0, start) + 1 : start]
        stop = part.find("\n", end)
        rest = part[end : stop if stop >= 0 else len(part)]
        alone = not row.strip() and not rest.strip()
        out.append(part[at:start])
        out.append("" if alone else _MARK)
        out.append("\n" * part.count("\n", start, end))
        at = end
    out.append(part[at:])
    return "".join(out)


def read_yaml(script: Script, text: str) -> list[Document]:
    """Adds the settings and commands of YAML text to ``script``; the documents, for further checks."""
    if script.path.endswith(("json", "jsonc")):
        text = _JSON_COMMENT.sub("", text)
    found = documents(script, text)
    for document in found:
        compose = "services" in {key for key, _ in entries(document.root)}
        data = text_of(child(document.root, "kind")) in {"ConfigMap", "Secret"}
        _walk(script, document.root, _Place(document.scope, compose, data), set(), 0)
    script.settings[:] = [
        replace(s, value=s.value.replace(_MARK, "{{ }}"), complete=False) if _MARK in s.value else s
        for s in script.settings
    ]
    return found


def entries(node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node]]:
    """Key and value of a mapping with plain keys; nothing for other nodes."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                yield str(key.value), value


def child(node: yaml.Node | None, *keys: str) -> yaml.Node | None:
    """The node below the keys, None if there is none."""
    for key in keys:
        node = next((value for name, value in entries(node) if name == key), None)
    return node


def text_of(node: yaml.Node | None) -> str | None:
    """The text of a scalar; None for other nodes and for null."""
    if isinstance(node, yaml.ScalarNode) and not node.tag.endswith(":null"):
        return str(node.value)
    return None


def line_of(node: yaml.Node) -> int:
    """The line where a node starts."""
    return int(node.start_mark.line) + 1


def _walk(script: Script, node: yaml.Node, place: _Place, seen: set[int], depth: int) -> None:
    if id(node) in seen or depth > _DEPTH:  # an alias, which may also be a loop
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        _mapping(script, node, place, seen, depth)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            if isinstance(item, yaml.ScalarNode):
                _item(script, item, place)
            else:
                _walk(script, item, place, seen, depth + 1)
    elif isinstance(node, yaml.ScalarNode):
        _block(script, node, place)


def _mapping(script: Script, node: yaml.MappingNode, place: _Place, seen: set[int], depth: int) -> None:
    name = text_of(child(node, "name") or child(node, "Name"))  # Kubernetes, CloudFormation
    if name is not None and catalog().relevant(name):
        _named(script, node, name, place)
        return
    written = next((text_of(v) or "" for k, v in entries(node) if k in _FILES), "")
    for key, value in entries(node):
        if key == "args" and place.keys[-1:] == ("build",):
            continue  # for a Dockerfile: gone when the image runs
        if isinstance(value, yaml.ScalarNode):
            _scalar(script, key, value, written, place)
        elif isinstance(value, yaml.CollectionNode) and value.flow_style and catalog().relevant(key):
            _unknown(script, key, value, place)
        elif not (isinstance(value, yaml.SequenceNode) and _commands(script, key, value, place)):
            own = key != "env_vars" or _of_ray(node, place)
            _walk(script, value, place.below(key if own else "variables"), seen, depth + 1)


def _commands(script: Script, key: str, node: yaml.SequenceNode, place: _Place) -> bool:
    """Reads a list of commands; whether the key says that it is one."""
    words = _scalars(node)
    if key in _COMMANDS:
        _command(script, words, place)
    elif key in {"script", "run", "runcmd", "commands"}:
        _steps(script, words, place)
        for part in (v for v in node.value if isinstance(v, yaml.SequenceNode)):
            _command(script, _scalars(part), place)
    elif key.endswith("_commands"):  # of Ray
        for item in words:
            _own(script, item, f"one of {key}, each of which runs in its own shell", place)
    else:
        return False
    return True


def _scalars(node: yaml.SequenceNode) -> list[yaml.ScalarNode]:
    return [v for v in node.value if isinstance(v, yaml.ScalarNode)]


def _scalar(script: Script, key: str, value: yaml.ScalarNode, written: str, place: _Place) -> None:
    text = str(value.value)
    block = value.style in {"|", ">"}
    written = written or place.file
    target = _file(key, text, written, block)
    if target is not None:
        script.embedded.append(
            Embedded(line_of(value) + block, text, target, written or key, _MARK in text or "{{" in text)
        )
    elif block and "env" in key.lower() and (pairs := _pairs(text)):
        for offset, name, given in pairs:
            _set(script, name, given, line_of(value) + 1 + offset, place)
    elif block and PROSE.fullmatch(key):
        return
    elif key in _COMMANDS:
        _command(script, [value], place)
    elif key in {"run", "shell", "ansible.builtin.shell"} and (block or " " in text):
        _own(script, value, f"this {key.rpartition('.')[2]}", place)
    elif catalog().relevant(key) and not key.islower():
        _add(script, key, value, line_of(value), place)
    elif (option := _OPTION.match(text)) is not None:
        name, _, given = text[option.end() :].partition("=")
        _set(script, name, "".join(given.split()[:1]), line_of(value), place)
    else:
        _block(script, value, place)


def _file(key: str, text: str, written: str, block: bool) -> str | None:
    """The kind of the file that a text becomes, None where it becomes none; ``written``: its name where told."""
    file = key in _WRITTEN and bool(written)
    target = kind_of_target(written, text) if file else kind_of_target(key, text) if block else None
    if target in {"shell", None} and block and key.lower().endswith("yaml"):
        return "yaml"
    return target if target != "shell" or file else None


def _pairs(text: str) -> list[tuple[int, str, str]]:
    """``NAME=VALUE`` rows of an environment that is written as one text; empty if a row is something else."""
    rows = [(n, row.strip()) for n, row in enumerate(text.split("\n")) if row.strip() and row.lstrip()[0] != "#"]
    found = [(n, match[1], match[2]) for n, row in rows if (match := _ROW.fullmatch(row))]
    return found if len(found) == len(rows) else []


def _unknown(script: Script, name: str, node: yaml.Node, place: _Place) -> None:
    """A name whose value comes from elsewhere: the name itself can be judged."""
    script.settings.append(Setting(name, "", line_of(node), "YAML env", complete=False, scope=place.scope))
    script.not_evaluated.append((line_of(node), f"{name}: its value comes from elsewhere (valueFrom or a template)"))


def _steps(script: Script, nodes: list[yaml.ScalarNode], place: _Place) -> None:
    """Commands of a list that one shell runs, one after the other."""
    if nodes:
        first = line_of(nodes[0])
        rows: dict[int, str] = {}
        for node in nodes:
            at = line_of(node) + (node.style in {"|", ">"})
            for offset, row in enumerate(str(node.value).split("\n")):
                rows[at + offset] = row
        text = "\n".join(rows.get(n, "") for n in range(first, max(rows) + 1))
        read_own_shell(script, text, first, "this script", _STEP, scope=place.scope)


def _own(script: Script, node: yaml.ScalarNode, whose: str, place: _Place) -> None:
    block = node.style in {"|", ">"}
    read_own_shell(script, str(node.value), line_of(node) + block, whose, _STEP, scope=place.scope)


def _of_ray(node: yaml.MappingNode, place: _Place) -> bool:
    """Whether ``env_vars`` of a mapping is Ray's: in a runtime environment, or in a file that is one."""
    if any("runtime" in key.lower() for key in place.keys):
        return True
    return not place.keys and {key for key, _ in entries(node)} <= _RAY_FIELDS


def _item(script: Script, node: yaml.ScalarNode, place: _Place) -> None:
    equals = _EQUALS.fullmatch(_OPTION.sub("", str(node.value), count=1))
    if str(node.value).startswith("export ") and node.style not in {"|", ">"}:  # a step of a launcher's own shell
        read_shell(script, str(node.value), line_of(node), 1, place.scope)
        return
    if equals is None or not catalog().relevant(equals[1]):
        _block(script, node, place)
        return
    _set(script, equals[1], equals[2], line_of(node), place)


def _block(script: Script, node: yaml.ScalarNode, place: _Place) -> None:
    if node.style in {"|", ">"}:
        _own(script, node, "this script", place)


def _command(script: Script, nodes: list[yaml.ScalarNode], place: _Place) -> None:
    """A command as a list: its words, and shell text among them (an argument with blanks or several lines)."""
    words: list[tuple[str, int]] = []
    for node in nodes:
        text = str(node.value)
        if node.style in {"|", ">"} or " " in text.strip():
            _own(script, node, "this command", place)
        else:
            words.append((text, line_of(node)))
    read_words(script, words, place.scope)


def _named(script: Script, node: yaml.MappingNode, name: str, place: _Place) -> None:
    cloud = child(node, "Name") is not None
    value = child(node, "Value" if cloud else "value")
    if isinstance(value, yaml.ScalarNode):
        _add(script, name, value, line_of(value), place, strings_only=not cloud)
    elif value is not None or child(node, "valueFrom") is not None:
        _unknown(script, name, value or node, place)


def _add(
    script: Script, name: str, node: yaml.ScalarNode, line: int, place: _Place, strings_only: bool = False
) -> None:
    text = text_of(node)
    if text is None or (text == "" and not node.style):
        script.named.append((line, name))
        return
    if node.style in {"|", ">"}:
        text = text.rstrip("\n")
    _set(script, name, text, line, place)
    plain = not node.style and not any(mark in text for mark in _UNKNOWN)
    kind = node.tag.rsplit(":", 1)[-1]
    ray = "env_vars" in place.keys
    if plain and kind != "str" and (strings_only or ray or place.config_map):
        who = "Ray" if ray else "Kubernetes"
        effect = "Ray refuses the runtime environment." if ray else "The API server refuses the manifest."
        wanted = f'{name}: "{text}"' if ray or place.config_map else f'value: "{text}"'
        issue = issue_of("value-quoted-takes", name, text=text, who=who, wanted=wanted, effect=effect)
        script.problems.append((line, issue))
    elif plain and place.compose and text.lower() in {"true", "false"}:
        script.problems.append((line, issue_of("truth-value-compose", name, text=text)))


def _set(script: Script, name: str, value: str, line: int, place: _Place) -> None:
    if not catalog().relevant(name):
        return
    complete = not any(mark in value for mark in _UNKNOWN)
    script.settings.append(Setting(name, value, line, "YAML env", complete=complete, scope=place.scope))
    if not complete:
        shown = value.replace(_MARK, "{{ }}")
        script.not_evaluated.append((line, f"{name}={shown}: known only when the manifest is rendered or the pod runs"))
