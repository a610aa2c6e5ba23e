# ruff: noqa: E501 - markup is long
"""Pages as a parser of HTML sees them, and a run whose names are markup."""

from __future__ import annotations

import dataclasses
import json
from html.parser import HTMLParser
from typing import Any

import polars as pl

from nccl_insight.base.model import Analysis, Coverage, Evidence, InputInfo, Job, NotJudged, Step
from nccl_insight.tables.run import Run, build_run
from tests import render_samples as samples


class Page(HTMLParser):
    """Elements, ids, links and text of a document; fails on wrong nesting."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "link", "br", "hr", "img", "input", "col"}:
            self.stack.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack, f"</{tag}> without a start"
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif not self.stack or self.stack[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split()).replace(" :", ":")

    def data(self, element_id: str) -> Any:
        return json.loads(next(body for attrs, body in self.scripts if attrs.get("id") == element_id))


def hostile_run(payload: str) -> tuple[Analysis, Run]:
    """A run in which every text is the payload."""
    analysis, run = samples.failing()
    evidence = (
        Evidence(payload, 1, payload, True),
        Evidence("job-4711/all.log", 214, payload),
        Evidence(payload, 0, payload),
    )
    bad = dataclasses.replace(
        samples.finding(), title=payload, explanation=payload, next_step=payload,
        steps=(Step("do", payload), Step("check", payload, payload)), observed=payload, expected=payload, unit=payload,
        hosts=(payload,), comm_id=payload, caused_by=payload, evidence=evidence, sources=(payload, "https://" + payload), fingerprint=payload,
    )  # fmt: skip
    job = Job((payload,), 64, 8, (payload,), 64, (payload,), 1, (payload,), (payload,))
    analysis = dataclasses.replace(
        analysis, findings=(bad,), job=job, inputs=(InputInfo(payload, payload, 1, payload, 1),), notes=(payload,),
        coverage=Coverage(10, 10, 5, 5, 0, 0, ((payload, 3),)), not_judged=(NotJudged(payload, payload, payload),),
    )  # fmt: skip
    short = payload.encode("utf-8", "replace").decode()[:5000]
    tables = {
        name: frame.with_columns(
            pl.lit(short).alias(c)
            for c, dtype in frame.schema.items()
            if dtype == pl.String and c not in ("comm_id", "host", "transport", "network", "op", "direction")
        ).with_columns(
            pl.concat_str(pl.lit(short[:200]), pl.col("host")).alias("host") if "host" in frame.columns else []
        )
        for name, frame in run.tables.items()
    }
    lines = dict.fromkeys(((0, n) for n in range(200, 230)), payload)
    return analysis, build_run(tables, samples.FakeReader(lines))
