"""Scripts of strangers: few lines that ask for gigabytes, and nesting without an end."""

from __future__ import annotations

import tracemalloc

import pytest

from nccl_insight.advise.settings.lint.check import lint_text

_EIGHT = range(1, 12)
_MOST_BYTES = 64 << 20
_FEW_CHARACTERS = 20_000
# Eleven levels, each eight times the one below: 8**11 times ten characters.
BOMBS = {
    "shell": ("a.sh", "A0=xxxxxxxxxx\n", "A{0}={1}\n", "$A{0}", "export NCCL_DEBUG=$A11\n"),
    "braces": ("a.sh", "A0=xxxxxxxxxx\n", "A{0}={1}\n", "${{A{0}:-y}}", "export NCCL_DEBUG=$A11\n"),
    "launch": ("a.sh", "A0=xxxxxxxxxx\n", "A{0}={1}\n", "$A{0}", "srun $A11 ./train\n"),
    "csh": ("a.csh", "setenv A0 xxxxxxxxxx\n", "setenv A{0} {1}\n", "$A{0}", "setenv NCCL_DEBUG $A11\n"),
    "document": ("a.sh", "A0=xxxxxxxxxx\n", "A{0}={1}\n", "$A{0}", "cat >/etc/nccl.conf <<E\nNCCL_DEBUG=$A11\nE\n"),
    "make": ("Makefile", "A0 := xxxxxxxxxx\n", "A{0} := {1}\n", "$(A{0})", "export NCCL_DEBUG := $(A11)\n"),
    "recipe": ("Makefile", "A0 := xxxxxxxxxx\n", "A{0} := {1}\n", "$(A{0})", "all:\n\tNCCL_DEBUG=$(A11) srun x\n"),
    "image": ("Dockerfile", "FROM x\nRUN A0=xxxxxxxxxx; \\\n", "A{0}={1}; \\\n", "$A{0}", "NCCL_DEBUG=$A11 srun x\n"),
}  # fmt: skip
DEEP = {
    "quotes": "export NCCL_A=" + '"$(' * 20_000,
    "parameters": "export NCCL_A=" + "${X:-" * 20_000,
    "blocks": "if true; then\n" * 4_000,
    "functions": "".join(f"f{n}() {{ f{n + 1}; f{n + 1}; }}\n" for n in range(60)) + "f0\n",
    "fillers": "time " * 20_000 + "ls\n",
    "formats": 'printf "' + "%s" * 10_000 + '" ' + "ab " * 10_000 + "> /etc/nccl.conf\n",
}


@pytest.mark.parametrize("kind", BOMBS)
def test_variables_are_put_in_up_to_a_limit(kind: str) -> None:
    name, first, level, use, last = BOMBS[kind]
    text = first + "".join(level.format(n, use.format(n - 1) * 8) for n in _EIGHT) + last
    tracemalloc.start()
    try:
        result = lint_text(name, text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < _MOST_BYTES
    assert any("many times as large" in why for _, why in result.not_evaluated)


def test_ordinary_values_are_put_in_whole() -> None:
    value = "mlx5_0,mlx5_1,mlx5_2,mlx5_3"
    (given,) = lint_text("a.sh", f"HCA={value}\n" + "echo $HCA\n" * 500 + "export NCCL_IB_HCA=$HCA\n").settings
    assert given.value == value
    assert given.complete


@pytest.mark.parametrize("kind", DEEP)
def test_nesting_ends(kind: str) -> None:
    assert len(DEEP[kind]) > 1_000
    assert len(lint_text("a.sh", DEEP[kind]).findings) < _FEW_CHARACTERS
