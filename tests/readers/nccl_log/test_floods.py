"""Floods of distinct texts are read as all other lines are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pytest

from nccl_insight import load
from nccl_insight.language.catalog import Catalog, default_catalog
from nccl_insight.readers.nccl_log import floods, recover
from nccl_insight.readers.nccl_log.floods import guess
from tests.readers.nccl_log.distinct_texts import CALL, _log


def test_a_guess_names_what_must_not_stand_in_the_texts() -> None:
    catalog = default_catalog()
    found = guess(catalog, "AllReduce: ", "AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}")
    assert found is not None
    assert found.rule == "tuning_choice"
    assert ": opCount " in found.without
    call = guess(catalog, "AllReduce: opCount ", CALL)
    assert call is not None
    assert call.rule == "coll"
    assert " p2p channels per peer" in call.without
    assert not any(literal in CALL for literal in call.without)
    assert guess(catalog, "no such ", "no such 1 line") is None


def test_what_only_tables_show_is_read_for_tables_only(tmp_path: Path) -> None:
    log = tmp_path / "calls.log"
    log.write_text(_log(30))
    for details in (True, False):
        calls = load([str(log)], details=details).table("calls")
        assert calls.height > 5
        assert (calls["sendbuff"].null_count() == 0) is details
        assert (calls["op_count"].null_count() == 0) is details
        assert calls["size_bytes"].null_count() == 0


def test_hexadecimal_numbers_without_a_digit_are_no_part_of_how_a_flood_begins() -> None:
    texts = pl.Series([CALL.replace("opCount 1f", f"opCount {i:x}") for i in range(6000)])
    assert list(floods.openings(texts)) == ["AllReduce: opCount "]
    # Those of one letter (a to f) begin with it, too.
    assert floods.begin_with(texts, ["AllReduce: opCount "]).all()


def _choices_by_one_sign(pattern: str) -> list[str]:
    """Optional parts that begin with the sign that also comes when they are left out."""
    opened: list[int] = []
    found = []
    for at, sign in enumerate(pattern):
        if pattern[at - 1 : at] == "\\":
            continue
        if sign == "(":
            opened.append(at)
        elif sign == ")":
            start = opened.pop()
            part, behind = pattern[start:at].removeprefix("(?:"), pattern[at + 1 : at + 3]
            if behind[:1] == "?" and part[:1] == behind[1:]:
                found.append(part)
    return found


def test_the_values_of_a_flood_are_captured_in_one_pass() -> None:
    assert _choices_by_one_sign("a(?: b)? c") == [" b"]
    catalog = default_catalog()
    # The regular expression engine must know at each sign which part it is in, else captures take twice as long.
    for name in ("coll", "tuning_choice"):
        assert _choices_by_one_sign(catalog.compiled(name).pattern) == [], name


@pytest.mark.parametrize("count", [150, 5000])
def test_lines_without_head_that_look_alike_are_read_as_each_of_them(tmp_path: Path, count: int) -> None:
    said = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum={}, OpType=ALLREDUCE, NumelIn={}, NumelOut={}"
    lines = [
        f"[rank{n}]:[E304 05:06:{n % 60:02}.{n}7 ProcessGroupNCCL.cpp:632] [Rank {n}] {said.format(n + 5, n, n)}, "
        f"Timeout(ms)=600000) ran for {600_000 + n} milliseconds before timing out."
        for n in range(count)
    ]
    lines[40] = lines[40].replace("before timing out.", "before")  # no message
    lines[41] = "(Worker pid=41) " + lines[41]
    log = tmp_path / "run.log"
    log.write_text("\n".join(["n1:1:1 [0] NCCL INFO NCCL_DEBUG set by environment to INFO", *lines]) + "\n")
    errors = load(log).table("errors").sort("line")
    expected = [n for n in range(count) if n != 40]
    assert errors["line"].to_list() == [n + 2 for n in expected]
    assert errors["seq"].to_list() == [n + 5 for n in expected]
    assert errors["duration_ms"].to_list() == [600_000 + n for n in expected]
    assert errors["launcher"].to_list()[3] == "[rank3]:[E304 05:06:03.37 ProcessGroupNCCL.cpp:632]"
    assert errors["launcher"].to_list()[40].startswith("(Worker pid=41) [rank41]:")


def test_what_a_long_line_repeats_is_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[list[str]] = []
    found = recover.match_headless

    def counted(catalog: Catalog, text: str, thrown: bool = False, present: Iterable[str] = ()) -> object:
        looked.append(list(present))
        return found(catalog, text, thrown, looked[-1])

    monkeypatch.setattr(recover, "match_headless", counted)
    (tmp_path / "run.log").write_text("".join("=" * n + "\n" for n in range(100, 300)))
    load([str(tmp_path / "run.log")])
    assert any(looked)
    assert all(len(each) == len(set(each)) for each in looked)
