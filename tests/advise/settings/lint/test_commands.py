"""Shell text as commands: what stands in which block, what never runs, where it writes."""

from __future__ import annotations

import pytest

from nccl_insight.advise.settings.lint.commands import Command, commands
from nccl_insight.advise.settings.lint.words import Token


def _read(text: str, dialect: str = "sh") -> tuple[list[Command], list[str]]:
    comments: list[Token] = []
    found = list(commands(text, 1, dialect, comments.append))
    return found, [token.text for token in comments]


def _words(command: Command) -> str:
    return " ".join(token.text for token in command.words)


def test_blocks_make_commands_conditional() -> None:
    found, comments = _read("#SBATCH -N 2\nA=1\nif test -f x; then B=2; else C=3; fi\nD=4 && run\nE=5\n")
    assert [(_words(c), c.conditional) for c in found] == [
        ("A=1", False), ("test -f x", True), ("B=2", True), ("C=3", True), ("D=4", False), ("run", True),
        ("E=5", False),
    ]  # fmt: skip
    assert comments == ["#SBATCH -N 2"]


@pytest.mark.parametrize(
    ("text", "dead"),
    [
        ("if false; then A=1; fi", True), ("if [ 0 -eq 1 ]; then A=1; fi", True), ("exit 0\nA=1", True),
        ("if false; then :; else A=1; fi", False), ("if test -f x; then exit 0; fi\nA=1", False),
    ],
)  # fmt: skip
def test_what_never_runs(text: str, dead: bool) -> None:
    (command,) = (c for c in _read(text)[0] if _words(c) == "A=1")
    assert command.dead is dead


def test_functions_subshells_loops_and_pipes() -> None:
    found, _ = _read("setup() {\n  A=1\n}\n(B=2)\nfor h in a b; do C=3; done\nprintf x | tee out.log\n")
    by_words = {_words(c): c for c in found}
    assert by_words["A=1"].function == "setup"
    assert (by_words["B=2"].subshell, by_words["A=1"].subshell) == (1, 0)
    (loop,) = (c for c in found if c.loop)
    assert (loop.loop, [t.text for t in loop.elements]) == ("h", ["in", "a", "b"])
    assert by_words["printf x"].pipe is by_words["tee out.log"]


def test_redirections_and_here_documents() -> None:
    found, _ = _read("cat > nccl.conf 2> err.log <<'EOF'\nNCCL_DEBUG=INFO\nEOF\nrun\n")
    assert [_words(c) for c in found] == ["cat", "run"]
    assert found[0].targets == ["nccl.conf", "err.log"]
    (body,) = found[0].bodies
    assert (body.text.strip(), body.line, body.quoted) == ("NCCL_DEBUG=INFO", 2, True)


def test_text_without_an_end_is_read() -> None:
    assert [_words(c) for c in _read("if true; then\nA=1\n(B=2\n")[0]][-2:] == ["A=1", "B=2"]
    assert [_words(c) for c in _read("if ( $x == 1 ) setenv A 1\n", "csh")[0]] == ["setenv A 1"]
