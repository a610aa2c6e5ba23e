"""What call logs, RAS reports, Inspector's records and barriers say about ranks that others wait for."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.base.model import Confidence, Ref
from nccl_insight.base.units import plural, rank_words
from nccl_insight.facts.calls import stopped
from nccl_insight.facts.claims import BARRIER, CALLS, INSPECTOR, LOG, RAS, Claim
from nccl_insight.facts.ended import endings
from nccl_insight.facts.errors import causes
from nccl_insight.facts.identity import Identities, identities, rank_in_job
from nccl_insight.facts.settings import refs
from nccl_insight.language.load import playing
from nccl_insight.tables.run import Run


def witnesses(run: Run) -> Iterator[Claim]:
    """The claims of all sources that do not tell who waits where."""
    known = identities(run)
    yield from _from_calls(run, known)
    yield from _counts(run, known)
    yield from _lost(run, known)
    yield from _from_records(run)
    yield from _from_barrier(run)
    yield from _from_lines(run)


def _from_barrier(run: Run) -> Iterator[Claim]:
    lines = causes(run)
    rows = lines if lines.is_empty() else lines.filter(pl.col("message").is_in(playing("barrier")))
    if rows.is_empty():
        return
    named = rows.drop_nulls("failed_ranks")
    ranks = tuple(sorted({int(r) for r in named["failed_ranks"].explode().drop_nulls()}))
    if ranks:
        first = named.row(0, named=True)
        waited = first.get("timeout_ms")
        yield Claim(
            BARRIER, "barrier", ranks, identities(run).hosts(ranks), (0,) if 0 not in ranks else (), Confidence.HIGH,
            f"{rank_words(ranks)} did not come to it",
            tuple(Ref(r["input_id"], r["line"], str(r["text"] or "")) for r in named.head(3).iter_rows(named=True)),
            ran_ms=int(waited) if waited is not None else None,
        )  # fmt: skip


def _from_calls(run: Run, known: Identities) -> Iterator[Claim]:
    for item in stopped(run)[0]:
        placed = [rank_in_job(run, item.comm_id, r) for r in item.ranks]
        others = [rank_in_job(run, item.comm_id, r) for r in item.ahead]
        world = all(p is not None for p in (*placed, *others))
        yield Claim(
            CALLS, "calls",
            tuple(sorted(p for p in placed if p is not None)) if world else item.ranks, item.hosts,
            tuple(sorted(p for p in others if p is not None)) if world else item.ahead, Confidence.MEDIUM,
            f"{rank_words(item.ranks)} stopped after {plural(item.reached, 'collective')}, the others went on "
            f"to {item.most:,}",
            item.evidence, item.comm_id, item.op, item.most, item.reached, world, comm_id=item.comm_id,
        )  # fmt: skip


def _in_job(
    run: Run, known: Identities, comm: object, rank: int | None, pid: int | None, host: str | None
) -> int | None:
    """The rank of the job by RAS's process number, else by its rank in the communicator."""
    process = known.process(pid, known.host(host)) or known.process(pid, None)
    if process is not None:
        return process[1]
    if rank is None:
        return None
    placed = rank_in_job(run, comm, rank)
    # Without the init of the communicator RAS's own rank is all there is, as long as no other communicator is known.
    return rank if placed is None and not known.rank_of_process else placed


def ras_counts(run: Run) -> pl.DataFrame:
    """Operations launched, by report: ``report, comm, op, rank, pid, host, count``; rank null is that of all others."""
    schema = {
        "input_id": pl.UInt16, "line": pl.UInt64, "report": pl.Int64, "comm": pl.String, "op": pl.String,
        "rank": pl.Int64, "pid": pl.Int64, "host": pl.String, "count": pl.Int64, "ranks": pl.Int64,
    }  # fmt: skip
    frames = [pl.DataFrame(schema=schema)]
    ras = run.table("ras")
    rows = ras.filter(pl.col("event").is_in(["mismatch", "mismatch_member"]) & pl.col("op_count").is_not_null())
    frames.append(
        rows.select(
            "input_id", "line", "report", pl.col("comm_hash").alias("comm"), "op", "rank", "pid", "host",
            pl.col("op_count").alias("count"), pl.col("count").alias("ranks"),
        )
    )  # fmt: skip
    counts, ranks = run.table("ras_counts"), run.table("ras_ranks")
    place = ranks.select("input_id", "comm_hash", "rank", "pid", "host").unique(
        ["input_id", "comm_hash", "rank"], keep="first", maintain_order=True
    )
    frames.append(
        counts.join(place, on=["input_id", "comm_hash", "rank"], how="left").select(
            "input_id", pl.lit(0, pl.UInt64).alias("line"), pl.lit(0, pl.Int64).alias("report"),
            pl.col("comm_hash").alias("comm"), "op", "rank", "pid", "host", pl.col("op_count").alias("count"),
            pl.lit(1, pl.Int64).alias("ranks"),
        )
    )  # fmt: skip
    return pl.concat([f.cast(schema) for f in frames])  # type: ignore[arg-type]


def _counts(run: Run, known: Identities) -> Iterator[Claim]:
    rows = ras_counts(run)
    for (comm, op), part in rows.group_by("comm", "op", maintain_order=True):
        reports = part.partition_by("input_id", "report", maintain_order=True)
        behind = _lowest(reports[-1])
        if behind is None:
            continue
        late, low, high, ahead = behind
        # The same counts in two reports, or a job that was ended from outside: nothing moved any more.
        marks = [tuple(sorted(r.select("rank", "count").rows(), key=str)) for r in reports]
        still = (len(marks) > 1 and marks[-1] == marks[-2]) or endings(run).height > 0
        placed = [_in_job(run, known, comm, *row) for row in late.select("rank", "pid", "host").iter_rows()]
        others = [
            _in_job(run, known, comm, *row)
            for row in ahead.select("rank", "pid", "host").drop_nulls("rank").iter_rows()
        ]
        ranks = tuple(sorted({p for p in placed if p is not None}))
        if not ranks or None in placed:
            continue
        yield Claim(
            RAS, "counts-still" if still else "counts", ranks, known.hosts(ranks) or _hosts(late, known),
            tuple(sorted({p for p in others if p is not None} - set(ranks))),
            Confidence.MEDIUM if still else Confidence.LOW,
            f"{rank_words(ranks)} launched {low:,} {op or 'collective'} operations, the others {high:,}"
            + (", the same in two reports" if len(marks) > 1 and marks[-1] == marks[-2] else ""),
            tuple(
                Ref(int(i), int(n or 0), "" if n else f"RAS: {op} operations, {low:,} to {high:,}")
                for i, n in late.select("input_id", "line").head(2).iter_rows()
            ),
            str(comm), str(op) if op else None, high, low, comm_id=str(comm),
        )  # fmt: skip


def _lowest(report: pl.DataFrame) -> tuple[pl.DataFrame, int, int, pl.DataFrame] | None:
    """The named ranks with fewer operations than most ranks, their lowest count, the others' count and their rows."""
    by_count = report.group_by("count").agg(pl.col("ranks").fill_null(1).sum().alias("n")).sort("n", "count")
    high = by_count["count"][-1]
    late = report.filter((pl.col("count") < high) & pl.col("rank").is_not_null())
    if by_count.height < 2 or late.is_empty() or late.height > int(by_count["n"][-1]):
        return None
    return late, min(late["count"].to_list()), int(high), report.filter(pl.col("count") == high)


def _hosts(rows: pl.DataFrame, known: Identities) -> tuple[str, ...]:
    return tuple(sorted({str(known.host(h)) for h in rows["host"].drop_nulls().to_list()}))


def _lost(run: Run, known: Identities) -> Iterator[Claim]:
    ras = run.table("ras")
    dead = pl.col("event").is_in(["dead", "dead_member"]) | (
        (pl.col("event") == "peer") & pl.col("status").is_in(["PEER_DEAD", "PEER_TIMEOUT_DEAD"])
    )
    rows = ras.filter((dead | (pl.col("event") == "incomplete_member")) & pl.col("report").is_not_null())
    rows = rows.filter(pl.col("pid").is_not_null() | pl.col("rank").is_not_null()).with_columns(dead.alias("_dead"))
    if rows.is_empty():
        return
    gone: dict[int, bool] = {}
    for comm, rank, pid, host, is_dead in rows.select("comm_hash", "rank", "pid", "host", "_dead").iter_rows():
        placed = _in_job(run, known, comm, rank, pid, host)
        if placed is not None:
            gone[placed] = gone.get(placed, False) or bool(is_dead)
    for is_dead in (True, False):
        ranks = tuple(sorted(r for r, d in gone.items() if d is is_dead))
        if ranks:
            what = "its process is dead" if len(ranks) == 1 else "their processes are dead"
            yield Claim(
                RAS, "dead" if is_dead else "no-answer", ranks, known.hosts(ranks) or _hosts(rows, known), (),
                Confidence.MEDIUM if is_dead else Confidence.LOW,
                f"{rank_words(ranks)}: {what if is_dead else 'no answer'}", refs(rows, 2),
            )  # fmt: skip


def recorded(run: Run) -> pl.DataFrame:
    """Inspector's last number of each operation: ``process_group, op, rank, group_size, seq, input_id``."""
    rows = run.table("collectives")
    needed = pl.col("rank").is_not_null() & pl.col("seq").is_not_null() & pl.col("process_group").is_not_null()
    return (
        rows.filter((pl.col("source").cast(pl.String) == "inspector") & needed)
        .group_by("process_group", "op", "rank", "group_size", maintain_order=True)
        .agg(pl.col("seq").max(), pl.col("input_id").last())
    )


def _from_records(run: Run) -> Iterator[Claim]:
    rows = recorded(run)
    world = rows["group_size"].max() if rows.height else None
    for part in rows.partition_by("process_group", "op", "group_size", maintain_order=True):
        group, op, size = part.select("process_group", "op", "group_size").row(0)
        most = max(part["seq"].to_list())
        ahead, behind = part.filter(pl.col("seq") == most), part.filter(pl.col("seq") < most)
        if behind.is_empty() or ahead.height * 2 <= part.height or size != world:
            continue
        ranks = tuple(sorted(behind["rank"].to_list()))
        low = min(behind["seq"].to_list())
        yield Claim(
            INSPECTOR, "records", ranks, (), tuple(sorted(ahead["rank"].to_list())), Confidence.LOW,
            f"its last {op} of {rank_words(ranks)} is {low:,}, of the others {most:,}",
            (Ref(int(behind["input_id"][0]), 0, f"last {op} {low} of {most}"),), str(group), str(op), most,
            low,
        )  # fmt: skip


def _from_lines(run: Run) -> Iterator[Claim]:
    """Ranks of the largest communicator whose lines end while those of the others go on."""
    known = identities(run)
    rows = run.table("milestones")
    if rows.is_empty() or not known.world:
        return
    quiet = rows.filter(pl.col("end").cast(pl.String) == "silent").select("comm_id", "rank").drop_nulls()
    placed = {p for c, r in quiet.iter_rows() if (p := rank_in_job(run, c, int(r))) is not None}
    if placed and len(placed) * 2 < known.world:
        ranks = tuple(sorted(placed))
        yield Claim(
            LOG, "stopped", ranks, known.hosts(ranks), (), Confidence.LOW,
            f"the lines of {rank_words(ranks)} end while others go on", (),
        )  # fmt: skip
