"""The replay against twins: the same job simulated with the same draws, with and without the fault."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping, Sequence

import polars as pl
import pytest

from nccl_insight.engine.analyze import analyze
from nccl_insight.engine.compare import compare
from nccl_insight.facts.lateness.replay import WhatIf, what_if
from nccl_insight.report.json_ import to_dict
from nccl_insight.tables.match import finish
from nccl_insight.tables.run import Run, build_run
from nccl_insight.tables.schema import conform
from tests.pages import build

US = 1_000
GEMM, REDUCE, REDUCE_ALL = 11, 22, 33
Slow = Callable[[int, int], float]


def _even(rank: int, step: int) -> float:
    return 1.0


class Job:
    """Data parallel ranks: ``layers`` kernels, then an all-reduce in each group, ``steps`` times."""

    def __init__(
        self, groups: Sequence[Sequence[int]], *, steps: int = 6, seed: int = 1, slow: Slow = _even,
        wire_us: Mapping[int, float] | None = None, pause: Slow | None = None,
        everybody: Mapping[int, float] | None = None, hidden: bool = False,
    ) -> None:  # fmt: skip
        """``hidden``: all ranks meet on their CPUs at the end of a step, where nothing records it.

        ``wire_us``: transfer time by group; ``pause``, ``everybody``: idle microseconds before a rank's, a step.
        """
        draw = random.Random(seed)
        ranks = sorted(r for g in groups for r in g)
        clock = dict.fromkeys(ranks, 0.0)
        self.work: list[tuple[int, int, int, int, int, int, int]] = []
        self.met: list[tuple[int, int, int, int, int, list[int], str]] = []
        for step in range(steps):
            for rank in ranks:
                idle = 5 + (pause(rank, step) if pause else 0) + (everybody or {}).get(step, 0)
                for layer in range(4):
                    took = 500 * draw.uniform(0.995, 1.005) * slow(rank, step)
                    start = clock[rank] + (idle if layer == 0 else 2)
                    self._add(rank, 7, step, 0, GEMM, start, start + took)
                    clock[rank] = start + took
            for number, group in enumerate(groups):
                begun = {r: clock[r] + 2 for r in group}
                end = max(begun.values()) + (wire_us or {}).get(number, 200.0)
                for rank in group:
                    self._add(rank, 20, step, 1, REDUCE, begun[rank], end)
                    row = (rank, step, int(begun[rank] * US), int(end * US), step + 1, list(group), f"g{number}")
                    self.met.append(row)
                    clock[rank] = end
            if hidden:
                end = max(clock.values()) + 80.0
                clock = {r: end + draw.uniform(0.0, 20.0) for r in ranks}
                continue
            # One more meeting of all, as groups of one job are not independent.
            begun = {r: clock[r] + 2 for r in ranks}
            end = max(begun.values()) + 30.0
            for rank in ranks:
                self._add(rank, 20, step, 1, REDUCE_ALL, begun[rank], end)
                self.met.append((rank, step, int(begun[rank] * US), int(end * US), step + 1, ranks, "world"))
                clock[rank] = end
        self.span_ns = (max(clock.values()) - 5) * US

    def _add(self, rank: int, stream: int, step: int, kind: int, name: int, start: float, end: float) -> None:
        self.work.append((rank, stream, step, kind, name, int(start * US), int(end * US)))

    def run(
        self,
        hosts: Callable[[int], str] = lambda r: "h0",
        ahead: Callable[[int, int], int] = lambda r, t: 0,
        metadata: bool = True,
    ) -> Run:
        """The traces; ``ahead``: what a rank's clock shows more at a time, nanoseconds."""
        names = ("rank", "stream", "step", "kind", "name", "start_ns", "end_ns")
        work = pl.DataFrame(self.work, schema=names, orient="row").with_columns(device=0, input_id="rank")
        met = pl.DataFrame(
            self.met, schema=("rank", "step", "start_ns", "end_ns", "seq", "group_ranks", "process_group"), orient="row"
        )

        def shift(frame: pl.DataFrame) -> pl.DataFrame:
            rows = [
                (s + ahead(r, s), e + ahead(r, s)) for r, s, e in frame.select("rank", "start_ns", "end_ns").iter_rows()
            ]
            return frame.with_columns(
                pl.Series("start_ns", [r[0] for r in rows]), pl.Series("end_ns", [r[1] for r in rows])
            )

        collectives = shift(met).with_columns(
            device=0, stream=20, op=pl.lit("AllReduce"), size_bytes=1 << 20, dtype=pl.lit("float32"), input_id="rank",
            source=pl.lit("kernel"), kernel=pl.lit("ncclDevKernel_AllReduce"),
            duration_ns=pl.col("end_ns") - pl.col("start_ns"),
            exposed_ns=pl.col("end_ns") - pl.col("start_ns"), group_size=pl.col("group_ranks").list.len(),
        )  # fmt: skip
        if not metadata:
            nothing = ("process_group", "group_ranks", "seq", "op", "size_bytes", "dtype", "group_size")
            collectives = collectives.with_columns(pl.lit(None).alias(c) for c in nothing)
        ranks = work["rank"].unique().sort()
        info = pl.DataFrame({"input_id": ranks, "rank": ranks, "host": [hosts(r) for r in ranks]})
        made = {"gpu_work": shift(work), "collectives": collectives.drop("end_ns"), "trace_info": info}
        return build_run(finish({name: conform(name, frame) for name, frame in made.items()}), [])


def _of(found: WhatIf, kind: str, ranks: tuple[int, ...]) -> int:
    return next(g.alone_ns for g in found.gains if (g.scenario.kind, g.scenario.ranks) == (kind, ranks))


def _near(found: float, true: float, window: float) -> bool:
    return abs(found - true) <= max(0.1 * true, 0.01 * window)


FOUR = [[0, 1, 2, 3]]


def test_a_slow_rank_gains_what_its_twin_saves() -> None:
    job, twin = Job(FOUR, slow=lambda r, s: 1.2 if r == 2 else 1.0), Job(FOUR)
    found = what_if(job.run())
    assert found.base_error == pytest.approx(0, abs=1e-6)
    assert found.window_ns == pytest.approx(job.span_ns, rel=1e-6)
    assert (found.gains[0].scenario.kind, found.gains[0].scenario.ranks) == ("rank", (2,))
    assert _near(found.gains[0].alone_ns, job.span_ns - twin.span_ns, job.span_ns)
    assert len(found.gains) == 1
    assert found.ideal_ns == pytest.approx(twin.span_ns + 6 * 0.05 * 2000 * US, rel=0.01)


@pytest.mark.parametrize("seed", range(5, 9))
def test_a_slow_rank_among_inputs_of_unequal_length_gains_what_its_twin_with_these_lengths_saves(seed: int) -> None:
    draw = random.Random(seed)
    lengths = [[math.exp(draw.gauss(0, 0.08)) for _ in range(12)] for _ in range(8)]
    job = Job([range(8)], steps=12, slow=lambda r, s: lengths[r][s] * (1.25 if r == 3 else 1.0))
    twin = Job([range(8)], steps=12, slow=lambda r, s: lengths[r][s])
    assert _of(what_if(job.run()), "rank", (3,)) == pytest.approx(job.span_ns - twin.span_ns, rel=0.05)


def test_a_group_that_keeps_the_others_waiting_where_nothing_is_recorded() -> None:
    """Its ranks met before and stand idle for the answer alone; the others wait for most of a millisecond."""
    groups = [[0, 1, 2, 3], [4, 5, 6, 7]]
    job, twin = Job(groups, slow=lambda r, s: 1.4 if r == 5 else 1.0, hidden=True), Job(groups, hidden=True)
    found = what_if(job.run())
    assert (found.gains[0].scenario.kind, found.gains[0].scenario.ranks) == ("rank", (5,))
    assert _near(found.gains[0].alone_ns, job.span_ns - twin.span_ns, job.span_ns)
    assert len(found.gains) == 1
    assert not what_if(twin.run()).gains


@pytest.mark.parametrize("seed", range(5))
def test_a_healthy_job_gains_nothing(seed: int) -> None:
    found = what_if(Job([[0, 1], [2, 3]], seed=seed).run())
    assert found.gains == ()
    assert not found.refused


@pytest.mark.parametrize("metadata", [True, False])
def test_clocks_that_differ_and_drift(metadata: bool) -> None:
    job, twin = Job(FOUR, slow=lambda r, s: 1.2 if r == 1 else 1.0), Job(FOUR)
    run = job.run(ahead=lambda r, t: r * 37_000_000 + int(t * r * 50e-6), metadata=metadata)
    found = what_if(run)
    assert _near(_of(found, "rank", (1,)), job.span_ns - twin.span_ns, job.span_ns)


def test_slow_transfers_of_one_group() -> None:
    groups = [[0, 4], [1, 5], [2, 6], [3, 7]]
    job, twin = Job(groups, wire_us={2: 1500.0}), Job(groups)
    found = what_if(job.run())
    assert _near(_of(found, "group", (2, 6)), job.span_ns - twin.span_ns, job.span_ns)


def test_two_slow_groups_of_which_one_alone_gains_nothing() -> None:
    groups = [[0, 4], [1, 5], [2, 6], [3, 7]]
    job, twin = Job(groups, wire_us={1: 1500.0, 3: 1500.0}), Job(groups)
    found = what_if(job.run())
    assert _near(_of(found, "rail", (1, 3, 5, 7)), job.span_ns - twin.span_ns, job.span_ns)


def test_a_rank_hidden_behind_a_slow_group_comes_second() -> None:
    groups = [[0, 4], [1, 5], [2, 6], [3, 7]]
    slow = {"slow": lambda r, s: 1.25 if r == 0 else 1.0}
    job = Job(groups, wire_us={2: 3000.0}, **slow)
    both, wire = Job(groups), Job(groups, **slow)
    first, second = what_if(job.run()).gains
    assert (first.scenario.ranks, second.scenario.ranks) == ((2, 6), (0,))
    assert _near(first.alone_ns, job.span_ns - wire.span_ns, job.span_ns)
    assert _near(second.gain_ns, job.span_ns - both.span_ns, job.span_ns)
    assert second.alone_ns < 0.01 * job.span_ns


def test_a_host_is_named_where_each_of_its_ranks_alone_gains_nothing() -> None:
    eight = [list(range(8))]
    job, twin = Job(eight, slow=lambda r, s: 1.15 if r > 3 else 1.0), Job(eight)
    found = what_if(job.run(hosts=lambda r: f"h{r // 4}"))
    assert _near(_of(found, "host", (4, 5, 6, 7)), job.span_ns - twin.span_ns, job.span_ns)


def test_steps_that_begin_late_on_all_ranks() -> None:
    job, twin = Job(FOUR, steps=8, everybody={3: 4000.0, 6: 4000.0}), Job(FOUR, steps=8)
    found = what_if(job.run())
    assert found.gains[0].scenario.steps == (3, 6)
    assert _near(_of(found, "step", ()), job.span_ns - twin.span_ns, job.span_ns)


def test_a_rank_that_pauses() -> None:
    job, twin = Job(FOUR, pause=lambda r, s: 3000.0 if r == 3 and s % 2 else 0.0), Job(FOUR)
    found = what_if(job.run())
    assert _near(_of(found, "rank", (3,)), job.span_ns - twin.span_ns, job.span_ns)


def test_a_pause_of_every_step_counts_in_the_first_one_too() -> None:
    job, twin = Job(FOUR, pause=lambda r, s: 3000.0 if r == 3 else 0.0), Job(FOUR)
    assert _near(_of(what_if(job.run()), "rank", (3,)), job.span_ns - twin.span_ns, 0.0)
    once = what_if(Job(FOUR, pause=lambda r, s: 3000.0 if (r, s) == (3, 0) else 0.0).run())
    assert once.gains == ()


def test_a_rank_without_recorded_partner_is_compared_with_the_others() -> None:
    pairs = [[0, 1], [2, 3], [4, 5]]
    job, twin = Job(pairs, slow=lambda r, s: 1.2 if r == 2 else 1.0), Job(pairs)
    job.work = [row for row in job.work if row[0] not in (3, 5)]
    job.met = [row for row in job.met if row[0] not in (3, 5)]
    assert _near(_of(what_if(job.run()), "rank", (2,)), job.span_ns - twin.span_ns, job.span_ns)


def test_one_rank_alone_is_not_replayed() -> None:
    assert what_if(Job([[0]]).run()).refused
    assert what_if(Job([[0]]).run()).gains == ()


def test_figures_of_what_to_mend() -> None:
    run = Job(FOUR, slow=lambda r, s: 1.2 if r == 2 else 1.0).run()
    drawn = {figure.id: figure for figure in build(analyze(run), run)}
    assert drawn["mends"].table.rows[0][0] == "rank 2 like its peers"
    assert [len(drawn["mends"].plot["data"][0]["x"])] == [3]  # type: ignore[index]
    assert drawn["excess"].table.rows[0][::2] == ("2", "yes")
    assert len(drawn["excess"].plot["data"][0]["z"][0]) == 6  # type: ignore[index]


def _recorded(job: Job, starts: bool) -> Run:
    """The collectives alone, as other sources than traces of GPUs tell them."""
    run = job.run()
    table = run.table("collectives").with_columns(source=pl.lit("inspector"), kernel=None, exposed_ns=None)
    if not starts:
        table = table.with_columns(start_ns=pl.lit(None, pl.Int64))
    return build_run({"collectives": conform("collectives", table), "trace_info": run.table("trace_info")}, [])


@pytest.mark.parametrize("starts", [True, False])
def test_collectives_alone_tell_who_is_late(starts: bool) -> None:
    job, twin = Job(FOUR, slow=lambda r, s: 1.2 if r == 2 else 1.0), Job(FOUR)
    good, bad = _recorded(twin, starts), _recorded(job, starts)
    found = what_if(bad)
    assert (found.coarse, found.refused) == (True, "")
    known = 5 / 6  # nothing tells when the ranks began the first of six steps
    assert _near(_of(found, "rank", (2,)), known * (job.span_ns - twin.span_ns), job.span_ns)
    assert what_if(good).gains == ()
    if starts:
        assert "rank 2 like its peers" in compare(good, bad, analyze(good), analyze(bad)).step


def test_the_later_half_of_the_ranks_is_late_together() -> None:
    job, twin = Job([list(range(8))], slow=lambda r, s: 1.2 if r % 2 else 1.0), Job([list(range(8))])
    assert _near(_of(what_if(job.run()), "ranks", (1, 3, 5, 7)), job.span_ns - twin.span_ns, job.span_ns)


def test_collectives_without_metadata_meet_in_groups() -> None:
    """Pairs reduce in kernels of one name; rank 3 waits for rank 2 in each."""
    job = Job([[0, 1], [2, 3], [4, 5], [6, 7]], slow=lambda r, s: 1.2 if r == 2 else 1.0)
    twin = Job([[0, 1], [2, 3], [4, 5], [6, 7]])
    found = what_if(job.run(metadata=False))
    assert _near(_of(found, "rank", (2,)), job.span_ns - twin.span_ns, job.span_ns)


def test_a_comparison_tells_where_a_longer_step_comes_from() -> None:
    good, bad = Job(FOUR).run(), Job(FOUR, slow=lambda r, s: 1.2 if r == 2 else 1.0, wire_us={0: 400.0}).run()
    told = compare(good, bad, analyze(good), analyze(bad)).step
    of = re.fullmatch(
        r"Of \+([\d.]+) us a step: \+([\d.]+) us rank 2 like its peers, \+([\d.]+) us on all ranks alike.*", told
    )
    assert of, told
    # A fifth of the kernels' 2 ms, and of the transfer as much again.
    assert [float(part) for part in of.groups()] == [
        pytest.approx(600, abs=15),
        pytest.approx(400, abs=15),
        pytest.approx(200, abs=1),
    ]
    assert compare(good, good, analyze(good), analyze(good)).step == ""


def test_the_document_tells_it() -> None:
    job = Job(FOUR, slow=lambda r, s: 1.2 if r == 2 else 1.0)
    document = to_dict(analyze(job.run()))
    assert document["replay"]["ranks"] == 4
    assert document["replay"]["steps"] == 6
    (mend,) = document["what_if"]
    assert (mend["kind"], mend["ranks"], mend["gain_ns"]) == ("rank", [2], mend["alone_ns"])
    assert mend["gain_share"] == pytest.approx(mend["gain_ns"] / job.span_ns, rel=1e-3)


def _on_cpus(rows: list[tuple[int, int, int, int, int]]) -> Run:
    frame = pl.DataFrame(rows, schema=["input_id", "rank", "seq", "start_ns", "duration_ns"], orient="row")
    ranks = sorted(set(frame["rank"]))
    frame = frame.with_columns(
        op=pl.lit("AllReduce"), size_bytes=pl.lit(4096), process_group=pl.lit("0"), group_size=pl.lit(len(ranks)),
        group_ranks=pl.lit(ranks), source=pl.lit("cpu_op"), match_id=pl.col("seq"),
    )  # fmt: skip
    return build_run({"collectives": conform("collectives", frame)})


def test_members_that_leave_at_different_times_by_their_clocks_work_from_the_end_of_the_operation() -> None:
    """CPU operations: rank 2 comes 20 ms late to each of 20; the others leave up to half a ms sooner or later."""
    rows, end = [], [0.0] * 4
    for turn in range(20):
        begins = [at + 2e6 + (20e6 if rank == 2 else 0.0) for rank, at in enumerate(end)]
        done = max(begins) + 10e6
        end = [done] * 4
        for rank, begin in enumerate(begins):
            left = done + (0.0 if rank == 2 else (-5e5, 1e5, -3e5)[(turn + rank) % 3])
            rows.append((rank, rank, turn, round(begin), round(left - begin)))
    found = what_if(_on_cpus(rows))
    assert (found.coarse, found.refused) == (True, "")
    (gain,) = found.gains
    # Of 32 ms a turn the twin takes 12.
    assert (gain.scenario.kind, gain.scenario.ranks) == ("rank", (2,))
    assert _near(gain.gain_ns, 20 * 20e6, found.window_ns)


@pytest.mark.parametrize("jobs", [1, 2])
def test_of_two_processes_the_peer_is_the_other_from_the_begin_of_the_first_step(jobs: int) -> None:
    """A step: rank 0 works 10 ms and rank 1 50 ms, then both reduce for 5 ms; another job may do the same."""
    rows, steps = [], []
    for turn in range(5):
        at = turn * 55e6
        steps += [(rank, rank, turn, round(at), 55_000_000) for rank in (0, 1)]
        rows += [(r, r, turn, round(at + own), round(55e6 - own)) for r, own in enumerate((10e6, 50e6))]
    table = pl.DataFrame(steps, schema=["input_id", "rank", "step", "start_ns", "duration_ns"], orient="row")
    recorded = _on_cpus(rows).table("collectives").with_columns(step=pl.col("seq").cast(pl.Int32))
    known = {"collectives": recorded, "steps": conform("steps", table)}
    if jobs == 2:
        known = {name: pl.concat([part, part.with_columns(pl.col("input_id") + 2)]) for name, part in known.items()}
        info = pl.DataFrame({"input_id": [0, 1, 2, 3], "rank": [0, 1, 0, 1], "job": [0, 0, 1, 1]})
        known["trace_info"] = conform("trace_info", info)
    found = what_if(build_run(known))
    (gain,) = found.gains
    assert (gain.scenario.ranks, gain.alone_ns) == ((1,), pytest.approx(5 * 40e6, rel=0.01))
    assert found.excess[1, 2] == pytest.approx(40e6, rel=0.01)


@pytest.mark.parametrize("seed", range(6))
def test_processes_that_wait_for_a_processor_blame_nobody_else(seed: int) -> None:
    """As above, where every rank gets the processor back up to many milliseconds after the operation is done."""
    draw = random.Random(seed)
    rows, end = [], [0.0] * 4
    for turn in range(30):
        begins = [at + 2e6 + (20e6 if rank == 2 else 0.0) for rank, at in enumerate(end)]
        done = max(begins) + 5e6
        end = [done + draw.expovariate(1 / 4e6) for _ in range(4)]
        rows += [(r, r, turn, round(begin), round(end[r] - begin)) for r, begin in enumerate(begins)]
    found = what_if(_on_cpus(rows))
    assert found.refused == ""
    assert found.gains[0].scenario.ranks == (2,)
    assert found.gains[0].gain_share > 0.4


def test_a_rank_that_was_recorded_longer_has_peers_all_the_same() -> None:
    """Three ranks were recorded before the first step, too, one to three times; rank 2 computes twice as long."""
    run = Job([[0, 1, 2, 3]], slow=lambda rank, _step: 2.0 if rank == 2 else 1.0).run()
    work = run.table("gpu_work")
    before = [
        work.filter(pl.col("rank") == rank, pl.col("step") == 0).with_columns(
            pl.lit(None, pl.Int32).alias("step"), pl.col("start_ns", "end_ns") - 50_000_000 * (turn + 1)
        )
        for rank in (1, 2, 3)
        for turn in range(rank)
    ]
    rest = {table: run.table(table) for table in ("collectives", "trace_info")}
    longer = build_run({**rest, "gpu_work": pl.concat([work, *before])}, [])
    assert [g.scenario.ranks for g in what_if(longer).gains] == [(2,)]
