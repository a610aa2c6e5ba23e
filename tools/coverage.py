"""Writes ``docs/coverage.md``: of which projects' messages of failures how many have a meaning here.

``python tools/coverage.py DIRECTORY [VERSION] ...`` reads checkouts (or unpacked wheels) and puts their rows into the
table in place of those of the same projects; other rows stay. It takes minutes for thousands of messages.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from nccl_insight.language.projects import messages, project_at
from nccl_insight.views.line import means_something

DOCUMENT = Path(__file__).parents[1] / "docs" / "coverage.md"
_PREFACE = """# What is known of other projects

Of each project around NCCL: the messages that its sources print when something fails (errors, and exceptions of
Python), and how many of them have a meaning and a role in `nccl-insight explain`. The rest is judged by its form at the
end of a log. `nccl-insight grammar diff CHECKOUT` lists what is not known. Of NCCL, RCCL and aws-ofi-nccl every message
is known up to the versions in the README.

This page is made by `tools/coverage.py`.

| Project | Version | Messages | Known |
|---|---|---|---|
"""


def rows(text: str) -> dict[str, tuple[str, int, int]]:
    """Project: version, messages and known ones, as the page has them."""
    found = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([0-9]+) \| ([0-9]+) \|$", text, re.M)
    return {name: (version, int(every), int(known)) for name, version, every, known in found}


def page(table: dict[str, tuple[str, int, int]]) -> str:
    """The page of a table."""
    lines = [f"| {name} | {v} | {every} | {known} |" for name, (v, every, known) in sorted(table.items())]
    return _PREFACE + "\n".join(lines) + "\n"


def main() -> None:
    """Reads the trees that are given, and writes the page."""
    table = rows(DOCUMENT.read_text("utf-8")) if DOCUMENT.exists() else {}
    given = sys.argv[1:]
    for at, argument in enumerate(given):
        found = project_at(Path(argument)) if Path(argument).is_dir() else None
        if found is None:
            continue
        version = given[at + 1] if at + 1 < len(given) and not Path(given[at + 1]).is_dir() else "source"
        said = [means_something(m.printed) for m in messages(*found)]
        table[found[0].name] = (version, len(said), sum(said))
        DOCUMENT.write_text(page(table), "utf-8")


if __name__ == "__main__":
    main()
