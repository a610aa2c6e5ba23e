"""Floods of distinct texts are read as all other lines are."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest

from nccl_insight import load
from nccl_insight.language.catalog import default_catalog
from nccl_insight.readers.nccl_log import floods, work
from nccl_insight.readers.nccl_log.floods import guess

CALL = (
    "AllReduce: opCount 1f sendbuff 0x7f01 recvbuff 0x7f02 count 5 datatype 7 op 0 root 0 comm 0x55aa [nranks=2] "
    "stream 0x9"
)


def _log(lines: int) -> str:
    """Calls, choices and proxy lines of two ranks, all different, with lines between that look like them."""
    rng = random.Random(7)
    out = []
    for rank in (0, 1):
        head = f"node0:{100 + rank}:{100 + rank} [{rank}] NCCL INFO "
        who = f"ncclCommInitRank comm 0x55aa0{rank} rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} "
        who += f"busId {rank + 1}000 commId 0xabc - Init "
        out += [head + who + "START", head + who + "COMPLETE"]
    for i in range(lines):
        rank = i % 2
        head = f"node0:{100 + rank}:{100 + rank} [{rank}] NCCL INFO "
        op = ("AllReduce", "Broadcast")[i // 2 % 2]
        kinds = (
            f"{op}: opCount {i:x} sendbuff 0x7f{i:06x}00 recvbuff 0x7e{i:06x}00 count {i * 3} datatype 7 op 0 root 0 "
            f"comm 0x55aa0{rank} [nranks=2] stream 0x{i + 99:x}",
            f"{op}: {i * 4} Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..{i % 7}}}",
            f"resp.opId=0x7f{i:08x} matches expected opId=0x7f{i:08x}",
            f"{op}: {i} of something else",
            f"{op}: opCount zz sendbuff 0x{i:x}",
            f"{op}: {i} Bytes -> Algo 1 proto 2 time {i}.25",
        )
        kind = rng.choices(range(6), (8, 8, 8, 1, 1, 1))[0]
        out.append(head.replace("INFO", "WARN" if kind == 3 and i % 5 == 0 else "INFO") + kinds[kind])
    return "\n".join(out) + "\n"


@pytest.mark.parametrize("details", [True, False])
def test_a_flood_gives_the_rows_that_its_lines_give_one_by_one(
    details: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "flood.log"
    log.write_text(_log(3000))

    def read(least: int) -> tuple[dict[str, object], int]:
        seen: list[str] = []
        real = floods.openings

        def counted(bodies: pl.Series) -> dict[str, str]:
            found = real(bodies)
            seen.extend(found)
            return found

        monkeypatch.setattr(floods, "LEAST", least)
        monkeypatch.setattr(work, "LEAST", least)
        monkeypatch.setattr(work, "openings", counted)
        run = load([str(log)], details=details)
        monkeypatch.setattr(work, "openings", real)
        return {name: run.table(name) for name in run.tables}, len(seen)

    (slow, none), (quick, some) = read(10**9), read(50)
    assert none == 0
    assert some >= 4
    assert quick.keys() == slow.keys()
    for name, frame in slow.items():
        other = quick[name]
        for column in frame.columns:  # type: ignore[attr-defined]
            assert other[column].to_list() == frame[column].to_list(), (name, column)  # type: ignore[index]


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


def test_a_text_of_two_floods_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The opening of one flood may begin the other's."""
    head = "node0:100:100 [0] NCCL INFO "
    calls = [head + CALL.replace("opCount 1f", f"opCount {i:x}") for i in range(200)]
    others = [head + f"AllReduce: {i} Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..1}}" for i in range(300)]
    log = tmp_path / "two.log"
    log.write_text("\n".join(line for pair in zip(calls, others, strict=False) for line in pair) + "\n")
    monkeypatch.setattr(floods, "LEAST", 50)
    monkeypatch.setattr(work, "LEAST", 50)
    run = load([str(log)])
    assert run.table("calls").height == 200
    assert run.table("tuning_choice").height == 200
    assert run.table("inputs").select("lines", "parsed_lines").rows() == [(400, 400)]


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


def test_lines_without_head_that_look_alike_are_read_as_each_of_them(tmp_path: Path) -> None:
    said = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum={}, OpType=ALLREDUCE, NumelIn={}, NumelOut={}"
    lines = [
        f"[rank{n}]:[E304 05:06:{n % 60:02}.{n}7 ProcessGroupNCCL.cpp:632] [Rank {n}] {said.format(n + 5, n, n)}, "
        f"Timeout(ms)=600000) ran for {600_000 + n} milliseconds before timing out."
        for n in range(150)
    ]
    lines[40] = lines[40].replace("before timing out.", "before")  # no message
    lines[41] = "(Worker pid=41) " + lines[41]
    log = tmp_path / "run.log"
    log.write_text("\n".join(["n1:1:1 [0] NCCL INFO NCCL_DEBUG set by environment to INFO", *lines]) + "\n")
    errors = load(log).table("errors").sort("line")
    expected = [n for n in range(150) if n != 40]
    assert errors["line"].to_list() == [n + 2 for n in expected]
    assert errors["seq"].to_list() == [n + 5 for n in expected]
    assert errors["duration_ms"].to_list() == [600_000 + n for n in expected]
    assert errors["launcher"].to_list()[3] == "[rank3]:[E304 05:06:03.37 ProcessGroupNCCL.cpp:632]"
    assert errors["launcher"].to_list()[40].startswith("(Worker pid=41) [rank41]:")
