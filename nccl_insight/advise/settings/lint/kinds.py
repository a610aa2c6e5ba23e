"""What a file is, from its name and its first lines. What is not known is not judged."""

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from nccl_insight.base import texts, toml

UNKNOWN: Final = "unknown"


def _kinds(by: str) -> dict[str, str]:
    said = texts.of_file(__file__)[by]
    return {word: kind for kind, words in said.items() for word in words.split()}


_BY_SUFFIX: Final = _kinds("suffix")
_BY_NAME: Final = _kinds("name")
_SHEBANG: Final = re.compile(r"#![ \t]*(?:\S*/env[ \t]+(?:-\S+[ \t]+)*)?(?:\S*/)?([A-Za-z]+)")
_INTERPRETERS: Final = _kinds("interpreter")
_TEMPLATES: Final = re.compile(
    r"(?i)(?:\.(?:j2|jinja2?|erb|mustache|tmpl|gotmpl)|[.-](?:template|example|sample|dist|default|orig|bak))$"
)
_SECTIONS: Final = re.compile(r"\A\s*(?:[#;][^\n]*\n\s*)*\[[\w.: -]+\]")
# How a text begins, and (True) what one of its first lines looks like, in this order.
_CONTENT: Final[Sequence[tuple[str, bool, re.Pattern[str]]]] = tuple(
    (kind, by_line, re.compile(pattern)) for kind, by_line, pattern in toml.beside(__file__)["content"]
)
# Keys whose value is text for people.
PROSE: Final = re.compile(
    r"(?:description|comment|help|notes?|summary|title|label|message|error_message|docs?|readme|placeholder)", re.I
)
_QUEUE: Final = re.compile(r"(?i)[ \t]{0,99}queue\b")
_HEAD: Final = 8000
_COMMENT_HEAD: Final = re.compile(r"\A(?:[ \t]*#[^!%\n][^\n]*\n|\s*\n)*")
#: How comments begin that a batch system reads.
DIRECTIVE: Final = re.compile(r"(?m)^#(?:SBATCH|PBS|BSUB|MSUB|PJM|COBALT|OAR|NQSV|\$(?= ?-)|FLUX:| flux:)")
_PAIR: Final = re.compile(r"(?:export[ \t]+)?[A-Za-z_]\w*=.*")
_MOST_ROWS: Final = 2000


def kind_of(path: str, text: str) -> str:
    """One of ``KINDS``, or ``unknown``. A first line ``#!`` wins over the suffix, a telling name over both."""
    pure = PurePath(path)
    if (template := _TEMPLATES.search(pure.name)) is not None and "." in pure.name[: template.start()]:
        return kind_of(pure.name[: template.start()], text)
    if kind := _by_name(pure):
        return kind
    suffix = pure.suffix.lower()
    if suffix.isascii() and suffix[1:].replace(".", "").isdigit():
        suffix = ""  # a version, as in modulefiles/nccl/2.27.7
    if text.startswith("#!"):
        said = _SHEBANG.match(text)
        return _INTERPRETERS.get(said[1], UNKNOWN) if said else _BY_SUFFIX.get(suffix, UNKNOWN)
    if suffix in _BY_SUFFIX:
        return _by_suffix(suffix, text)
    if content := _looks(text):
        return content
    if suffix and not DIRECTIVE.search(text):
        return "env-file" if _pairs_only(text) else UNKNOWN
    return "shell"


def _by_name(path: PurePath) -> str:
    """The kind that a name tells, whatever its suffix; empty for none."""
    name = path.name.lower()
    if name.startswith(("dockerfile", "containerfile")):
        return "dockerfile"
    if name.endswith(("nccl.conf", "rccl.conf")):
        return "nccl.conf"
    if name in _BY_NAME or name.startswith("makefile."):
        return _BY_NAME.get(name, "make")
    return "env-file" if name.startswith(".env.") or {"environment.d", "environ.d"} & {*path.parts[:-1]} else ""


def _by_suffix(suffix: str, text: str) -> str:
    """The kind of a suffix that has several, by the text."""
    kind = _BY_SUFFIX[suffix]
    sections, unit = _SECTIONS.match(text), _looks(text, "unit")
    if suffix == ".sub" and _looks(text, "condor"):
        return "condor"
    if suffix == ".conf" and sections and not unit:
        return "ini"
    if suffix == ".cfg" and not sections:
        return "env-file"
    return "unit" if kind == "env-file" and unit else kind


def _looks(text: str, only: str = "") -> str | None:
    """What the content tells (of one kind only, if given); None if nothing."""
    text = _COMMENT_HEAD.sub("", text, count=1) if not only and len(text) > _HEAD else text
    rows = [row[:300] for row in text[:_HEAD].split("\n")]
    for kind, by_line, pattern in _CONTENT:
        found = only in {"", kind} and (any(map(pattern.match, rows)) if by_line else pattern.match(text))
        if found and (kind != "condor" or any(map(_QUEUE.match, rows))):
            return kind
    return None


def _pairs_only(text: str) -> bool:
    rows = [row.strip() for row in text.split("\n") if row.strip() and not row.lstrip().startswith("#")]
    return 0 < len(rows) < _MOST_ROWS and all(_PAIR.fullmatch(row) for row in rows)


def kind_of_input(command: str) -> str | None:
    """What text is that a command reads; None: not ours."""
    words = [w.rsplit("/", 1)[-1] for w in command.split()]
    if {"kubectl", "oc"} & {*words[:2]} or words[:3] == ["podman", "kube", "play"]:
        return "yaml" if {"apply", "create", "replace", "play"} & set(words) else "shell"
    if words[:1] == ["docker"] and "build" in words:
        return "dockerfile"
    if any(w.startswith("python") for w in words[:2]):
        return "python"
    shells = {"bash", "sh", "zsh", "ssh", "sbatch", "qsub", "bsub", "srun"}
    return "shell" if shells & set(words[:6]) else None


def kind_of_target(target: str, text: str) -> str | None:
    """What text becomes that a script writes to ``target``; None: not ours."""
    if "GITHUB_ENV" in target:
        return "env-file"
    pure = PurePath(target)
    if not target or target.startswith("/dev/") or "$" in (pure.suffix or pure.name) or pure.suffix == ".txt":
        return None
    name, own = pure.name.lower(), pure.name.lower() in _BY_NAME or text.startswith("#!")
    if not (pure.suffix or own or name.startswith((".", "dockerfile"))):
        return None
    kind = kind_of(target, text)
    fits = own or pure.suffix.lower() in _BY_SUFFIX or kind in {"nccl.conf", "env-file", "dockerfile"}
    return kind if fits and kind != UNKNOWN else None
