"""Texts that stand apart from the code that fills them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Final

import polars as pl
import pytest

import nccl_insight
import nccl_insight.rules
from nccl_insight.base import texts
from nccl_insight.base.pages import pages
from tests import source

PAGES: Final = {page.name: page for page in pages(nccl_insight.rules.__path__)}
VALUE: Final = re.compile(r"\{([a-z_][a-z0-9_]*)|(?:\[\[|\|\|)([a-z_][a-z0-9_]*)[a-z0-9_.]*\?")
# What a finding knows of itself.
OWN: Final = {"ranks", "hosts"}
BLOCKS: Final[Mapping[str, Mapping[str, Mapping[str, str]]]] = {
    "rules": {f"{page.name}.{key}": block for page in PAGES.values() for key, block in page.says.items()},
    "advise/settings": texts.of_file(source.PACKAGE / "advise/settings/check/issues.txt"),
    "cli": texts.of_file(source.PACKAGE / "cli/options.txt"),
    "live/preflight": texts.of_file(source.PACKAGE / "live/preflight/checks.txt"),
}


def values_of(tree: ast.AST, call: ast.Call) -> set[str]:
    """The names in the mappings that functions of the same module give a call (``**given(...)``)."""
    makers = {
        k.value.func.id
        for k in call.keywords
        if k.arg is None and isinstance(k.value, ast.Call) and isinstance(k.value.func, ast.Name)
    }
    bodies = [f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and f.name in makers]
    dicts = [d for f in bodies for d in ast.walk(f) if isinstance(d, ast.Dict)]
    return {k.value for d in dicts for k in d.keys if isinstance(k, ast.Constant) and isinstance(k.value, str)}


def asked(room: str) -> Iterator[tuple[str, set[str]]]:
    """Each text that the code of a room asks for, with the names of the values that it gives."""
    modules = {page.module: page.name for page in PAGES.values()}
    for path in source.modules(room):
        for call in ast.walk(source.tree(path)):
            if not isinstance(call, ast.Call) or not call.args:
                continue
            given = {str(keyword.arg) for keyword in call.keywords} | values_of(source.tree(path), call)
            if (
                isinstance(call.func, ast.Name)
                and call.func.id == "check_of"
                and isinstance(call.args[0], ast.JoinedStr)
            ):
                begun = ast.literal_eval(call.args[0].values[0])  # one for each field that shows a trouble
                yield from ((name, given) for name in BLOCKS[room] if name.startswith(begun))
                continue
            if (
                isinstance(call.func, ast.Name)
                and call.func.id == "diagnosed"
                and isinstance(call.args[1], ast.Constant)
            ):
                yield f"{modules[path]}.{call.args[1].value}", given | OWN | {"who", "rows", "first"}
                continue
            if not isinstance(call.args[0], ast.Constant):
                if isinstance(call.func, ast.Attribute) and call.func.attr == "tells":  # any of them, by the log
                    yield from ((f"{modules[path]}.{key}", given) for key in PAGES[modules[path]].says)
                continue
            if isinstance(call.func, ast.Name) and call.func.id in ("says", "tools", "issue_of", "check_of", "option"):
                of_setting = call.func.id == "issue_of" and len(call.args) > 1  # its variable is the name
                own = {"name"} if of_setting else OWN if call.func.id == "says" else set()
                yield call.args[0].value, given | own
            elif isinstance(call.func, ast.Name) and call.func.id == "said" and call.args[0].value in BLOCKS[room]:
                told = " ".join(BLOCKS[room][call.args[0].value].values())  # its values are put together in one mapping
                yield call.args[0].value, {match[1] or match[2] for match in VALUE.finditer(told)}
            elif isinstance(call.func, ast.Attribute) and call.func.attr in ("says", "tells", "cannot"):
                # Without logic what readers noted is told (``noted``).
                of = [modules[path]] if path in modules else [n for n, page in PAGES.items() if "noted" in page.head]
                for name in of:
                    limits = {limit.split()[0] for limit in PAGES[name].head.get("thresholds", "").split(",") if limit}
                    own = OWN | limits if call.func.attr == "says" else set()
                    yield f"{name}.{call.args[0].value}", given | own


@pytest.mark.parametrize("room", BLOCKS)
def test_what_texts_say_is_what_the_code_asks_for(room: str) -> None:
    calls = list(asked(room))
    assert {name for name, _ in calls} == BLOCKS[room].keys()
    for name, given in calls:
        for text in BLOCKS[room][name].values():
            named = {match[1] or match[2] for match in VALUE.finditer(text)}
            assert named <= given, (name, text)


@pytest.mark.parametrize(
    ("text", "given", "result"),
    [
        ("{row.op} at {row.busbw:gbps}", {"row": {"op": "Send", "busbw": 12.34}}, "Send at 12.3 GB/s"),
        ("{ranks:len|plural rank}: {ranks.1}", {"ranks": (4, 7)}, "2 ranks: 7"),
        ("{rows.height} of {rows.op.0}", {"rows": pl.DataFrame({"op": ["Send"]})}, "1 of Send"),
        ("{hosts:listed 1} and {share:.1%}", {"hosts": ["a", "b"], "share": 0.25}, "a and 1 more and 25.0%"),
        ("down[[many? many times]]", {"many": False}, "down"),
        ("[[late?late||early?early||on time]]", {"late": 0, "early": [1]}, "early"),
        ("awk '{print $2}' of {file}", {"file": "{x} [[y]]"}, "awk '{print $2}' of {x} [[y]]"),
    ],
)
def test_values_stand_where_they_belong(text: str, given: dict[str, object], result: str) -> None:
    assert texts.filled(text, given) == result
