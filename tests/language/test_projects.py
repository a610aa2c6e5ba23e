"""What projects of the stack around NCCL print when something fails, read from their sources."""

from __future__ import annotations

from pathlib import Path

from nccl_insight.language.projects import messages, project_at
from tests.cli import run_cli


def test_other_projects_are_read_by_their_loggers(tmp_path: Path) -> None:
    (tmp_path / "horovod" / "common").mkdir(parents=True)
    (tmp_path / "horovod" / "common" / "a.cc").write_text(
        'void f() {\n  LOG(ERROR) << "Horovod could not be initialized: " << status;\n'
        '  LOG(ERROR) << "A brand new thing of " << n << " ranks went astray";\n  LOG(INFO) << "all is fine here";\n}\n'
    )
    found = project_at(tmp_path)
    assert found is not None
    texts = [(m.line, m.text) for m in messages(*found)]
    assert texts == [(2, "Horovod could not be initialized: 7"), (3, "A brand new thing of 7 ranks went astray")]
    result = run_cli("grammar", "diff", str(tmp_path))
    assert result.returncode == 1
    assert "a.cc:3  A brand new thing of 7 ranks went astray" in result.stdout
    assert "initialized" not in result.stdout
    skeletons = run_cli("grammar", "diff", "--skeletons", str(tmp_path)).stdout
    assert 'brand_new_thing_ranks: "A brand new thing of " [ rest_of_text ]' in skeletons


def test_python_projects_are_read_by_what_they_raise_and_log(tmp_path: Path) -> None:
    (tmp_path / "vllm" / "v1" / "engine").mkdir(parents=True)
    (tmp_path / "vllm" / "v1" / "engine" / "core.py").write_text(
        "def f(x):\n    logger.error('Engine of %s has lost its way', x)\n"
        "    raise RuntimeError(f'No way for {x} at all')\n"
        "    logger.info('nothing wrong at all')\n"
    )
    found = project_at(tmp_path)
    assert found is not None
    assert sorted((m.line, m.printed) for m in messages(*found)) == [
        (2, "Engine of 7 has lost its way"),
        (3, "RuntimeError: No way for 7 at all"),
    ]


def test_texts_that_are_shown_by_name_are_read_where_they_report_failures(tmp_path: Path) -> None:
    (tmp_path / "src" / "prted").mkdir(parents=True)
    (tmp_path / "src" / "help-prte.txt").write_text(
        "# a comment\n[lost]\n# another\nThe daemon on %s was\nunable to go on.\n[usage]\nStart it with a name.\n"
        "[gone]\nSome file of %d names was not found\n"
    )
    found = project_at(tmp_path)
    assert found is not None
    assert [(m.line, m.printed) for m in messages(*found)] == [
        (4, "The daemon on mlx5_2 was"),
        (9, "Some file of 7 names was not found"),
    ]
