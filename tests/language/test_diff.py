"""`grammar diff`: what a source tree prints and reads, and what of it is not known."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

from nccl_insight.advise.settings.catalog import catalog
from nccl_insight.advise.settings.update import entries, unknown_settings
from nccl_insight.base.errors import InsightError
from nccl_insight.language.binaries import is_binary, read_binary
from nccl_insight.language.catalog import default_catalog
from nccl_insight.language.diff import known, render, show, unknown_calls
from nccl_insight.language.load import grammar_files, read_grammar
from nccl_insight.language.projects import messages, project_at
from nccl_insight.language.sources import LogCall, read_tree
from tests.cli import run_cli

SOURCE = r"""
// WARN("in a comment %d", 1);
#define HINT " see \"here\""
#define CHECKED(x) do { \
    if (x) { WARN("Checked %d" HINT, x); } \
  } while (0)
NCCL_PARAM(NewThing, "BRAND_NEW_THING", 3);
NCCL_PARAM(IbTimeout, "IB_TIMEOUT", 20);
ncclResult_t ncclNewFunction(struct ncclComm* comm) {
  const char* env = ncclGetEnv("NCCL_NEW_FROM_ENV");
  INFO(NCCL_INIT, "Channel %02d/%02d : %d[%d] -> %d[%d] via P2P/%s%s", a, b, c, d, e, f, "IPC", "/read");
  INFO(NCCL_INIT, "Fresh value 0x%" PRIx64 " of "
       "%s, share %g%%", hash, name, x);
  WARN("Fresh trouble at %s:%d (%s)", __FILE__, __LINE__, f(a, "b,c"));
  TRACE(NCCL_INIT, "traces are left out %d", 1);
  INFO(NCCL_INIT, comm ? "Either fresh" : "Or fresh too %d", 1);
  WARN(message, 1);
  return ncclSuccess;
}
"""


def tree_at(path: Path, text: str = SOURCE) -> Path:
    (path / "src").mkdir()
    (path / "src" / "fresh.cc").write_text(text, encoding="utf-8")
    (path / "src" / "windows.cc").write_text('void f() { WARN("Windows only"); }', encoding="utf-8")
    (path / "makefiles").mkdir()
    (path / "makefiles" / "version.mk").write_text("NCCL_MAJOR := 2\nNCCL_MINOR := 40\nNCCL_PATCH := 1\n")
    return path


def test_calls_and_settings_of_a_tree(tmp_path: Path) -> None:
    tree = read_tree(tree_at(tmp_path))
    assert (tree.library, tree.version) == ("nccl", "2.40.1")
    assert [(c.level, c.format) for c in tree.calls] == [
        ("WARN", 'Checked %d see "here"'),
        ("INFO", "Channel %02d/%02d : %d[%d] -> %d[%d] via P2P/%s%s"),
        ("INFO", "Fresh value 0x%lx of %s, share %g%%"),
        ("WARN", "Fresh trouble at %s:%d (%s)"),
        ("INFO", "Either fresh"),
        ("INFO", "Or fresh too %d"),
    ]
    assert tree.calls[3].arguments == ("__FILE__", "__LINE__", 'f(a, "b,c")')
    assert (tree.calls[3].line, tree.calls[3].function) == (14, "ncclNewFunction")
    assert [(s.name, s.default) for s in tree.settings] == [
        ("NCCL_BRAND_NEW_THING", "3"),
        ("NCCL_IB_TIMEOUT", "20"),
        ("NCCL_NEW_FROM_ENV", ""),
    ]
    assert tree.computed == 1


def test_only_what_is_new_is_listed(tmp_path: Path) -> None:
    found = unknown_calls(default_catalog(), read_tree(tree_at(tmp_path)))
    assert [item.call.format for item in found] == [
        'Checked %d see "here"',
        "Fresh trouble at %s:%d (%s)",
        "Fresh value 0x%lx of %s, share %g%%",
        "Either fresh",
        "Or fresh too %d",
    ]


def test_skeletons_are_rules(tmp_path: Path) -> None:
    text, count = show(default_catalog(), read_tree(tree_at(tmp_path)), skeletons=True)
    assert count == 5
    text = text.replace("diagnosis: ?", "diagnosis: nccl-internal-error").replace("role: ?", "role: root")
    grammar = read_grammar({**grammar_files(), "zz_new.lark": text})
    new = [m for m in grammar.messages.values() if m.origin.startswith("zz_new.lark")]
    assert len(new) == 5
    assert {m.directives["versions"] for m in new} == {"2.40"}


def test_values_come_from_the_names_of_arguments() -> None:
    call = LogCall("a.cc", 1, "f", "INFO", "rank %d %s %-6s|%5.1f|%p", ("rank", "ncclAlgoStr[a]", "x", "t", "p"))
    assert render(call) == "rank 3 RING word  |  1.5|0x7f3a5c000b60"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Using network %s", True),
        ("NET/IB : Got async event : %s", True),
        ("%s", True),
        ("%s:%d", True),
        ("Using nothing of the kind %s", False),
    ],
)
def test_strings_may_stand_for_anything(text: str, expected: bool) -> None:
    assert known(default_catalog(), LogCall("a.cc", 1, "f", "INFO", text, ())) is expected


def test_settings_that_the_catalog_lacks(tmp_path: Path) -> None:
    tree = read_tree(tree_at(tmp_path))
    new = unknown_settings(catalog(), ((s.name, s.default, s.file) for s in tree.settings))
    assert [s.name for s in new] == ["NCCL_BRAND_NEW_THING", "NCCL_NEW_FROM_ENV"]
    text = entries(new, tree.library, tree.version)
    assert '[variables.NCCL_BRAND_NEW_THING]\nlibrary = "nccl"\n' in text
    assert 'type = "int"\ndefault = "3"\nsince = "2.40.1"\n' in text


def test_a_folder_without_calls_is_no_source_tree(tmp_path: Path) -> None:
    with pytest.raises(InsightError, match="no logging calls"):
        read_tree(tmp_path)
    with pytest.raises(InsightError, match="no such folder"):
        read_tree(tmp_path / "missing")


def test_command(tmp_path: Path) -> None:
    done = run_cli("grammar", "diff", str(tree_at(tmp_path)))
    assert done.returncode == 1
    assert "Fresh trouble at" in done.stdout
    assert "NCCL_BRAND_NEW_THING = 3" in done.stdout
    assert "6 logging calls, 5 not known; 3 settings, 2 not known" in done.stderr


def _library(path: Path) -> bytes:
    texts = (
        b"NCCL version 2.99.1+cuda13.0", b"NET/IB : No device found.", b"comm %p rank %d is on a moon of %s",
        b"/usr/lib/%s/x.so", b"std::bad_alloc %s here", b"NCCL_MOON_LEVEL", b"short %d",
    )  # fmt: skip
    content = b"\x7fELF" + b"\0" * 60 + b"\0".join(texts) + b"\0"
    path.write_bytes(content)
    return content


def test_formats_and_settings_of_a_library_in_a_wheel_and_alone(tmp_path: Path) -> None:
    alone = tmp_path / "libnccl.so.2"
    content = _library(alone)
    wheel = tmp_path / "some-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as out:
        out.writestr("nvidia/nccl/lib/libnccl.so.2", content)
        out.writestr("nvidia/nccl/lib/other.so", b"\x7fELF\0other words of %s are here\0")
    for path in (alone, wheel):
        assert is_binary(path)
        tree = read_binary(path)
        assert [call.format for call in tree.calls] == ["comm %p rank %d is on a moon of %s"]
        assert (tree.version, [s.name for s in tree.settings]) == ("2.99.1", ["NCCL_MOON_LEVEL"])
        assert len(unknown_calls(default_catalog(), tree)) == 1


def test_what_only_a_debugger_reads_of_a_library_is_no_setting(tmp_path: Path) -> None:
    data, debug = (
        b"NCCL version 2.99.1+cuda13.0\0comm %p is on a moon\0NCCL_MOON\0",
        b"\0NCCL_LOG_LOUD\0a %d of words\0",
    )
    names = b"\0.rodata\0.debug_str\0.shstrtab\0"
    places = [(1, 64, data), (9, 64 + len(data), debug), (20, 64 + len(data) + len(debug), names)]
    sections = b"".join(struct.pack("<IIQQQQ24x", name, 1, 0, 0, at, len(text)) for name, at, text in places)
    head = b"\x7fELF\x02\x01" + bytes(34) + struct.pack("<Q", 64 + len(data + debug + names))
    path = tmp_path / "libnccl.so.2"
    path.write_bytes(head + bytes(10) + struct.pack("<HHH", 64, 3, 2) + data + debug + names + sections)
    tree = read_binary(path)
    assert [call.format for call in tree.calls] == ["comm %p is on a moon"]
    assert [s.name for s in tree.settings] == ["NCCL_MOON"]


def test_an_archive_without_a_library_is_named(tmp_path: Path) -> None:
    path = tmp_path / "empty.whl"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("readme.txt", "nothing")
    with pytest.raises(InsightError, match="holds no libnccl"):
        read_binary(path)
    torn = tmp_path / "torn.whl"
    torn.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(InsightError, match="cannot be read"):
        read_binary(torn)


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
