"""Python scripts: which variables they set, to what, and whether that comes in time."""

from __future__ import annotations

from nccl_insight.advise.settings.lint.model import Script
from nccl_insight.advise.settings.lint.python_ import read_python


def _read(text: str) -> Script:
    script = Script("train.py", "python")
    read_python(script, text)
    return script


def _settings(script: Script) -> list[tuple[str, str, int]]:
    return [(s.name, s.value, s.line) for s in script.settings]


def test_literal_values_are_settings() -> None:
    script = _read('import os\nos.environ["NCCL_DEBUG"] = "INFO"\nos.environ.setdefault("NCCL_IB_HCA", "mlx5")\n')
    assert _settings(script) == [("NCCL_DEBUG", "INFO", 2), ("NCCL_IB_HCA", "mlx5", 3)]
    assert script.problems == []


def test_a_setting_behind_the_start_of_a_process_group_is_too_late() -> None:
    text = 'import os\nimport torch.distributed as dist\n{}\nos.environ["NCCL_PROTO"] = "LL"\n'
    assert [line for line, _ in _read(text.format('dist.init_process_group("nccl")')).problems] == [4]
    assert _read(text.format("print(dist)")).problems == []


def test_text_that_is_no_python_is_read_by_line() -> None:
    script = _read('print "old"\nos.environ["NCCL_ALGO"] = "Ring"\n# os.environ["NCCL_PROTO"] = "LL"\n')
    assert _settings(script) == [("NCCL_ALGO", "Ring", 2)]


def test_nesting_without_an_end_ends_no_run() -> None:
    script = _read("x = " + "(" * 5000 + ")" * 5000 + '\nos.environ["NCCL_DEBUG"] = "INFO"\n')
    assert _settings(script) == [("NCCL_DEBUG", "INFO", 2)]
