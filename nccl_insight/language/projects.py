"""What projects of the stack around NCCL print when something fails, read from their sources.

A scanner, no compiler: the text of a call is put together from its literals, with a made-up value where another piece
stands, and given the head that the project's logger prints. Exceptions of Python stand as ``Class: text``.
"""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from nccl_insight.base import toml
from nccl_insight.base.data import dataclass
from nccl_insight.base.words import line_at


@dataclass(frozen=True)
class Project:
    """A project by a path that only its tree has.

    ``roots``: folders whose messages count. ``calls``: a pattern of the macros and functions that report failures in
    C and C++; empty for Python, of which what is raised and logged as an error counts. ``line``: how it is printed
    (of Python the words alone). ``texts``: instead of code, files of texts that are shown by name (a glob), and
    ``entry``, the pattern of one.
    """

    name: str
    mark: str
    roots: tuple[str, ...]
    calls: str = ""
    line: str = "{text}"
    texts: str = ""
    entry: str = ""


_SKIPPED: Final = re.compile(r"/(?:tests?|examples?|benchmarks?|perftest|gtest|docs?)/")
_LITERAL: Final = re.compile(r'"((?:[^"\\\n]|\\.)*)"|(<<|,)|[A-Za-z_]\w*')
_CONVERSION: Final = re.compile(r"%[-+ #0]*[0-9*]*(?:\.[0-9*]+)?(?:hh|h|ll|l|z|j|t)?([diuxXopsfgecm])")
_MADE_UP: Final = {"s": "mlx5_2", "p": "0x7f2a10", "m": "Connection timed out", "x": "1f", "f": "1.5", "c": "x"}
# The end of a statement, or of a definition of the preprocessor.
_END: Final = re.compile(r";|\n[ \t]*(?:#|//)")
_LONGEST: Final = 700
_LEAST_WORDS: Final = 3


@dataclass(frozen=True)
class Said:
    """A message: file and line of the call, its text with made-up values, and the line as it would be printed."""

    file: str
    line: int
    text: str
    printed: str


@cache
def projects() -> tuple[Project, ...]:
    """Those of ``projects.toml``."""
    data = toml.beside(__file__)
    return tuple(Project(**{**row, "roots": tuple(row["roots"])}) for row in data["project"])


def project_at(root: Path) -> tuple[Project, Path] | None:
    """The project of a tree, and the folder that holds it (a checkout's, or one that it keeps its sources in)."""
    for folder in (root, root / "src", root / "python"):
        for project in projects():
            if (folder / project.mark).exists():
                return project, folder
    return None


def messages(project: Project, root: Path) -> Iterator[Said]:
    """What reports failures, each text once."""
    seen: set[str] = set()
    for path in _files(project, root):
        source = path.read_text("utf-8", "replace")
        if project.texts:
            found = _entries(project.entry, source)
        else:
            found = _calls(project.calls, source) if project.calls else _raised(source)
        for line, raised, text in found:
            text = " ".join(text.split())
            if text not in seen and len(text.split()) >= _LEAST_WORDS:
                seen.add(text)
                shown = f"{raised}: {text}" if raised else project.line.format(file=path.name, text=text)
                yield Said(path.relative_to(root).as_posix(), line, text, shown)


def _files(project: Project, root: Path) -> Iterator[Path]:
    kinds = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp") if project.calls else (".py",)
    globs = (project.texts,) if project.texts else tuple(f"*{kind}" for kind in kinds)
    for name in project.roots:
        at = root / name
        for path in sorted(at.rglob("*")) if at.is_dir() else [at]:
            wanted = any(path.match(glob) for glob in globs)
            if wanted and path.is_file() and not _SKIPPED.search(path.relative_to(root).as_posix()):
                yield path


def _entries(pattern: str, source: str) -> Iterator[tuple[int, str, str]]:
    for found in re.finditer(pattern, source, re.M):
        said = _CONVERSION.sub(lambda m: _MADE_UP.get(m[1], "7"), found[1])
        yield line_at(source, found.start(1)), "", said


def _calls(names: str, source: str) -> Iterator[tuple[int, str, str]]:
    for found in re.finditer(rf"(?<!\w)(?:{names})(?!\w)", source):
        text = _joined(_END.split(source[found.end() : found.end() + _LONGEST])[0])
        if text:
            yield line_at(source, found.start()), "", text


def _joined(call: str) -> str:
    """The literals of a statement: of a stream all, with values between; of a function the first and its neighbors."""
    stream, parts = "<<" in call, []
    for piece in _LITERAL.finditer(call):
        if piece[1] is not None:
            parts.append(piece[1])
        elif piece[2] == "," and parts and not stream:
            break
        elif piece[2] is None and parts and stream and parts[-1] != "7":
            parts.append("7")
    text = "".join(parts).replace("\\n", " ").replace('\\"', '"')
    return _CONVERSION.sub(lambda m: _MADE_UP.get(m[1], "7"), text)


def _raised(source: str) -> Iterator[tuple[int, str, str]]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        call = node.exc if isinstance(node, ast.Raise) else node
        if not isinstance(call, ast.Call) or not call.args:
            continue
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        if isinstance(node, ast.Raise) or name in ("error", "critical", "exception"):
            text = _text(call.args[0])
            if text:
                yield call.lineno, name if isinstance(node, ast.Raise) else "", _CONVERSION.sub("7", text)


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(v) if isinstance(v, ast.Constant) else "7" for v in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left) + (_text(node.right) if isinstance(node.op, ast.Add) else "")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return re.sub(r"\{[^}]*\}", "7", _text(node.func.value))
    return ""


def unknown(
    project: Project, root: Path, means: Callable[[str], bool], skeletons: bool = False
) -> tuple[str, int, int]:
    """Messages of which nothing is known, a line each or as rules to start from; how many, and of how many."""
    parts: list[str] = []
    every = 0
    for said in messages(project, root):
        every += 1
        if means(said.printed):
            continue
        if skeletons:
            words = "_".join(re.findall(r"[a-z]{3,}", said.text.lower())[:4])
            start = re.split(r"\b7\b|mlx5_2|0x7f2a10", said.text)[0].replace("\\", "\\\\").replace('"', '\\"')
            parts.append(f"//! diagnosis: ?\n//! role: ?\n//! source: {project.name} {said.file}\n")
            parts.append(f'{words}: "{start}" [ rest_of_text ]\n\n')
        else:
            parts.append(f"{said.file}:{said.line}  {said.text}\n")
    return "".join(parts), len(parts) // (2 if skeletons else 1), every
