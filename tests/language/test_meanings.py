"""Who speaks of an end and whom the line names stands in the grammar: code asks for that, and for no message's name."""

from __future__ import annotations

import ast

import pytest

from nccl_insight.language.load import default_grammar, witnesses
from nccl_insight.language.meanings import WITNESS
from tests import source


def test_the_ends_of_processes_are_read_without_names_of_messages() -> None:
    tree = source.tree(source.PACKAGE / "facts" / "said" / "ends.py")
    words = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    assert not words & set(default_grammar().messages)


def test_messages_state_known_words() -> None:
    told = witnesses()
    assert len(told) > 80
    for said in told.values():
        for key, known in WITNESS.items():
            assert getattr(said, key) in ("", *known)


@pytest.mark.parametrize(
    ("name", "speaker", "names", "end"),
    [
        ("kernel_oom", "kernel", "", "memory"),
        ("mpirun_killed", "", "rank", ""),
        ("process_signal", "process", "", ""),
        ("ray_worker_exit", "", "", "lost"),
        ("k8s_evicted", "", "", "reason"),
    ],
)
def test_some_of_them(name: str, speaker: str, names: str, end: str) -> None:
    said = witnesses()[name]
    assert (said.speaker, said.names, said.end) == (speaker, names, end)
