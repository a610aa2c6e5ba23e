"""Builds the documentation site: ``python tools/site.py [FOLDER]`` (``site``; needs the extra ``docs``).

What the program says of itself (commands, checks, messages, versions) becomes pages here and cannot go stale. The
generator, Zensical, gets a folder with everything: it needs no plugin, and another generator would serve as well.
"""

from __future__ import annotations

import html
import itertools
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from nccl_insight.cli import build_app
from nccl_insight.language.load import default_grammar, grammar_files
from nccl_insight.language.syntax import Message
from nccl_insight.rules import Rule, discover
from nccl_insight.views.line import wordings

GROUPS = {
    "1": "Launch and environment", "2": "Network", "3": "Topology", "4": "Memory and limits", "5": "Errors and hangs",
    "6": "Performance", "9": "The input itself",
}  # fmt: skip


ROOT = Path(__file__).parents[1]
LEFT_OUT = ("picture.py", "*.sh", "*.sbatch", "*.yaml", "*.json", "*.service")

_FORGE = "https://github.com"
_NVIDIA = "https://docs.nvidia.com"
_NCCL = f"{_NVIDIA}/deeplearning/nccl/user-guide/docs"
# What a reference names -> its address, as a template of the match. The first that matches at a place counts.
REFERENCES = tuple(
    (re.compile(form), address)
    for form, address in (
        (r"(NVIDIA/nccl|ROCm/rccl) (src/\w+(?:/\w+)*\.(?:cc|h))", rf"{_FORGE}/\1/blob/HEAD/\2"),
        (r"(NVIDIA/nccl) (src/transport/net_ib)\b", rf"{_FORGE}/\1/tree/HEAD/\2"),
        (r"(?<![\w/])(src/\w+(?:/\w+)*\.(?:cc|h))", rf"{_FORGE}/NVIDIA/nccl/blob/HEAD/\1"),
        (r"([\w-]+/[\w-]+) (README|doc/[\w./-]+\.md|plugins/[\w./-]+\.md)", rf"{_FORGE}/\1/blob/HEAD/\2"),
        (r"NCCL release notes (2\.\d+\.\d+)", rf"{_FORGE}/NVIDIA/nccl/releases/tag/v\1-1"),
        (r"\b((?:NVIDIA|ROCm|aws|pytorch|sgl-project|stas00|facebookresearch|AMD-AGI)/[\w-]+)", rf"{_FORGE}/\1"),
        (r"\bNCCL_(?!OFI)[A-Z_]+", f"{_NCCL}/env.html"),
        (r"NCCL user guide, environment variables", f"{_NCCL}/env.html"),
        (r"NCCL user guide, troubleshooting with RAS", f"{_NCCL}/troubleshooting/ras.html"),
        (r"NCCL troubleshooting guide", f"{_NCCL}/troubleshooting.html"),
        (r"NCCL user guide", f"{_NCCL}/index.html"),
        (r"CUDA runtime API", f"{_NVIDIA}/cuda/cuda-runtime-api/"),
        (r"CUDA driver API", f"{_NVIDIA}/cuda/cuda-driver-api/"),
        (r"CUDA C\+\+ Best Practices Guide", f"{_NVIDIA}/cuda/cuda-c-best-practices-guide/"),
        (r"CUDA compatibility guide", f"{_NVIDIA}/deploy/cuda-compatibility/"),
        (r"NVIDIA Xid catalog", f"{_NVIDIA}/deploy/xid-errors/"),
        (r"NVML API reference", f"{_NVIDIA}/deploy/nvml-api/"),
        (r"Multi-Process Service", f"{_NVIDIA}/deploy/mps/"),
        (r"PyTorch documentation, distributed", "https://docs.pytorch.org/docs/stable/distributed.html"),
        (
            r"PyTorch Flight Recorder tutorial",
            "https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html",
        ),
        (r"\b(fi_\w+)\(3\)", r"https://ofiwg.github.io/libfabric/main/man/\1.3.html"),
        (
            r"\b(ibv_\w+|connect|accept|pthread_create|signal|ld\.so|ip-link)\((\d)\)",
            r"https://man7.org/linux/man-pages/man\2/\1.\2.html",
        ),
        (r"RFC (\d+)", r"https://www.rfc-editor.org/rfc/rfc\1"),
    )
)
_ISSUES = re.compile(r"([\w-]+/[\w-]+) (issues?|pull request) (\d+(?:(?:, | and |, and )\d+)*)")


def linked(text: str) -> str:
    """References with the addresses of what they name."""
    found: list[str] = []

    def kept(label: str, address: str) -> str:
        found.append(f"[{label}]({address})")
        return f"\0{len(found) - 1}\0"

    def issues(match: re.Match[str]) -> str:
        forge, kind = f"{_FORGE}/{match[1]}", "pull" if match[2] == "pull request" else "issues"
        numbers = re.sub(r"\d+", lambda n: kept(n[0], f"{forge}/{kind}/{n[0]}"), match[3])
        return f"{kept(match[1], forge)} {match[2]} {numbers}"

    text = _ISSUES.sub(issues, text)
    for form, address in REFERENCES:
        text = form.sub(lambda m, to=address: kept(m[0], m.expand(to)), text)  # type: ignore[misc]
    return re.sub("\0(\\d+)\0", lambda m: found[int(m[1])], text)


def build(folder: Path) -> None:
    """Writes the site to the folder; raises `CalledProcessError` where a page or a link in it is broken."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        shutil.copytree(ROOT / "docs", work / "docs", ignore=shutil.ignore_patterns(*LEFT_OUT))
        made = pages()
        for path, text in made.items():
            (work / "docs" / path).parent.mkdir(parents=True, exist_ok=True)
            (work / "docs" / path).write_text(text, encoding="utf-8")
        config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
        config["nav"] = [_with_children(entry, sorted(made)) for entry in config["nav"]]
        (work / "mkdocs.yml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
        subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=work, check=True)
        shutil.copytree(work / "site", folder, dirs_exist_ok=True)


def _with_children(entry: Any, made: Sequence[str]) -> Any:
    """An entry of the navigation in which an index of generated pages has them below it."""
    if isinstance(entry, str):
        return entry
    title, below = next(iter(entry.items()))
    if isinstance(below, list):
        return {title: [_with_children(one, made) for one in below]}
    folder = below.removesuffix("index.md")
    children = [name for name in made if folder not in ("", below) and name.startswith(folder) and name != below]
    return {title: [below, *children]} if children else entry


def pages() -> dict[str, str]:
    """The generated pages by their path in the folder of the docs."""
    made = {
        "reference/commands.md": commands(),
        "reference/checks/index.md": overview(),
        "reference/versions.md": versions(),
    }
    made |= {f"reference/checks/{rule.code}.md": page(rule) for rule in discover()}
    return made | {f"reference/messages/{name}.md": text for name, text in messages().items()}


def commands() -> str:
    """The help of every command."""
    from typer.main import get_command

    command = get_command(build_app())
    parts = ["# Commands\n"]
    for name in sorted(command.commands):  # type: ignore[attr-defined]
        sub = command.commands[name]  # type: ignore[attr-defined]
        context = sub.make_context(
            name, [], resilient_parsing=True, parent=command.make_context("nccl-insight", [], resilient_parsing=True)
        )
        parts.append(f"## {name}\n\n```text\n{sub.get_help(context)}\n```\n")
    return "\n".join(parts)


def messages() -> dict[str, str]:
    """One page for each file of the grammar: every message with its meaning and the versions that print it."""
    codes = {rule.name: rule.code for rule in discover()}
    files: dict[str, list[Message]] = {}
    for message in default_grammar().messages.values():
        files.setdefault(message.origin.partition(".lark")[0], []).append(message)
    titles = {name: _title(name) for name in files}
    index = ["# Messages\n", "Every message that nccl-insight knows, by file of the grammar.\n"]
    index += [f"* [{titles[name]}]({name}.md): {len(found)}" for name, found in sorted(files.items())]
    pages = {"index": "\n".join([*index, ""])}
    for name, found in files.items():
        rows = [
            f"# {titles[name]}\n",
            f"From `grammars/{name}.lark`.\n",
            "| message | means | role | versions |",
            "|---|---|---|---|",
        ]
        rows += [_message(message, codes) for message in found]
        pages[name] = "\n".join([*rows, ""])
    return pages


def _title(name: str) -> str:
    """What a file of the grammar says that it holds, without the details."""
    said = " ".join(
        line.removeprefix("//").strip()
        for line in itertools.takewhile(
            lambda line: line.startswith("// "), grammar_files()[f"{name}.lark"].splitlines()
        )
    )
    title = re.split(r"[.:](?: |$)| \(|, which ", said)[0]
    return f"Errors: {title}" if name.startswith("errors_") else title


def _message(message: Message, codes: Mapping[str, str]) -> str:
    texts = [text.replace("\n", " ")[:160] for text in wordings(message.expr)[:3]]
    shown = "<br>".join(html.escape(text).replace("|", "\\|") for text in texts)
    names = list(dict.fromkeys(message.meaning.names())) if message.meaning else []
    linked = [f"[{n}](../checks/{codes[n]}.md)" if n in codes else n for n in names]
    told = ", ".join(linked[:6]) + (f" and {len(linked) - 6} more" if len(linked) > 6 else "")
    roles = {case.role for case in message.meaning.cases if case.role} if message.meaning else set()
    role = " or ".join(sorted({message.meaning.role, *roles})) if message.meaning else ""
    return f"| {shown} | {told} | {role} | {message.directives.get('versions', '')} |"


def overview() -> str:
    """All checks by family."""
    parts = ["# Checks\n", "What nccl-insight looks for. Each page says what the finding means and what to do.\n"]
    for number, title in GROUPS.items():
        rows = [r for r in discover() if r.code[2] == number]
        if rows:
            parts.append(f"## {title}\n\n| code | name | severity | summary |\n|---|---|---|---|")
            parts += [f"| [{r.code}]({r.code}.md) | {r.name} | {r.severity.word} | {_cell(r.summary)} |" for r in rows]
            parts.append("")
    return "\n".join(parts)


def page(rule: Rule) -> str:
    """The page of one check: its documentation with headings of this site."""
    text = re.sub(r"^([^\n]+)\n-{3,}$", r"## \1", rule.doc, flags=re.M)
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    before, heading, references = text.partition("## References\n")
    cited, more, after = references.partition("\n## ")
    known = {r.name: r.code for r in discover() if "-" in r.name and r is not rule}
    names = re.compile(rf"(?<![\w/`-])({'|'.join(sorted(known, key=len, reverse=True))})(?![\w/`-])")
    lines = [
        line if line.startswith("    ") else names.sub(lambda m: f"[{m[1]}]({known[m[1]]}.md)", line)
        for line in (before + heading + linked(cited) + more + after).splitlines()
    ]
    text = "\n".join(lines)
    head = f"severity **{rule.severity.word}**, action **{rule.action.value}**"
    return f"# {rule.code} {rule.name}\n\n{head}\n\n{text}\n"


def versions() -> str:
    """Which releases the messages of the grammar name."""
    seen: dict[str, int] = {}
    for message in default_grammar().messages.values():
        for part in message.directives.get("versions", "").split(","):
            if name := part.strip():
                seen[name] = seen.get(name, 0) + 1
    rows = sorted(seen.items(), key=lambda item: -item[1])
    table = "\n".join(f"| {_cell(name)} | {count} |" for name, count in rows)
    return (
        "# Supported versions\n\nNCCL 2.3 to 2.32, RCCL and aws-ofi-nccl. A message names the releases that print it; "
        f"{len(default_grammar().messages):,} messages are known. The most frequent ranges:\n\n"
        f"| versions | messages |\n|---|---|\n{table}\n"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("``", "`")


if __name__ == "__main__":
    build(Path(sys.argv[1] if len(sys.argv) > 1 else "site"))
