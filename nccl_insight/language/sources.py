"""What a checkout of NCCL, RCCL or aws-ofi-nccl can print and reads as settings.

A small scanner, no compiler: comments are blanked, calls of the logging macros are found by name and their format
strings joined from literals and string macros. Formats that are put together at run time are counted, not guessed.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from nccl_insight.base import toml
from nccl_insight.base.data import dataclass
from nccl_insight.base.errors import NotJudgedError, UsageError
from nccl_insight.base.words import line_at, pairs

SUFFIXES: Final = (".cc", ".cpp", ".cxx", ".c", ".cu", ".h", ".hpp", ".cuh")
_DATA: Final = toml.beside(__file__)
_FOLDERS: Final = ("src", "include")
_LIMIT_BYTES: Final = 4 << 20

LOGGERS: Final[Mapping[str, tuple[int, str, str]]] = _DATA["loggers"]
_COMMENT: Final = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n]){1,4}'", re.S)
_STRING: Final = re.compile(r'"(?:\\.|[^"\\\n])*"')
_CALL: Final = re.compile(rf"\b({'|'.join(sorted(LOGGERS, key=len, reverse=True))})[ \t]*\(")
_DEFINE: Final = re.compile(r'^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)[ \t]+((?:"(?:\\.|[^"\\\n])*"[ \t]*)+)$', re.M)
_FUNCTION: Final = re.compile(r"^(?!#|\s|return\b|else\b)[A-Za-z_][\w:<>,*& \t]*?[ *&](~?\w+)[ \t]*\(", re.M)
_PIECE: Final = re.compile(r'"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*')
_PRINTF_MACRO: Final = pairs("""PRIx64=lx PRIu64=lu PRId64=ld PRIX64=lX PRIx32=x PRIu32=u PRId32=d PRIu16=hu PRIx16=hx
    PRIu8=hhu PRIuPTR=lu PRIxPTR=lx PRIi64=li PRIi32=i""")
_SETTINGS: Final = (
    (re.compile(r'\b(?:NCCL|RCCL)_PARAM\s*\(\s*\w+\s*,\s*"([A-Z0-9_]+)"\s*,\s*([^;]*?)\)\s*;'), "{library}_{name}"),
    (re.compile(r"\bDEFINE_NCCL_PARAM\s*\(\s*\w+\s*,[^,]+,\s*([A-Z0-9_]+)\s*,\s*([^,]*?)\s*,"), "{name}"),
    (
        re.compile(r'\bOFI_NCCL_PARAM(?:_[A-Z]+)?\s*\(\s*[^,]+,\s*\w+\s*,\s*"([A-Z0-9_]+)"\s*,\s*([^;]*?)\)\s*;'),
        "OFI_NCCL_{name}",
    ),
    (re.compile(r'\b(?:ncclGetEnv|getenv)\s*\(\s*"((?:NCCL|RCCL|OFI_NCCL)_[A-Z0-9_]+)"()'), "{name}"),
)


@dataclass(frozen=True)
class LogCall:
    """One call that prints: file from the root on, line, function around it, level, format, further arguments."""

    file: str
    line: int
    function: str
    level: str
    format: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Setting:
    """One variable that the library reads; ``default`` as written in the source, empty where it has none."""

    name: str
    default: str
    file: str
    line: int


@dataclass(frozen=True)
class Tree:
    """What a checkout holds. ``library`` is nccl, rccl or ofi; ``computed``: calls whose format is no literal."""

    library: str
    version: str
    calls: tuple[LogCall, ...]
    settings: tuple[Setting, ...]
    computed: int


def _blank(text: str) -> str:
    """The text without comments; line breaks and strings stay, continued lines become one."""

    def put(found: re.Match[str]) -> str:
        piece = found[0]
        return piece if piece[0] in "\"'" else "\n" * piece.count("\n") or " "

    return _COMMENT.sub(put, text).replace("\\\n", " \n")


def _arguments(text: str, at: int) -> list[str] | None:
    """Arguments of a call whose opening bracket stands right before ``at``; None when it does not end."""
    depth, start, out = 1, at, []
    while at < len(text):
        c = text[at]
        if c == '"':
            string = _STRING.match(text, at)
            if string is None:
                return None
            at = string.end()
            continue
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                out.append(text[start:at].strip())
                return out
        elif c == "," and depth == 1:
            out.append(text[start:at].strip())
            start = at + 1
        at += 1
        if at - start > 20_000:
            return None
    return None


def _unquote(literal: str) -> str:
    escapes = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "0": "\0"}
    return re.sub(r"\\(.)", lambda m: escapes.get(m[1], m[1]), literal[1:-1])


def _format(argument: str, macros: Mapping[str, str]) -> str | None:
    """A format from literals and string macros; None for anything else."""
    rest = _PIECE.sub("", argument)
    if rest.strip(" \t\n\\()"):
        return None
    parts: list[str] = []
    for piece in _PIECE.findall(argument):
        if piece[0] == '"':
            parts.append(_unquote(piece))
        elif piece in macros:
            parts.append(macros[piece])
        else:
            return None
    return "".join(parts) if parts else None


def _formats(argument: str, macros: Mapping[str, str]) -> list[str]:
    """The formats that an argument may be: of `condition ? "a" : "b"` both."""
    whole = _format(argument, macros)
    if whole is not None:
        return [whole]
    choice = re.fullmatch(r'[^"]*\?(.*):(.*)', argument, re.S)
    found = [_format(side, macros) for side in choice.groups()] if choice else []
    return [f for f in found if f is not None]


def _files(root: Path) -> Iterator[tuple[str, str]]:
    folders = [root / name for name in _FOLDERS if (root / name).is_dir()] or [root]
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(root)
            if (
                path.suffix not in SUFFIXES
                or "windows" in path.name
                or {*_DATA["skipped"]} & {p.lower() for p in inside.parts[:-1]}
            ):
                continue
            if path.is_file() and path.stat().st_size <= _LIMIT_BYTES:
                yield inside.as_posix(), path.read_text("utf-8", "replace")


def _version(root: Path, library: str) -> str:
    if library == "ofi":
        source = root / "configure.ac"
        text = source.read_text("utf-8", "replace") if source.is_file() else ""
        found = re.search(r"AC_INIT\([^,]*,\s*\[([0-9][^\]]*)\]", text)
        return found[1] if found else ""
    makefile = root / "makefiles" / "version.mk"
    text = makefile.read_text("utf-8", "replace") if makefile.is_file() else ""
    parts = [re.search(rf"NCCL_{part}\s*:=\s*(\S+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(p[1] for p in parts if p)


def _library(names: list[str]) -> str:
    if any("nccl_ofi" in name for name in names):
        return "ofi"
    return "rccl" if any("rccl" in name or "msccl" in name for name in names) else "nccl"


def read_tree(root: str | Path) -> Tree:
    """Logging calls and settings of a checkout.

    Raises UsageError: the folder is not there. NotJudgedError: it holds no call of a known logging macro.
    """
    base = Path(root)
    if not base.is_dir():
        raise UsageError(f"{base}: no such folder")
    texts = {name: _blank(text) for name, text in _files(base)}
    macros = dict(_PRINTF_MACRO)
    for text in texts.values():
        for name, value in _DEFINE.findall(text):
            macros.setdefault(name, "".join(_unquote(s) for s in _STRING.findall(value)))
    calls: list[LogCall] = []
    settings: dict[str, Setting] = {}
    computed = 0
    for name, text in texts.items():
        found, more = _calls(name, text, macros)
        calls += found
        computed += more
        for setting in _settings(name, text):
            settings.setdefault(setting.name, setting)
    if not calls:
        raise NotJudgedError(
            f"{base}: no logging calls of NCCL, RCCL or aws-ofi-nccl here: give the root of their sources"
        )
    library = _library(list(texts))
    return Tree(
        library, _version(base, library), tuple(calls), tuple(sorted(settings.values(), key=lambda s: s.name)), computed
    )


def _calls(name: str, text: str, macros: Mapping[str, str]) -> tuple[list[LogCall], int]:
    """The calls that print in a file, and how many more have no literal format."""
    calls: list[LogCall] = []
    computed = 0
    functions = [(m.start(), m[1]) for m in _FUNCTION.finditer(text)]
    for found in _CALL.finditer(text):
        arguments = _arguments(text, found.end())
        place, level, front = LOGGERS[found[1]]
        if arguments is None or len(arguments) <= place or text[: found.start()].endswith("define "):
            continue
        formats = _formats(arguments[place], macros)
        if not formats:
            computed += any(c in arguments[place] for c in '"(') or arguments[place].isidentifier()
            continue
        if found[1] == "rasDiagnosticsReport":
            front = "[INFO] " if "INFO" in arguments[1] else "[OK]   "
        line = line_at(text, found.start())
        around = next((f for at, f in reversed(functions) if at < found.start()), "")
        calls += [LogCall(name, line, around, level, front + f, tuple(arguments[place + 1 :])) for f in formats]
    return calls, computed


def _settings(name: str, text: str) -> Iterator[Setting]:
    for pattern, form in _SETTINGS:
        for found in pattern.finditer(text):
            prefix = "RCCL" if found[0].startswith("RCCL") else "NCCL"
            default = " ".join((found[2] or "").split()).strip('"')
            full = form.format(library=prefix, name=found[1])
            yield Setting(full, default, name, line_at(text, found.start()))
