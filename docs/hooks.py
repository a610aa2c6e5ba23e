"""Pages that are made when the site is built: what the program says of itself cannot go stale."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

from mkdocs.structure.files import File, Files

from nccl_insight.cli import build_app
from nccl_insight.language.load import default_grammar
from nccl_insight.language.syntax import Message
from nccl_insight.rules import Rule, discover
from nccl_insight.views.line import wordings

GROUPS = {
    "1": "Launch and environment", "2": "Network", "3": "Topology", "4": "Memory and limits", "5": "Errors and hangs",
    "6": "Performance", "9": "The input itself",
}  # fmt: skip


def on_files(files: Files, config: Any) -> Files:
    """Adds the generated pages."""
    pages = {
        "reference/commands.md": commands(),
        "reference/checks/index.md": overview(),
        "reference/versions.md": versions(),
    }
    for rule in discover():
        pages[f"reference/checks/{rule.code}.md"] = page(rule)
    for name, text in messages().items():
        pages[f"reference/messages/{name}.md"] = text
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def commands() -> str:
    """The help of every command."""
    from typer.main import get_command

    command = get_command(build_app())
    parts = ["# Commands\n"]
    for name in sorted(command.commands):  # type: ignore[attr-defined]
        sub = command.commands[name]  # type: ignore[attr-defined]
        context = sub.make_context(
            name,
            [],
            resilient_parsing=True,
            parent=command.make_context("nccl-insight", [], resilient_parsing=True),
        )
        parts.append(f"## {name}\n\n```text\n{sub.get_help(context)}\n```\n")
    return "\n".join(parts)


def messages() -> dict[str, str]:
    """One page for each file of the grammar: every message with its meaning and the versions that print it."""
    codes = {rule.name: rule.code for rule in discover()}
    files: dict[str, list[Message]] = {}
    for message in default_grammar().messages.values():
        files.setdefault(message.origin.partition(".lark")[0], []).append(message)
    index = ["# Messages\n", "Every message that nccl-insight knows, by file of the grammar.\n"]
    index += [f"* [{name}]({name}.md): {len(found)}" for name, found in sorted(files.items())]
    pages = {"index": "\n".join([*index, ""])}
    for name, found in files.items():
        rows = [f"# {name}\n", "| message | means | role | versions |", "|---|---|---|---|"]
        rows += [_message(message, codes) for message in found]
        pages[name] = "\n".join([*rows, ""])
    return pages


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
    parts = [
        "# Checks\n",
        "What nccl-insight looks for. Each page says what the finding means and what to do.\n",
    ]
    for number, title in GROUPS.items():
        rows = [r for r in discover() if r.code[2] == number]
        if rows:
            parts.append(f"## {title}\n\n| code | name | severity | summary |\n|---|---|---|---|")
            parts += [
                f"| [{r.code}]({r.code}.md) | {r.name} | {r.severity.word} | {_cell(r.summary)} |"
                for r in rows
            ]
            parts.append("")
    return "\n".join(parts)


def page(rule: Rule) -> str:
    """The page of one check: its documentation with headings of this site."""
    text = re.sub(r"^([^\n]+)\n-{3,}$", r"## \1", rule.doc, flags=re.M)
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
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
