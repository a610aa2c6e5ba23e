"""Pages: what they must say, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nccl_insight.rules
from nccl_insight.base.errors import InsightError
from nccl_insight.base.model import Step
from nccl_insight.base.pages import Page, pages, read_page
from nccl_insight.rules import rule_of

ALL = [page for page in pages(nccl_insight.rules.__path__) if not page.module.is_file()]
HEAD = "class: F\nseverity: error\naction: config\ntitle: T\nexpected: e\nsince: 0.2\nsteps:\n"
BODY = "Summary.\n\n## Why it matters\n\nText.\n"


@pytest.mark.parametrize("page", ALL, ids=lambda p: p.code)
def test_a_page_gives_steps_that_can_be_read(page: Page) -> None:
    assert page.steps
    title = page.says["found"]["title"] if "noted" in page.head else page.head["title"]
    assert not title.endswith(".")
    for step in page.steps:
        assert not re.search(r"[ \t]{4,}|\n|#", step.text + step.where)
    assert page.summary.endswith(".")
    rule_of(page, "x")


def test_steps_of_a_page_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "NI999-x.md"
    head = f"{HEAD}  - check: c\n    where: w\n  - fix: toolx reset\n    where: then boot\n  - do: wait\n"
    path.write_text(f"---\n{head}---\n{BODY}")
    assert read_page(path).steps == (
        Step("check", "c", "w"),
        Step("fix", "toolx reset", "then boot"),
        Step("do", "wait"),
    )


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("NI999-x.md", f"---\n{HEAD}---\n{BODY}", ""),
        ("NI999-x.md", f"---\n# who says: what\n{HEAD}---\n{BODY}", ""),
        ("NI99-x.md", f"---\n{HEAD}---\n{BODY}", "a page is"),
        ("NI999-x.md", f"{HEAD}\n{BODY}", "a page is"),
        ("NI999-x.md", f"---\n{HEAD}color: red\n---\n{BODY}", "color"),
        ("NI999-x.md", "---\n" + HEAD.replace("since: 0.2\n", "") + f"---\n{BODY}", "since"),
        ("NI999-x.md", f"---\n{HEAD}---\nSummary.\n", "Why it matters"),
        ("NI999-x.md", "---\n" + HEAD.replace("class: F", "class: Q") + f"---\n{BODY}", "'Q'"),
    ],
)
def test_what_is_no_page_is_refused(tmp_path: Path, name: str, text: str, says: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    if not says:
        assert rule_of(read_page(path), "x")
        return
    with pytest.raises(InsightError, match=says):
        rule_of(read_page(path), "x")


def test_an_unknown_key_of_a_page_is_named_with_its_line(tmp_path: Path) -> None:
    page = tmp_path / "NI999-a-name.md"
    page.write_text("---\nclass: F\nseverty: error\naction: config\n---\nText.\n", encoding="utf-8")
    with pytest.raises(InsightError, match=r"^NI999-a-name\.md:3: .*'severty'; did you mean 'severity'\?$"):
        read_page(page)


def test_the_documentation_shows_a_line_and_what_to_do_before_reasons(tmp_path: Path) -> None:
    page = tmp_path / "NI999-a-name.md"
    fires = "\n## Fires: it\n\n```log\nfirst line\nsecond line\n```\n\nexpect: error, host gpu01, line 2\n"
    page.write_text(f"---\n{HEAD}---\n{BODY}\n## What to do\n\nThis.\n{fires}", encoding="utf-8")
    read = read_page(page)
    assert read.sample == "second line"
    assert "What it looks like\n------------------\n    second line\n\n" in read.doc
    assert read.doc.index("What to do") < read.doc.index("Why it matters")
    assert "first line" not in read.doc
