"""The command line as a whole: the default command, completion, commands that do not exist."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from nccl_insight.cli import are_small, build_app, main, with_command
from tests.cli import commands_of
from tests.runs import HEALTHY, TINY_SHM

COMMANDS = commands_of(build_app())


def run(*arguments: str, cwd: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nccl_insight", *arguments],
        capture_output=True, text=True, timeout=200, check=False, cwd=cwd, env={**os.environ, **environ},
    )  # fmt: skip


def test_the_commands_are_known() -> None:
    assert {"analyze", "parse", "tables", "query", "explain", "grammar", "preflight", "lint"} <= COMMANDS


def test_an_input_alone_is_analyzed() -> None:
    for path in (HEALTHY, TINY_SHM):
        named, alone = run("analyze", str(path)), run(str(path))
        assert (alone.returncode, alone.stdout) == (named.returncode, named.stdout)


@pytest.mark.parametrize(
    ("arguments", "becomes"),
    [
        (["-", "--color", "never"], ["analyze", "-", "--color", "never"]),
        (["a.log", "-o", "x.html"], ["analyze", "a.log", "-o", "x.html"]),
        (["*.log"], ["analyze", "*.log"]),
        (["analyze"], ["analyze"]),
        (["--version"], ["--version"]),
        (["analyse"], ["analyse"]),
        (["b*.log"], ["b*.log"]),
        ([], []),
    ],
)
def test_when_a_command_is_left_out(
    arguments: list[str], becomes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.log").write_text("x")
    (tmp_path / "analyze").write_text("a file that is called like a command")
    monkeypatch.chdir(tmp_path)
    assert with_command(arguments, COMMANDS) == becomes


@pytest.mark.parametrize(
    ("words", "small"),
    [
        (["a.log"], True),
        (["-o", "json=x.json", "a.log", "b.log"], True),
        (["a.log", "large.log"], False),
        (["a.log", "-"], False),
        (["folder"], False),
        (["*.log"], False),
        (["--help"], False),
    ],
)
def test_small_files_are_told_from_what_may_be_large(
    words: list[str], small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.log", "b.log", "folder/c.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    with (tmp_path / "large.log").open("wb") as file:
        file.truncate(1 << 30)
    monkeypatch.chdir(tmp_path)
    assert are_small(words) is small


def test_a_small_input_takes_one_thread_of_polars_unless_told_otherwise(tmp_path: Path) -> None:
    program = (
        "import sys; from nccl_insight.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "import polars; print(polars.thread_pool_size())\n"
    )
    large = tmp_path / "large.log"
    large.write_text(TINY_SHM.read_text() + "epoch 1 is done\n" * 200_000)
    environ = {key: value for key, value in os.environ.items() if key != "POLARS_MAX_THREADS"}
    asked = [sys.executable, "-c", "import polars; print(polars.thread_pool_size())"]
    usual = int(subprocess.run(asked, capture_output=True, text=True, check=True, env=environ).stdout)
    for path, given, threads in ((TINY_SHM, {}, 1), (TINY_SHM, {"POLARS_MAX_THREADS": "3"}, 3), (large, {}, usual)):
        done = subprocess.run(
            [sys.executable, "-c", program, "analyze", str(path)],
            capture_output=True, text=True, timeout=200, check=True, env=environ | given,
        )  # fmt: skip
        assert done.stdout.splitlines()[-1] == str(threads)


def test_a_command_that_does_not_exist_is_a_usage_error(tmp_path: Path) -> None:
    done = run("analyse", "run.log", cwd=tmp_path)
    assert done.returncode == 2
    assert "analyse" in done.stderr
    assert "Traceback" not in done.stderr


def test_completion_can_be_shown() -> None:
    done = run(_NCCL_INSIGHT_COMPLETE="source_bash")
    assert "complete" in done.stdout


@pytest.mark.parametrize(
    ("error", "limit", "code", "told"),
    [
        (MemoryError(), resource.RLIM_INFINITY, 3, "not enough memory"),
        (SystemError("error return without exception set"), 1 << 30, 3, "not enough memory"),
        (SystemError("error return without exception set"), resource.RLIM_INFINITY, 4, "internal error"),
        (type("PanicException", (BaseException,), {})("could not spawn threads"), 1 << 30, 3, "not enough memory"),
        (type("PanicException", (BaseException,), {})("out of bounds"), resource.RLIM_INFINITY, 4, "internal error"),
    ],
)
def test_too_little_memory_is_one_line_and_no_internal_error(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    limit: int,
    code: int,
    told: str,
) -> None:
    def build(command: str) -> None:
        raise error

    monkeypatch.setattr("resource.getrlimit", lambda _: (limit, limit))
    monkeypatch.setattr("nccl_insight.cli.build_app", build)
    monkeypatch.setattr("nccl_insight.cli._prepare", lambda: None)
    monkeypatch.setattr("gc.set_threshold", lambda *_: None)
    monkeypatch.setattr("os.environ", dict(os.environ))
    monkeypatch.setattr("sys.argv", ["nccl-insight", "analyze", "a.log", "-q"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == code
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1


AT_THE_END = (
    "import atexit, sys, threading, time\n"
    "from nccl_insight import cli\n"
    "def late():\n"
    "    time.sleep(0.2)\n"
    "    sys.stdout.write('thread;')\n"
    "def main():\n"
    "    atexit.register(lambda: sys.stdout.write('handler;'))\n"
    "    threading.Thread(target=late).start()\n"
    "    sys.stdout.write('command;')\n"
    "    raise SystemExit({status})\n"
    "cli.main = main\n"
    "cli.run()\n"
)


@pytest.mark.parametrize(("status", "code"), [("0", 0), ("3", 3), ("'a text'", 1)])
def test_the_end_waits_for_threads_and_handlers_and_keeps_the_exit_code(status: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_THE_END.format(status=status)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, "command;thread;handler;")


def test_an_end_that_nobody_expected_is_still_a_failure() -> None:
    code = "from nccl_insight import cli\ndef main(): raise RuntimeError('odd')\ncli.main = main\ncli.run()\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "odd" in done.stderr


def test_paths_without_options_are_judged_without_a_parser() -> None:
    script = "import sys; from nccl_insight.cli import main\ntry: main()\nfinally: print('typer' in sys.modules)"
    command = [sys.executable, "-c", script, "analyze", str(TINY_SHM)]
    alone = subprocess.run(command, capture_output=True, text=True, check=False)
    parsed = subprocess.run([*command, "--format", "text"], capture_output=True, text=True, check=False)
    assert alone.stdout.removesuffix("False\n") == parsed.stdout.removesuffix("True\n")
    assert alone.stdout.endswith("False\n")
    assert (alone.returncode, alone.stderr) == (parsed.returncode, parsed.stderr)
