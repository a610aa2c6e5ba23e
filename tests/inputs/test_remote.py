"""Inputs by URL: files, folders, patterns and archives of any file system, the same bytes out, and clear refusals."""

from __future__ import annotations

import functools
import gzip
import http.server
import importlib.util
import io
import json
import pickle
import shutil
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from nccl_insight.base.errors import NotJudgedError, UsageError
from nccl_insight.inputs import find as inputs_find
from nccl_insight.inputs import remote, temporary
from nccl_insight.inputs.find import find_inputs
from nccl_insight.inputs.limits import Limits
from nccl_insight.inputs.remote import Remote
from nccl_insight.inputs.spool import downloaded
from nccl_insight.loading import spread
from nccl_insight.report.json_ import to_dict
from nccl_insight.share.api import analyze, load
from tests.cli import run_cli

RUNS = Path(__file__).parents[2] / "fixtures" / "runs"
LINE = "node0:1:1 [0] NCCL INFO frobnicating {}\n"


class Refusing(MemoryFileSystem):
    """A file system whose files can be listed and not read, or only to some byte."""

    protocol = "refusing"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(MemoryFileSystem._strip_protocol(path.removeprefix("refusing://")))

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if "forbidden" in path:
            raise PermissionError("AccessDenied for key=AKIA at https://u:pw@host/b?X-Amz-Signature=abc")
        file = super()._open(path, mode, **options)
        if "odd" in path:
            raise RuntimeError("no credentials\nfound")
        if "breaks" in path:
            whole = file.read

            def read(size: int = -1) -> bytes:
                if file.tell() >= 4_000:
                    raise TimeoutError("the line is dead")
                return bytes(whole(min(size, 4_000 - file.tell())))

            file.read = read
        return file


@pytest.fixture
def memory() -> Iterator[Any]:
    """An empty file system in memory."""
    fsspec.register_implementation("refusing", Refusing, clobber=True)
    files = fsspec.filesystem("memory")
    files.store.clear()
    yield files
    files.store.clear()


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A folder with a log per rank, one of them compressed, and what is no input."""
    folder = tmp_path / "job"
    folder.mkdir()
    for log in sorted((RUNS / "perrank-2.14").iterdir()):
        data = gzip.decompress(log.read_bytes()) if log.suffix == ".gz" else log.read_bytes()
        (folder / f"{log.name.removesuffix('.gz')}.log").write_bytes(data)
    (folder / "packed.log.gz").write_bytes(gzip.compress(LINE.format(1).encode()))
    (folder / ".hidden.log").write_text(LINE.format(2))
    (folder / "page.html").write_text("<html>")
    (folder / "sub").mkdir()
    (folder / "sub" / "more.log").write_text(LINE.format(3))
    return folder


def upload(files: Any, folder: Path, to: str) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            files.pipe_file(f"{to}/{path.relative_to(folder)}", path.read_bytes())


def told(paths: list[str], **options: Any) -> dict[str, Any]:
    """The verdict as JSON, without the names of inputs."""
    text = json.dumps(to_dict(analyze(load(paths, **options))))
    for prefix in ("memory://", "file://", "local://"):
        text = text.replace(prefix, "")
    return dict(json.loads(text))


def plain(found: dict[str, Any], folder: str) -> dict[str, Any]:
    return dict(json.loads(json.dumps(found).replace(folder, "")))


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_folder_gives_what_it_gives_on_disk(
    memory: Any, job: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Elsewhere:
        slots = 3

        def start(self, function: Callable[..., bytes], *arguments: Any) -> Any:
            called, given = pickle.loads(pickle.dumps((function, arguments)))
            return called(*given)

        def result(self, token: Any) -> Any:
            return token

        def close(self) -> None:
            pass

    monkeypatch.setattr(spread, "RayWorkers", lambda counted=False: Elsewhere())
    if engine == "ray":
        monkeypatch.setattr(inputs_find, "_SMALL_BYTES", 3_000)
        monkeypatch.setattr(spread, "_SHARE_LEAST", 5_000)
        monkeypatch.setattr(spread, "_SHARE_MOST", 5_000)
    upload(memory, job, "/bucket/run")
    expected = plain(told([str(job)]), str(job))
    assert plain(told(["memory:///bucket/run"], engine=engine), "/bucket/run") == expected
    assert expected["coverage"]


def test_what_other_machines_read_is_not_copied(memory: Any, job: Path) -> None:
    upload(memory, job, "/bucket/run")
    files = find_inputs(["memory:///bucket/run"], in_place=True)
    assert all(f.remote is not None and not f.temporary for f in files)
    assert [f.compression for f in files].count("gzip") == 1
    with files[0].open() as stream:
        stream.seek(5)
        data = stream.read(20)
    assert data == sorted(p for p in job.iterdir() if p.is_file() and p.suffix == ".log")[1].read_bytes()[5:25]


def test_patterns_files_and_archives(memory: Any, job: Path, tmp_path: Path) -> None:
    upload(memory, job, "/bucket/run")
    memory.pipe_file("/bucket/run/sub/b.log", LINE.format(4).encode())
    with tarfile.open(tmp_path / "t.tar.gz", "w:gz") as tar:
        tar.add(job / "sub" / "more.log", "inside.log")
    memory.pipe_file("/bucket/t.tar.gz", (tmp_path / "t.tar.gz").read_bytes())

    def names(url: str, **options: Any) -> list[str]:
        return [f.display for f in find_inputs([url], **options)]

    assert names("memory:///bucket/run/sub/*.log") == [
        "memory:///bucket/run/sub/b.log",
        "memory:///bucket/run/sub/more.log",
    ]
    assert names("memory:///bucket/run/sub/more.log") == ["memory:///bucket/run/sub/more.log"]
    assert names("memory:///bucket/r*n/sub") == names("memory:///bucket/run/sub")
    for in_place in (False, True):
        assert names("memory:///bucket/t.tar.gz", in_place=in_place) == ["memory:///bucket/t.tar.gz/inside.log"]
    listed = names("memory:///bucket/run")
    assert not any(".hidden" in name or name.endswith(".html") for name in listed)
    # The same file twice counts once where it is read in place.
    again = find_inputs(["memory:///bucket/run/sub", "memory:///bucket/run/sub/b.log"], in_place=True)
    assert len(again) == 2


@pytest.mark.parametrize("kind", ["file", "local"])
def test_urls_of_this_machine(job: Path, kind: str) -> None:
    expected = plain(told([str(job)]), str(job))
    assert plain(told([f"{kind}://{job}"]), str(job)) == expected


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nosuchthing://bucket/x", "nosuchthing://bucket/x: no driver of nosuchthing:// is installed"),
        ("memory:///bucket/nothing.log", "memory:///bucket/nothing.log: no such file or directory"),
        ("memory:///bucket/*.nothing", "no such file or directory"),
        ("refusing:///b/forbidden.log", "refusing:///b/forbidden.log: cannot be read"),
        ("refusing:///b/odd.log", "no credentials found"),
    ],
)
def test_refusals_are_one_line(memory: Any, url: str, said: str) -> None:
    memory.pipe_file("/bucket/x.log", b"x")
    memory.pipe_file("/b/forbidden.log", b"x")
    memory.pipe_file("/b/odd.log", b"x")
    for in_place in (False, True):
        with pytest.raises(UsageError) as error:
            find_inputs([url], in_place=in_place)
        assert said in str(error.value)
        assert "\n" not in str(error.value)
        assert "pw" not in str(error.value)
        assert "Signature" not in str(error.value)
        assert error.value.exit_code == 2


def test_without_fsspec_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(UsageError, match=r"pip install 'nccl-insight\[remote\]'.*s3://"):
        find_inputs(["s3://bucket/x"])


def test_an_empty_folder_is_not_judged(memory: Any) -> None:
    memory.mkdir("/bucket/empty")
    with pytest.raises(NotJudgedError):
        find_inputs(["memory:///bucket/empty"])


def test_a_transfer_that_breaks_off_is_reported(memory: Any) -> None:
    memory.pipe_file("/b/breaks.log", b"".join(LINE.format(n).encode() for n in range(500)))
    run = load(["refusing:///b/breaks.log"])
    assert run.table("inputs")["lines"][0] == pytest.approx(4_000 / len(LINE.format(100)), abs=6)
    assert "the line is dead" in " ".join(run.table("notes")["detail"])


def test_a_transfer_that_breaks_off_before_its_first_byte_is_reported(memory: Any, tmp_path: Path) -> None:
    """Of a size that no server told."""

    class Dead(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            raise OSError("the line is dead")

    class Source(Remote):
        def open(self) -> io.BufferedReader:
            return io.BufferedReader(Dead())

    copy = downloaded(Source("https://example.org/a.log", None), 1 << 20)
    assert copy.path.read_bytes() == b""
    assert "the line is dead" in copy.damage


def test_files_of_a_folder_that_cannot_be_read_are_reported(memory: Any) -> None:
    memory.pipe_file("/b/a.log", LINE.format(1).encode())
    memory.pipe_file("/b/forbidden.log", b"x")
    files = find_inputs(["refusing:///b"])
    assert [bool(f.damage) for f in files] == [False, True]
    assert "pw@" not in files[1].damage


def test_limits_hold(memory: Any) -> None:
    for name in "abc":
        memory.pipe_file(f"/b/{name}.log", b"x" * (700 << 10))
    files = find_inputs(["memory:///b"], Limits(spool_mib=1))
    assert [f.size_bytes for f in files] == [700 << 10, 0]
    assert "limit spool-mib" in files[1].damage
    assert len(find_inputs(["memory:///b"], Limits(files=2))) == 2
    memory.pipe_file("/b/bomb.log.gz", gzip.compress(b"\n" * (3 << 20)))
    for in_place in (False, True):
        (bomb,) = find_inputs(["memory:///b/bomb.log.gz"], Limits(expansion_ratio=1, expansion_free_mib=1), in_place)
        with bomb.open() as stream:
            assert len(stream.read()) == 1 << 20
            assert "limits expansion-ratio" in stream.damage


def test_copies_are_removed(memory: Any) -> None:
    memory.pipe_file("/b/a.log", LINE.format(1).encode())
    (file,) = find_inputs(["memory:///b/a.log"])
    assert file.temporary
    inputs_find.discard([file])
    assert not file.path.exists()
    temporary.clear()


def test_no_secret_of_a_url_is_shown() -> None:
    assert remote.clean("https://me:secret@host/a.log?X-Amz-Signature=1f#x") == "https://host/a.log"
    assert remote.clean("got 403 for 'https://h/a?sig=1'; see s3://k@b/c") == "got 403 for 'https://h/a'; see s3://b/c"


@pytest.mark.parametrize(("argument", "url"), [
    ("s3://b/x", True), ("simplecache::s3://b/x", True), ("https://h/x?y", True), ("a/b.log", False),
    ("C:\\x", False), ("-", False), ("s3:/b", False), ("./s3://b", False),
])  # fmt: skip
def test_what_is_a_url(argument: str, url: bool) -> None:
    assert remote.is_url(argument) is url


def test_nothing_of_it_is_loaded_without_a_url(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(LINE.format(1))
    code = "import sys, nccl_insight; nccl_insight.load(sys.argv[1]); print('fsspec' in sys.modules)"
    import subprocess

    done = subprocess.run([sys.executable, "-c", code, str(log)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_from_the_command_line(job: Path, tmp_path: Path) -> None:
    done = run_cli("analyze", f"file://{job}", "--format", "json", "--exit-zero", "--redact")
    assert done.returncode == 0, done.stderr
    assert str(job) not in done.stdout
    assert json.loads(done.stdout)["inputs"]
    gone = run_cli("analyze", f"file://{job}/nothing.log")
    assert gone.returncode == 2
    assert gone.stderr.strip().count("\n") == 0
    assert "no such file or directory" in gone.stderr
    followed = run_cli("analyze", f"file://{job}", "--follow")
    assert followed.returncode == 2
    assert "URLs are read once" in followed.stderr
    out = tmp_path / "redacted"
    shown = run_cli("redact", f"file://{job}/sub/more.log", "-o", out)
    assert shown.returncode == 0, shown.stderr


@pytest.mark.skipif(importlib.util.find_spec("aiohttp") is None, reason="fsspec's driver of http needs aiohttp")
def test_over_http(job: Path) -> None:
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            super().do_GET()

        def log_message(self, *parts: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(job)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        base = f"http://127.0.0.1:{server.server_port}"
        (file,) = find_inputs([f"{base}/sub/more.log?token=secret"])
        assert file.path.read_text() == LINE.format(3)
        assert file.display == f"{base}/sub/more.log"
        with pytest.raises(UsageError, match="no such file"):
            find_inputs([f"{base}/nothing.log?token=secret"])
        shutil.rmtree(job / "sub")
        assert all(path.startswith(("/sub/more.log", "/nothing.log")) for path in asked)
    finally:
        server.shutdown()
        server.server_close()
