"""Calls and tuning choices are judged piece by piece: the verdict does not depend on where pieces begin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nccl_insight.facts import ahead
from nccl_insight.facts.progress import calls as facts
from nccl_insight.facts.setup.choices import LATENCY_PROTOCOL, ONE_CHANNEL, choices
from nccl_insight.inputs import chunks
from nccl_insight.loading.assemble import attribute, feeds
from nccl_insight.share.api import analyze, load
from nccl_insight.tables.run import Tables
from nccl_insight.tables.schema import OWNER

_RANKS = 4
_STEPS = 60
_COMM = (
    "ncclCommInitRank comm 0x55{comm}0 rank {rank} nranks 4 cudaDev {rank} nvmlDev {rank} busId {rank}000 commId 0x{id}"
)
_CALL = (
    "{op}: opCount {n:x} sendbuff 0x7f00 recvbuff 0x7f10 count {count} datatype 7 op 0 root {root} comm 0x55{comm}0 "
    "[nranks=4] stream 0x1"
)
_CHOICE = "AllReduce: {size} Bytes -> Algo RING proto {proto} channel{{Lo..Hi}}={{0..{hi}}}"


def _job(odd: Callable[[int, int], dict[str, Any] | None]) -> str:
    """A log of four ranks with two communicators, the second made among the calls.

    ``odd`` says what is different about a call; None drops it.
    """
    lines: list[str] = []

    def say(rank: int, text: str) -> None:
        lines.append(f"node0:{100 + rank}:{100 + rank} [{rank}] NCCL INFO {text}")

    def init(comm: str, number: str) -> None:
        for end in ("Init START", "Init COMPLETE"):
            for rank in range(_RANKS):
                say(rank, _COMM.format(comm=comm, rank=rank, id=number) + f" - {end}")

    init("a", "a1")
    for step in range(_STEPS):
        if step == _STEPS // 2:
            init("b", "b2")
        for rank in range(_RANKS):
            call = {
                "op": "AllReduce",
                "count": 1000 + step,
                "root": 0,
                "comm": "b" if step % 3 == 2 and step > 30 else "a",
            }
            change = odd(step, rank)
            if change is not None:
                say(rank, _CALL.format(n=step, **{**call, **change}))
            say(rank, _CHOICE.format(size=(20 << 20) + step, proto="LL" if step in (7, 40) else "SIMPLE", hi=step % 4))
    return "\n".join(lines) + "\n"


def _none(step: int, rank: int) -> dict[str, Any] | None:
    return {}


def _mismatch(step: int, rank: int) -> dict[str, Any] | None:
    return {"count": 1} if step > 41 and rank == 2 else {}


def _stopped(step: int, rank: int) -> dict[str, Any] | None:
    return None if step > 49 and rank == 3 else {}


def _unpaired(step: int, rank: int) -> dict[str, Any] | None:
    if step % 5 or rank > 1 or (rank == 1 and step == 45):
        return {}
    return {"op": "Send" if rank == 0 else "Recv", "root": 1 - rank, "comm": "a"}


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_LEAST_BYTES", 9_001)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 9_001)
    monkeypatch.setattr(feeds, "_PIECE_ROWS", 20)
    monkeypatch.setattr(attribute, "_MANY", 5)
    monkeypatch.setattr(facts, "_LEAST", 7)
    monkeypatch.setattr(ahead, "_LARGE", 1)


@pytest.mark.parametrize(
    ("odd", "diagnosis", "words"),
    [
        (_none, "", ""),
        (_mismatch, "collective-mismatch", "AllReduce 1 "),
        (_stopped, "collective-not-reached", "ank 3"),
        (_unpaired, "send-recv-unmatched", "Rank 0 sends 12 times to rank 1, which receives 11 times"),
    ],
)
def test_pieces_change_no_verdict(
    odd: Callable[[int, int], dict[str, Any] | None],
    diagnosis: str,
    words: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    log = tmp_path / "run.log"
    log.write_text(_job(odd))
    whole = analyze(str(log))
    table = load(str(log), details=False).table("calls")
    request.getfixturevalue("small_pieces")
    run = load(str(log), details=False)
    assert len(list(run.pieces("calls"))) > 3
    cut = analyze(run)
    assert cut.to_json() == whole.to_json()
    assert isinstance(run.tables, Tables)
    # Nobody put the whole tables together to judge them.
    assert {"calls", "tuning_choice"} <= set(run.tables._deferred)
    names = [finding.name for finding in cut.findings]
    if diagnosis:
        assert any(f.name == diagnosis and words in f.title for f in cut.findings)
    else:
        assert not {"collective-mismatch", "collective-not-reached", "send-recv-unmatched"} & set(names)
    assert "algorithm-surprising" in names
    assert run.table("calls").equals(table)


@pytest.mark.usefixtures("small_pieces")
def test_pieces_are_the_table(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(_job(_unpaired))
    run = load(str(log))
    for name in ("calls", "tuning_choice"):
        pieces = list(run.pieces(name))
        whole = run.table(name)
        assert len(pieces) > 1
        assert pl.concat(pieces).select(whole.columns).equals(whole)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    "columns",
    [
        ("line", "op"), ("rank", "size_bytes"), ("host",), ("comm_id", "pid", "host", "rank"),
        ("dtype", "root", "peer", "count"), ("algorithm", "protocol", "channels_hi", "comm_id"),
    ],
)  # fmt: skip
def test_pieces_of_some_columns_are_those_of_the_table(columns: tuple[str, ...], tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(_job(_unpaired))
    run = load(str(log))
    for name in ("calls", "tuning_choice"):
        asked = [column for column in columns if run.has_columns(name, column)]
        pieces = list(run.pieces(name, *asked)) if asked else []
        whole = load(str(log)).table(name)
        assert not asked or len(pieces) > 1
        assert not asked or pl.concat(pieces).equals(whole.select(asked))


@pytest.mark.usefixtures("small_pieces")
def test_owners_are_ranks_of_processes_in_communicators(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(_job(_none))
    names = ["comm_id", "rank", "host", "pid"]
    for run in (load(str(log)), load(str(log), lazy=True)):
        rows = pl.concat(list(run.pieces("calls", *names, OWNER)))
        assert rows.select(names).n_unique() == 2 * _RANKS
        assert rows.group_by(OWNER).agg(pl.struct(names).n_unique().alias("n"))["n"].to_list() == [1] * 2 * _RANKS
        run.table("calls")
        again = pl.concat(list(run.pieces("calls", *names, OWNER)))
        assert again.equals(rows)


@pytest.mark.usefixtures("small_pieces")
def test_unusual_choices_name_their_communicator(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(_job(_none))
    found = choices(load(str(log), lazy=True)).unusual
    assert {kind: (chosen.count, chosen.rows["comm_id"].to_list()) for kind, chosen in found.items()} == {
        LATENCY_PROTOCOL: (2 * _RANKS, ["0xa1", "0xa1"]),
        ONE_CHANNEL: (_STEPS // 4 * _RANKS, ["0xa1", "0xa1"]),
    }


@pytest.mark.usefixtures("small_pieces")
def test_sums_of_pieces_by_hand(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(_job(_stopped))
    run = load(str(log), details=False)
    got = {(c, r): n for c, r, n in facts.progress(run).select("comm_id", "rank", "calls").iter_rows()}
    second = len([step for step in range(_STEPS) if step % 3 == 2 and step > 30])
    late = len([step for step in range(50, _STEPS) if step % 3 == 2])
    assert got == {
        **{("0xa1", rank): _STEPS - second for rank in range(3)},
        ("0xa1", 3): 50 - (second - late),
        **{("0xb2", rank): second for rank in range(3)},
        ("0xb2", 3): second - late,
    }
    small = facts.small_calls(run, 4 * 1030).sort("comm_id", "rank")
    assert small.filter(pl.col("comm_id") == "0xa1")["small"].to_list() == [30] * 4
    first = sorted(1000 + step for step in range(_STEPS) if not (step % 3 == 2 and step > 30))
    middle = len(first) // 2
    halves = first[middle - 1 : middle + 1] if len(first) % 2 == 0 else first[middle : middle + 1]
    assert facts.median_size(run, small.row(0, named=True)) == 4 * sum(halves) / len(halves)


@pytest.mark.usefixtures("small_pieces")
def test_facts_are_worked_out_beside_whole_tables(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(_job(_stopped))
    alone, run = load(str(log), details=False), load(str(log), details=False)
    table = alone.table("calls")
    with ahead.begun(run):
        assert run.table("calls").equals(table)
        assert facts.progress(run).equals(facts.progress(load(str(log), details=False)))
    assert choices(run).counts.sort("protocol").rows() == [
        ("RING", "LL", 2 * _RANKS),
        ("RING", "SIMPLE", (_STEPS - 2) * _RANKS),
    ]
