"""Outputs: never over an input, whole or not at all, devices written, links followed, the umask kept."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import IO

import pytest
import zstandard

from nccl_insight.base.errors import UsageError
from nccl_insight.base.writing import Outputs, writing, writing_directory
from nccl_insight.cli import output
from nccl_insight.inputs.find import find_inputs
from nccl_insight.inputs.limits import Limits
from tests.cli import run_cli

LOG = "h1:1:1 [0] NCCL INFO NCCL version 2.27.7+cuda12.8\nh1:1:1 [0] NCCL INFO Bootstrap: Using eth0:10.1.2.3<0>\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.log"
    path.write_text(LOG)
    return path


def _half(out: IO[bytes]) -> None:
    out.write(b"half")
    raise RuntimeError


def content(directory: Path) -> dict[str, str]:
    return {
        str(p.relative_to(directory)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in directory.rglob("*")
        if p.is_file()
    }


@pytest.mark.part(2)
@pytest.mark.parametrize(
    "options",
    [
        ["analyze", "{log}", "-o", "json={log}"],
        ["analyze", "{log}", "--bundle", "{log}"],
        ["analyze", "{dir}", "-o", "json={log}"],
        ["analyze", "{log}", "-o", "json={hard}"],
        ["analyze", "{log}", "-o", "json={link}"],
        ["analyze", "{log}", "-o", "json=/proc/self/root{log}"],
        ["explain-log", "{log}", "-o", "{log}"],
        ["query", "select * from ranks", "{log}", "-o", "{hard}"],
        ["query", "--tables", "{log}", "-o", "{link}"],
        ["expect", "{log}", "-o", "{log}"],
        ["replay", "{log}", "-o", "{log}"],
        ["lint", "{log}", "-o", "{hard}"],
        ["diff", "{log}", "{log}", "-o", "json={log}"],
        ["redact", "{log}", "-o", "{dir}/out", "--map", "{log}"],
    ],
)
def test_an_input_is_never_an_output(log: Path, tmp_path: Path, options: list[str]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    os.link(log, other / "hard")
    (other / "link").symlink_to(log)
    names = {"log": log, "dir": tmp_path, "hard": other / "hard", "link": other / "link"}
    result = run_cli(*(o.format(**names) for o in options), "--isolated" if options[0] == "analyze" else "-h")
    if options[0] != "analyze":
        result = run_cli(*(o.format(**names) for o in options))
    assert result.returncode == 2
    assert "input of this command" in result.stderr
    assert log.read_text() == LOG


def test_redacting_into_the_folder_of_the_inputs_changes_nothing(tmp_path: Path) -> None:
    for name in ("aa.log", "input1.log", "input2.log"):
        (tmp_path / name).write_text(LOG.replace("h1", name[:2]))
    before = content(tmp_path)
    assert run_cli("redact", ".", "-o", ".", cwd=tmp_path).returncode == 2
    assert content(tmp_path) == before


def test_two_outputs_to_one_file_are_refused(log: Path, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    result = run_cli("analyze", log, "-o", f"json={tmp_path}/x", "-o", f"md={tmp_path}/sub/../x", "--isolated")
    assert result.returncode == 2
    assert "two outputs" in result.stderr
    assert run_cli("analyze", log, "-o", "json", "-o", "md", "--isolated").returncode == 2


def test_a_device_is_written_and_stays(log: Path, tmp_path: Path) -> None:
    before = os.stat("/dev/null")
    (tmp_path / "link").symlink_to("/dev/null")
    for target in ("/dev/null", str(tmp_path / "link")):
        assert run_cli("analyze", log, "-o", f"json={target}", "--isolated").returncode == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert os.stat("/dev/null").st_ino == before.st_ino
    full = run_cli("analyze", log, "-o", "json=/dev/full", "--isolated")
    assert full.returncode == 2
    assert "No space left" in full.stderr
    shown = run_cli("analyze", log, "-o", "json=/dev/stdout", "--isolated")
    assert json.loads(shown.stdout)["verdict"]


@pytest.mark.part(2)
@pytest.mark.parametrize(
    "options",
    [
        ["analyze", "{log}", "-o", "json={dir}/o"],
        ["analyze", "{log}", "--bundle", "{dir}/o.zip"],
        ["tables", "{log}", "-o", "{dir}/o"],
        ["tables", "{log}", "-o", "{dir}/o", "--format", "csv"],
        ["redact", "{log}", "-o", "{dir}/o", "--map", "{dir}/m"],
        ["query", "select * from ranks", "{log}", "-o", "{dir}/o.csv"],
    ],
)
def test_a_full_disk_is_one_line_and_leaves_nothing(log: Path, tmp_path: Path, options: list[str]) -> None:
    """As on a full disk, no file may grow."""
    before = content(tmp_path)
    given = [option.format(log=log, dir=tmp_path) for option in options]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", sys.executable, "-m", "nccl_insight", *given],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "cannot be written (File too large" in done.stderr
    assert done.stderr.count("\n") == 1
    assert content(tmp_path) == before
    assert [p.name for p in tmp_path.iterdir()] == ["run.log"]


def test_a_full_standard_output_is_told(log: Path) -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "nccl_insight", "analyze", log, "--isolated"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "standard output" in result.stderr


def test_closed_streams_are_no_internal_error(log: Path) -> None:
    command = f"{sys.executable} -m nccl_insight analyze"
    for line, code in ((f"{command} {log} --isolated >&-", 0), (f"{command} - --isolated <&-", 2)):
        result = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
        assert result.returncode == code, result.stderr
        assert "Traceback" not in result.stderr


def test_a_link_is_followed_and_modes_are_kept(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    os.chmod(tmp_path / "real", 0o640)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("made")
    before = os.umask(0o027)
    try:
        for name in ("link", "dangling", "fresh"):
            with writing(tmp_path / name) as out:
                out.write(b"new")
        with writing(tmp_path / "private", private=True) as out:
            out.write(b"new")
    finally:
        os.umask(before)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    assert (tmp_path / "made").read_text() == "new"
    modes = {n: stat.S_IMODE((tmp_path / n).stat().st_mode) for n in ("real", "fresh", "private")}
    assert modes == {"real": 0o640, "fresh": 0o640, "private": 0o600}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dangling", "fresh", "link", "made", "private", "real"]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("old")
    with pytest.raises(RuntimeError), writing(tmp_path / "x") as out:
        _half(out)
    assert content(tmp_path).keys() == {"x"}
    assert (tmp_path / "x").read_text() == "old"


def test_a_pipe_without_reader_is_refused_and_one_with_is_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="nobody reads"), writing(tmp_path / "pipe"):
        pass
    got = (tmp_path / "got").open("wb")  # not a pipe: nobody would empty it while this process writes
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=got)
    while True:
        try:
            with writing(tmp_path / "pipe") as out:
                out.write(b"x" * 200_000)
            break
        except UsageError:
            time.sleep(0.01)
    assert reader.wait(60) == 0
    got.close()
    assert (tmp_path / "got").read_bytes() == b"x" * 200_000


def test_a_pipe_as_input_that_nobody_writes_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="pipe-wait-s"):
        find_inputs([tmp_path / "pipe"], Limits(pipe_wait_s=1))
    with pytest.raises(UsageError, match="device"):
        find_inputs(["/dev/zero"])


def test_a_directory_is_whole_or_not_there(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), writing_directory(tmp_path / "a" / "b") as folder:
        _half((folder / "one").open("wb"))
    assert content(tmp_path) == {}
    assert not (tmp_path / "a").exists()
    with writing_directory(tmp_path / "a" / "b") as folder:
        (folder / "one").write_text("1")
    (tmp_path / "a" / "b" / "mine").write_text("mine")
    with writing_directory(tmp_path / "a" / "b") as folder:
        (folder / "one").write_text("2")
    assert {p.name: p.read_text() for p in (tmp_path / "a" / "b").iterdir()} == {"one": "2", "mine": "mine"}


def test_outputs_are_checked_before_the_work(tmp_path: Path, log: Path) -> None:
    outputs = Outputs([log])
    with pytest.raises(UsageError, match="does not exist"):
        outputs.claim(tmp_path / "no" / "such")
    with pytest.raises(UsageError, match="directory"):
        outputs.claim(tmp_path)


def interruptible() -> None:
    """A shell starts background jobs with SIGINT ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, and children inherit that


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_leave_no_copy_of_the_input(tmp_path: Path, number: signal.Signals) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "nccl_insight", "analyze", "-", "--isolated"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(temporary)},
        preexec_fn=interruptible,  # noqa: PLW1509
    )
    assert process.stdin is not None
    process.stdin.write(LOG.encode() * 10_000)
    process.stdin.flush()
    deadline = time.monotonic() + 30
    while not content(temporary) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert content(temporary)
    process.send_signal(number)
    assert process.wait(30) == 128 + number
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_goes_with_the_next(tmp_path: Path) -> None:
    make = "from nccl_insight.inputs import temporary as t; import os; t.place().write_text('x'); "
    script = make + "os.kill(os.getpid(), 9)"
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script], env=environ, check=False)
    (left,) = tmp_path.iterdir()
    alive = subprocess.Popen([sys.executable, "-c", make + "input()"], env=environ, stdin=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while left.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left.exists()
    subprocess.run([sys.executable, "-c", script], env=environ, check=False)
    assert len(list(tmp_path.iterdir())) == 2, "the directory of a living process stays"
    alive.communicate(b"\n", timeout=10)


def test_compressed_inputs_are_redacted_as_what_their_names_say(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(LOG.encode()))
    (tmp_path / "b.log.zst").write_bytes(zstandard.ZstdCompressor().compress(LOG.encode()))
    assert run_cli("redact", tmp_path / "a.log.gz", tmp_path / "b.log.zst", "-o", tmp_path / "out").returncode == 0
    first = gzip.decompress((tmp_path / "out" / "input1.log.gz").read_bytes())
    with zstandard.ZstdDecompressor().stream_reader((tmp_path / "out" / "input2.log.zst").read_bytes()) as stream:
        assert stream.read() == first
    assert first.startswith(b"node1:1:1 [0] NCCL INFO NCCL version")


def test_a_bundle_of_standard_input_and_of_packed_files_is_read_back(tmp_path: Path) -> None:
    result = run_cli("analyze", "-", "--isolated", "--bundle", tmp_path / "a.zip", stdin=LOG)
    assert result.returncode == 0
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.read("inputs/input1-standard-input.log") == LOG.encode()
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(LOG.encode())[:-20])
    assert run_cli("analyze", tmp_path / "b.log.gz", "--isolated", "--bundle", tmp_path / "b.zip").returncode == 0
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        assert "inputs/input1-b.log" in archive.namelist()
        assert b"input1-b.log is incomplete" in archive.read("README.txt")
    for name, lines in (("a.zip", 2), ("b.zip", 1)):
        shown = json.loads(run_cli("analyze", tmp_path / name, "--isolated", "--format", "json").stdout)
        assert sum(i["nccl_lines"] for i in shown["inputs"]) >= lines


def test_a_file_in_memory_is_replaced_as_others_are(log: Path) -> None:
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK):
        pytest.skip("no directory of files in memory")
    target = shared / f"nccl-insight-test-{os.getpid()}.json"
    try:
        target.write_text("x" * 200_000)
        assert run_cli("analyze", str(log), "-o", f"json={target}", "--exit-zero").returncode == 0
        json.loads(target.read_text())
    finally:
        target.unlink()


def test_a_path_through_a_directory_that_is_missing_leads_nowhere(log: Path, tmp_path: Path) -> None:
    result = run_cli("analyze", str(log), "-o", f"json={tmp_path}/missing/../run.log")
    assert result.returncode == 2
    assert "cannot be written" in result.stderr
    assert log.read_text() == LOG


def test_a_working_directory_that_was_removed(log: Path, tmp_path: Path) -> None:
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" -m nccl_insight analyze "$1" --exit-zero'
    done = subprocess.run(
        ["sh", "-c", script, sys.executable, str(log)],
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "NCCL 2.27.7" in done.stdout


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("json=out.json", ("json", "out.json")),
        ("json", ("json", "-")),
        ("json=-", ("json", "-")),
        ("a.HTML", ("html", "a.HTML")),
    ],
)
def test_an_output_is_a_format_a_file_or_both(given: str, read: tuple[str, str]) -> None:
    assert output.parse_output(given) == read


def test_what_is_no_format_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'json'"):
        output.parse_output("jsn")
    with pytest.raises(UsageError, match="use auto, always or never"):
        output.use_color("sometimes")


def test_color_is_asked_for_or_suits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    assert output.use_color("always")
    assert not output.use_color("never")
    assert not output.use_color("auto")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert output.use_color("auto")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not output.use_color("auto")
