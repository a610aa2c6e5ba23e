"""Who did not come: the ranks that others wait for, from everything in the inputs that tells how far ranks got.

The lines of torch's watchdog, Flight Recorder dumps, call logs, NCCL's RAS reports and Inspector's records each tell
the last operation of ranks, in their own numbers. :func:`standings` is these numbers in one frame. Each source makes
claims about ranks; :func:`absences` puts claims about the same ranks together, drops those that another one explains
(a rank that itself waits for somebody), and says where sources contradict each other. Numbers of one process group
count alike on all its ranks, so the oldest unfinished operation decides and a gap of one is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from nccl_insight.facts import flight_recorder, watchdog
from nccl_insight.facts.calls import collectives_at, judgeable, log_is_cut, progress
from nccl_insight.facts.errors import causes
from nccl_insight.facts.identity import Identities, identities
from nccl_insight.model import Confidence, Ref
from nccl_insight.tables.run import Run
from nccl_insight.units import format_ranks, plural

WATCHDOG: Final = "torch's watchdog"
DUMPS: Final = "the Flight Recorder dumps"
CALLS: Final = "the call log"
RAS: Final = "RAS"
INSPECTOR: Final = "Inspector"
LOG: Final = "the log"
BARRIER: Final = "torch's monitored barrier"

# How much each kind of proof weighs against another one. A dump lists the operations of a rank one by one; a rank's
# own last number says that it never issued the next; being silent can also mean that the output is not here.
_WEIGHT: Final = {
    "not-issued": 9, "enqueued": 8, "barrier": 8, "calls": 7,
    "behind": 6, "lagging": 6, "dead": 6, "counts-still": 6,
    "silent": 5, "not-entered": 5, "counts": 4, "no-answer": 3, "undumped": 3, "gap": 2, "records": 1, "stopped": 1,
}  # fmt: skip
# Proofs that are enough for a finding; the others only support one.
_LEADS: Final = frozenset({
    "not-issued", "enqueued", "barrier", "calls", "behind", "lagging", "counts-still", "silent", "not-entered",
    "undumped", "gap",
})  # fmt: skip
_DISSENT: Final = 5
_BARRIER_MESSAGE: Final = "torch_monitored_barrier"

STANDINGS: Final = {
    "source": pl.String, "group": pl.String, "op": pl.String, "rank": pl.Int64, "host": pl.String,
    "enqueued": pl.Int64, "started": pl.Int64, "completed": pl.Int64,
}  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """What one source says about ranks that others wait for.

    ``ranks`` and ``waiting`` are those of the job where ``world`` is true, else of the group. ``proof``:
    ``not-issued`` and ``lagging`` (dumps: never issued, never finished), ``not-entered`` (issued, but its GPU has not
    started it), ``undumped`` (gave no dump), ``enqueued`` (its own last number is below), ``behind`` (it times out in
    an earlier operation), ``silent`` and ``gap`` (printed nothing), ``calls`` (issued fewer), ``counts`` and
    ``counts-still`` (RAS counts fewer, once or in reports that no longer move), ``dead`` and ``no-answer`` (RAS
    cannot reach it), ``records`` (Inspector has fewer of it), ``barrier`` (rank 0 waited for it in a monitored
    barrier), ``stopped`` (its lines end while others go on). ``said`` is the claim in a few words.
    """

    source: str
    proof: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    waiting: tuple[int, ...]
    confidence: Confidence
    said: str
    evidence: tuple[Ref, ...]
    group: str = ""
    op: str | None = None
    seq: int | None = None
    last: int | None = None
    world: bool = True
    first_s: float | None = None
    ran_ms: int | None = None
    comm_id: str | None = None

    @property
    def weight(self) -> int:
        """How good the evidence is; larger is better."""
        return _WEIGHT[self.proof]


@dataclass(frozen=True)
class Absent:
    """Ranks that did not come, by the best claim about them, and what else speaks for or against it.

    ``support`` are claims of the same ranks from other sources, ``against`` claims that name others, ``held`` ranks
    that are named, too, and themselves wait for these.
    """

    lead: Claim
    confidence: Confidence
    support: tuple[Claim, ...] = ()
    against: tuple[Claim, ...] = ()
    held: tuple[Claim, ...] = ()

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All that speaks for it, best first."""
        return (self.lead, *self.support)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of the ranks, from whichever source knows them."""
        return next((c.hosts for c in self.claims if c.hosts), ())

    @property
    def sentences(self) -> str:
        """What the other sources say, for an explanation; empty when there are none."""
        parts = [f"{c.source[0].upper()}{c.source[1:]} agrees: {c.said}." for c in self.support]
        parts += [
            f"{c.source[0].upper()}{c.source[1:]} says otherwise ({c.said}); that is weaker evidence."
            for c in self.against
        ]
        parts += [
            f"{_words(c.ranks)} {_are(c.ranks)} late as well, because {_they(c.ranks)} for these."
            for c in self.held
        ]
        return " ".join(parts)


def absences(run: Run) -> tuple[Absent, ...]:
    """The ranks that explain why others wait, best proof first."""
    return run.memo("facts.absent", lambda r: tuple(_merged(_claims(r))))


def refuted(run: Run) -> tuple[Claim, ...]:
    """Claims about ranks of which complete dumps show that they came: all ranks are in the same operation."""
    return run.memo("facts.absent.refuted", lambda r: tuple(c for c in _all(r) if _came(r, c)))


def tells(run: Run, source: str, ranks: Iterable[int]) -> bool:
    """Whether what a source says of these ranks is part of an absence, so that it needs no finding of its own."""
    wanted = set(ranks)
    return bool(wanted) and any(
        c.source == source and wanted <= set(c.ranks) for a in absences(run) for c in a.claims
    )


def _words(ranks: Sequence[int]) -> str:
    return f"Rank{'s' if len(ranks) > 1 else ''} {format_ranks(ranks)}"


def _are(ranks: Sequence[int]) -> str:
    return "are" if len(ranks) > 1 else "is"


def _they(ranks: Sequence[int]) -> str:
    return "they wait" if len(ranks) > 1 else "it waits"


def _merged(claims: Sequence[Claim]) -> Iterator[Absent]:
    ordered = sorted(claims, key=lambda c: (c.proof not in _LEADS, -c.weight, c.confidence.order))
    held = _held([c for c in ordered if c.world and c.proof in _LEADS])
    found: list[list[Claim]] = []
    against: dict[int, list[Claim]] = {}
    for claim in (c for c in ordered if c not in held):
        same = next((n for n, own in enumerate(found) if _agree(own[0], claim)), None)
        if same is not None:
            found[same].append(claim)
            continue
        rival = next((n for n, own in enumerate(found) if _contradict(own[0], claim)), None)
        if rival is not None:
            against.setdefault(rival, []).append(claim)
        elif claim.proof in _LEADS:
            found.append([claim])
    for n, own in enumerate(found):
        lead, support = own[0], _one_a_source(own[0], own[1:])
        contrary = tuple(c for c in against.get(n, ()) if c.weight >= _DISSENT)
        waits = tuple(c for c in held if set(c.ranks) <= set(lead.waiting))
        step = (1 if support else 0) - (1 if contrary else 0)
        yield Absent(lead, _moved(lead.confidence, step), support, contrary, waits)


def _one_a_source(lead: Claim, others: Sequence[Claim]) -> tuple[Claim, ...]:
    best: dict[str, Claim] = {}
    for claim in others:
        # The call log and the watchdog print into the same log: that a rank is silent there says nothing new.
        if claim.source != lead.source and not (claim.source == LOG and lead.source in (CALLS, WATCHDOG)):
            best.setdefault(claim.source, claim)
    return tuple(best.values())


def _moved(confidence: Confidence, steps: int) -> Confidence:
    order = (Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH)
    return order[max(0, min(2, order.index(confidence) + steps))]


def _agree(one: Claim, other: Claim) -> bool:
    """Whether both mean the same ranks: the fewer are among the more, and no source counts twice for two groups."""
    if not (one.world and other.world) or (one.source == other.source and one.group != other.group):
        return False
    a, b = set(one.ranks), set(other.ranks)
    return bool(a and b) and (a <= b or b <= a)


def _contradict(one: Claim, other: Claim) -> bool:
    """Whether another source names other ranks for the same wait."""
    return one.world and other.world and one.source != other.source and not set(one.ranks) & set(other.ranks)


def _held(claims: Sequence[Claim]) -> list[Claim]:
    """Claims about ranks that all wait, in another group, for ranks that do not wait for anybody."""
    waits: dict[int, set[int]] = {}
    for claim in claims:
        for rank in claim.waiting:
            waits.setdefault(rank, set()).update(claim.ranks)
    named = {r for c in claims for r in c.ranks}
    free = {r for r in named if not waits.get(r, set()) - {r}}
    if not free:
        return []
    return [c for c in claims if not set(c.ranks) & free and all(waits.get(r, set()) & free for r in c.ranks)]


def _came(run: Run, claim: Claim) -> bool:
    judged = flight_recorder.verdict(run)
    if judged is None or judged.suspects or judged.not_entered or judged.undumped or claim.source == DUMPS:
        return False
    return claim.world and any(
        s.whole and set(claim.ranks) <= set(s.ranks) and (claim.seq is None or claim.seq <= s.operation.seq)
        for s in judged.stalled
    )


def _claims(run: Run) -> list[Claim]:
    gone = refuted(run)
    return [c for c in _all(run) if c not in gone]


def _all(run: Run) -> tuple[Claim, ...]:
    def build(run: Run) -> tuple[Claim, ...]:
        known = identities(run)
        return (
            *_from_dumps(run, known), *_from_watchdog(run), *_from_calls(run, known), *_from_ras(run, known),
            *_from_records(run), *_from_barrier(run), *_from_lines(run),
        )  # fmt: skip

    return run.memo("facts.absent.claims", build)


# Claims of each source


def _from_watchdog(run: Run) -> Iterator[Claim]:
    for m in watchdog.verdicts(run)[0]:
        low = m.proof == "gap"
        sure = Confidence.HIGH if m.sure else Confidence.LOW if low else Confidence.MEDIUM
        group = "" if m.group in (watchdog.DEFAULT, "?") else f" of process group {m.group}"
        said = {
            "enqueued": f"{_words(m.ranks).lower()} issued nothing after {m.last}{group}",
            "behind": f"{_words(m.ranks).lower()} timed out in collective {m.last}{group}, the others in {m.seq}",
        }.get(
            m.proof,
            f"{_words(m.ranks).lower()} printed nothing, while {_words(m.waiting).lower()} timed out in {m.seq}",
        )
        yield Claim(
            WATCHDOG, m.proof, m.ranks, m.hosts, m.waiting, sure, said, m.evidence, m.group, m.op, m.seq, m.last,
            m.world, m.first_s, m.ran_ms,
        )  # fmt: skip


def _from_barrier(run: Run) -> Iterator[Claim]:
    rows = causes(run).filter(pl.col("message") == _BARRIER_MESSAGE)
    if rows.is_empty():
        return
    named = rows.drop_nulls("failed_ranks")
    ranks = tuple(sorted({int(r) for r in named["failed_ranks"].explode().drop_nulls()}))
    if ranks:
        first = named.row(0, named=True)
        waited = first.get("timeout_ms")
        yield Claim(
            BARRIER, "barrier", ranks, identities(run).hosts(ranks), (0,) if 0 not in ranks else (), Confidence.HIGH,
            f"{_words(ranks).lower()} did not come to it",
            tuple(Ref(r["input_id"], r["line"], str(r["text"] or "")) for r in named.head(3).iter_rows(named=True)),
            ran_ms=int(waited) if waited is not None else None,
        )  # fmt: skip


def _from_dumps(run: Run, known: Identities) -> Iterator[Claim]:
    judged = flight_recorder.verdict(run)
    if judged is None:
        return
    if judged.suspects:
        starved = [s for s in judged.starved if set(s.missing) & set(judged.suspects)]
        worst = starved[0] if starved else None
        lag = judged.lagging[0] if judged.lagging else None
        item = worst or lag
        if item is None:
            return
        waiting = {r for s in starved for r in s.waiting} | {r for g in judged.lagging for r in g.ahead}
        what = (
            f"{'issued' if worst else 'finished'} collective {item.operation.seq:,} ({item.operation.label})"
        )
        yield Claim(
            DUMPS, "not-issued" if starved else "lagging", judged.suspects, known.hosts(judged.suspects),
            tuple(sorted(waiting - set(judged.suspects))), Confidence.HIGH if starved else Confidence.MEDIUM,
            f"{_words(judged.suspects).lower()} never {what}", (Ref(item.operation.input_id, 0, what),),
            item.group.label, item.operation.op_name, item.operation.seq, worst.last_issued if worst else None,
        )  # fmt: skip
        return
    for still in judged.silent[:1]:
        where = f"collective {still.operation.seq:,} ({still.operation.label})"
        yield Claim(
            DUMPS, "undumped", still.missing, known.hosts(still.missing), still.waiting, Confidence.LOW,
            f"no dump of {_words(still.missing).lower()}, and the others wait in {where}",
            (Ref(still.operation.input_id, 0, f"{_words(still.waiting).lower()} wait in {where}"),),
            still.group.label, still.operation.op_name, still.operation.seq,
        )  # fmt: skip
    for stuck in judged.not_entered[:1]:
        where = f"collective {stuck.operation.seq:,} ({stuck.operation.label})"
        yield Claim(
            DUMPS, "not-entered", stuck.waiting, known.hosts(stuck.waiting), stuck.started, Confidence.MEDIUM,
            f"{_words(stuck.waiting).lower()} issued {where} and never entered it",
            (Ref(stuck.operation.input_id, 0, f"{_words(stuck.started).lower()} have started {where}"),),
            stuck.group.label, stuck.operation.op_name, stuck.operation.seq,
        )  # fmt: skip


def _from_calls(run: Run, known: Identities) -> Iterator[Claim]:
    for item in stopped(run)[0]:
        placed = [_of_job(run, known, item.comm_id, r) for r in item.ranks]
        others = [_of_job(run, known, item.comm_id, r) for r in item.ahead]
        world = all(p is not None for p in (*placed, *others))
        yield Claim(
            CALLS, "calls",
            tuple(sorted(p for p in placed if p is not None)) if world else item.ranks, item.hosts,
            tuple(sorted(p for p in others if p is not None)) if world else item.ahead, Confidence.MEDIUM,
            f"{_words(item.ranks).lower()} stopped after {plural(item.reached, 'collective')}, the others went on "
            f"to {item.most:,}",
            item.evidence, item.comm_id, item.op, item.most, item.reached, world, comm_id=item.comm_id,
        )  # fmt: skip


@dataclass(frozen=True)
class Stopped:
    """Ranks of a communicator (its own numbers) that issued fewer collectives than its other ranks, which agree."""

    comm_id: str
    ranks: tuple[int, ...]
    ahead: tuple[int, ...]
    hosts: tuple[str, ...]
    reached: int
    most: int
    op: str
    evidence: tuple[Ref, ...]


def stopped(run: Run) -> tuple[tuple[Stopped, ...], int]:
    """Communicators with ranks that stopped early by the call log, and how many are at too many different calls."""
    return run.memo("facts.absent.stopped", _stopped)


def _stopped(run: Run) -> tuple[tuple[Stopped, ...], int]:
    if not run.has("calls") or log_is_cut(run):
        return (), 0
    ended = (
        run.table("ranks")
        .filter(pl.col("destroyed").cast(pl.String) == "destroyed")
        .select("comm_id")
        .unique()
    )
    counts = (
        progress(run).join(judgeable(run), on="comm_id", how="semi").join(ended, on="comm_id", how="anti")
    )
    spread = counts.group_by("comm_id").agg(
        pl.col("calls").max().alias("most"), pl.col("calls").min().alias("least"),
        pl.col("calls").mode().max().alias("herd"),
    )  # fmt: skip
    found: list[Stopped] = []
    unclear = 0
    rows = spread.filter(pl.col("most") > pl.col("least")).sort("comm_id").head(5)
    for comm_id, most, _, herd in rows.iter_rows():
        here = counts.filter(pl.col("comm_id") == comm_id)
        ahead = here.filter(pl.col("calls") == most)
        if here.height > 2 and (herd != most or ahead.height * 2 <= here.height):
            unclear += 1
            continue
        behind = here.filter(pl.col("calls") < most)
        reached = min(behind["calls"].to_list())
        missed = collectives_at(run, [(comm_id, reached)])
        found.append(
            Stopped(
                str(comm_id), tuple(sorted(behind["rank"].to_list())), tuple(sorted(ahead["rank"].to_list())),
                tuple(sorted(behind["host"].drop_nulls().unique().to_list())), int(reached), int(most),
                str(missed["op"][0]) if missed.height else "collective", (*_refs(behind, 2), *_refs(missed, 1)),
            )
        )  # fmt: skip
    return tuple(found), unclear


def _refs(rows: pl.DataFrame, count: int) -> tuple[Ref, ...]:
    places = rows.select("input_id", "line").drop_nulls().unique(maintain_order=True).head(count)
    return tuple(Ref(int(i), int(n)) for i, n in places.iter_rows())


def _plain(comm: object) -> str:
    return str(comm or "").lower().removeprefix("0x").lstrip("0")


def _members(run: Run) -> dict[tuple[str, int], tuple[str, int]]:
    """Host and process of each rank of each communicator, by its id without leading zeros."""

    def build(run: Run) -> dict[tuple[str, int], tuple[str, int]]:
        rows = (
            run.table("ranks")
            .select("comm_id", "rank", "host", "pid")
            .drop_nulls()
            .unique(maintain_order=True)
        )
        return {(_plain(c), int(r)): (h, int(p)) for c, r, h, p in rows.iter_rows()}

    return run.memo("facts.absent.members", build)


def _of_job(run: Run, known: Identities, comm: object, rank: int) -> int | None:
    """The rank of the job that a rank of a communicator is; None where the log does not say."""
    process = _members(run).get((_plain(comm), rank))
    return known.rank_of_process.get(process) if process is not None else None


def _from_ras(run: Run, known: Identities) -> Iterator[Claim]:
    yield from _counts(run, known)
    yield from _lost(run, known)


def _in_job(
    run: Run, known: Identities, comm: object, rank: int | None, pid: int | None, host: str | None
) -> int | None:
    """The rank of the job by RAS's process number, else by its rank in the communicator."""
    process = known.process(pid, known.host(host)) or known.process(pid, None)
    if process is not None:
        return process[1]
    if rank is None:
        return None
    placed = _of_job(run, known, comm, rank)
    # Without the init of the communicator RAS's own rank is all there is, as long as no other communicator is known.
    return rank if placed is None and not known.rank_of_process else placed


def _ras_counts(run: Run) -> pl.DataFrame:
    """Operations launched, by report: ``report, comm, op, rank, pid, host, count``; rank null is that of all others."""
    schema = {
        "input_id": pl.UInt16, "line": pl.UInt64, "report": pl.Int64, "comm": pl.String, "op": pl.String,
        "rank": pl.Int64, "pid": pl.Int64, "host": pl.String, "count": pl.Int64, "ranks": pl.Int64,
    }  # fmt: skip
    frames = [pl.DataFrame(schema=schema)]
    ras = run.table("ras")
    rows = ras.filter(
        pl.col("event").is_in(["mismatch", "mismatch_member"]) & pl.col("op_count").is_not_null()
    )
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
    rows = _ras_counts(run)
    for (comm, op), part in rows.group_by("comm", "op", maintain_order=True):
        reports = part.partition_by("input_id", "report", maintain_order=True)
        behind = _lowest(reports[-1])
        if behind is None:
            continue
        late, low, high, ahead = behind
        # The same counts in two reports, or a job that was ended from outside: nothing moved any more.
        marks = [tuple(sorted(r.select("rank", "count").rows(), key=str)) for r in reports]
        still = (len(marks) > 1 and marks[-1] == marks[-2]) or run.has("endings")
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
            f"{_words(ranks).lower()} launched {low:,} {op or 'collective'} operations, the others {high:,}"
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
    rows = rows.filter(pl.col("pid").is_not_null() | pl.col("rank").is_not_null()).with_columns(
        dead.alias("_dead")
    )
    if rows.is_empty():
        return
    gone: dict[int, bool] = {}
    for comm, rank, pid, host, is_dead in rows.select(
        "comm_hash", "rank", "pid", "host", "_dead"
    ).iter_rows():
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
                f"{_words(ranks).lower()}: {what if is_dead else 'no answer'}", _refs(rows, 2),
            )  # fmt: skip


def _recorded(run: Run) -> pl.DataFrame:
    rows = run.table("collectives")
    needed = (
        pl.col("rank").is_not_null() & pl.col("seq").is_not_null() & pl.col("process_group").is_not_null()
    )
    return (
        rows.filter((pl.col("source").cast(pl.String) == "inspector") & needed)
        .group_by("process_group", "op", "rank", "group_size", maintain_order=True)
        .agg(pl.col("seq").max(), pl.col("input_id").last())
    )


def _from_records(run: Run) -> Iterator[Claim]:
    rows = _recorded(run)
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
            f"its last {op} of {_words(ranks).lower()} is {low:,}, of the others {most:,}",
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
    placed = {p for c, r in quiet.iter_rows() if (p := _of_job(run, known, c, int(r))) is not None}
    if placed and len(placed) * 2 < known.world:
        ranks = tuple(sorted(placed))
        yield Claim(
            LOG, "stopped", ranks, known.hosts(ranks), (), Confidence.LOW,
            f"the lines of {_words(ranks).lower()} end while others go on", (),
        )  # fmt: skip


# Numbers of all sources


def standings(run: Run) -> pl.DataFrame:
    """How far each rank is by each source: ``source, group, op, rank, host, enqueued, started, completed``.

    ``group`` is the process group or communicator, ``rank`` that of the job where it is known, else that in the group.
    Numbers of different sources count differently and are not to be compared: torch numbers operations of a process
    group, RAS and Inspector those of one ``op``, a call log all collectives of a communicator. ``enqueued`` is the
    last operation issued, ``started`` the last one that its GPU began, ``completed`` the last one that ended.
    """
    return run.memo("facts.standings", _standings)


def _standings(run: Run) -> pl.DataFrame:
    known = identities(run)
    frames = [pl.DataFrame(schema=STANDINGS)]
    states = watchdog.states(run)
    if states.height:
        frames.append(
            states.select(
                pl.lit(WATCHDOG).alias("source"), "group", pl.lit(None, pl.String).alias("op"),
                pl.coalesce("global_rank", "rank").alias("rank"), "host", pl.col("last_enqueued").alias("enqueued"),
                pl.col("last_started").alias("started"), pl.col("last_completed").alias("completed"),
            )
        )  # fmt: skip
    dumps = flight_recorder.progress(run)
    if dumps is not None:
        label = {key: group.label for key, group in dumps[1].items()}
        frames.append(
            dumps[0].select(
                pl.lit(DUMPS).alias("source"), pl.col("key").replace_strict(label, default=None).alias("group"),
                pl.lit(None, pl.String).alias("op"), "rank", pl.lit(None, pl.String).alias("host"), "enqueued",
                pl.lit(None, pl.Int64).alias("started"), pl.col("finished").alias("completed"),
            )
        )  # fmt: skip
    if run.has("calls"):
        frames.append(
            progress(run).select(
                pl.lit(CALLS).alias("source"), pl.col("comm_id").alias("group"), pl.lit(None, pl.String).alias("op"),
                "rank", "host", pl.col("calls").cast(pl.Int64).alias("enqueued"),
                pl.lit(None, pl.Int64).alias("started"), pl.lit(None, pl.Int64).alias("completed"),
            )
        )  # fmt: skip
    ras = _ras_counts(run).filter(pl.col("rank").is_not_null())
    frames.append(
        ras.select(
            pl.lit(RAS).alias("source"), pl.col("comm").alias("group"), "op", "rank", "host",
            pl.col("count").alias("enqueued"), pl.lit(None, pl.Int64).alias("started"),
            pl.lit(None, pl.Int64).alias("completed"),
        ).unique(["group", "op", "rank"], keep="last", maintain_order=True)
    )  # fmt: skip
    frames.append(
        _recorded(run).select(
            pl.lit(INSPECTOR).alias("source"), pl.col("process_group").alias("group"), pl.col("op").cast(pl.String),
            "rank", pl.lit(None, pl.String).alias("host"), pl.lit(None, pl.Int64).alias("enqueued"),
            pl.lit(None, pl.Int64).alias("started"), pl.col("seq").alias("completed"),
        )
    )  # fmt: skip
    every = pl.concat([f.cast(STANDINGS) for f in frames])  # type: ignore[arg-type]
    hosts = {int(r): h for r, h in known.host_of_rank.items()}
    if not hosts:
        return every
    from_rank = pl.col("rank").replace_strict(hosts, default=None, return_dtype=pl.String)
    torch = pl.col("source").is_in([WATCHDOG, DUMPS])
    return every.with_columns(host=pl.coalesce("host", pl.when(torch).then(from_rank)))
