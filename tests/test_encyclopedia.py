"""The generated pages about messages."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from nccl_insight.language.load import default_grammar
from nccl_insight.rules import discover

SITE = Path(__file__).parents[1] / "tools" / "site.py"


@pytest.fixture(name="site", scope="module")
def site_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_site", SITE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_message_is_in_the_page_of_its_file(site: ModuleType) -> None:
    pages = site.messages()
    rows = {name: text.count("\n| ") - 1 for name, text in pages.items() if name != "index"}
    assert sum(rows.values()) == len(default_grammar().messages)
    assert "Cuda failure" in pages["errors_cuda"]
    assert "[cuda-oom-init](../checks/NI405.md)" in pages["errors_cuda"]
    assert "* [Errors: InfiniBand and RoCE](errors_ib.md)" in pages["index"]
    assert pages["errors_ib"].startswith("# Errors: InfiniBand and RoCE\n")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "NVIDIA/nccl-tests issues 1 and 23; NCCL source.",
            "[NVIDIA/nccl-tests](https://github.com/NVIDIA/nccl-tests) issues "
            "[1](https://github.com/NVIDIA/nccl-tests/issues/1) and "
            "[23](https://github.com/NVIDIA/nccl-tests/issues/23); NCCL source.",
        ),
        (
            "NVIDIA/nccl src/bootstrap.cc (said twice).",
            "[NVIDIA/nccl src/bootstrap.cc](https://github.com/NVIDIA/nccl/blob/HEAD/src/bootstrap.cc) (said twice).",
        ),
        ("accept(2).", "[accept(2)](https://man7.org/linux/man-pages/man2/accept.2.html)."),
        ("slurm.conf(5); NVIDIA data sheets", "slurm.conf(5); NVIDIA data sheets"),
    ],
)
def test_references_are_links(site: ModuleType, said: str, shown: str) -> None:
    assert site.linked(said) == shown


def test_a_page_links_other_checks_but_not_in_its_sample(site: ModuleType) -> None:
    pages = {rule.name: site.page(rule) for rule in discover()}
    assert "[ifname-not-found](NI207.md)" in pages["bootstrap-no-interface"]
    samples = [line for text in pages.values() for line in text.splitlines() if line.startswith("    ")]
    assert len(samples) > 100
    assert not [line for line in samples if re.search(r"\]\(NI\d", line)]
