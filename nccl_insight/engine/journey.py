"""How far the job got, from the milestones of its ranks and the end of its output; what proves that it is healthy."""

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final

import polars as pl

from nccl_insight.base.model import Milestones, Progress
from nccl_insight.base.natures import names
from nccl_insight.base.units import plural, rank_words
from nccl_insight.facts.fabric.links import failed_after, flaps
from nccl_insight.facts.progress.flight_recorder.entries import opened
from nccl_insight.facts.progress.journey import damaged, goes_on, silent_ranks
from nccl_insight.facts.said.course import STEPS, course
from nccl_insight.facts.said.ended import endings
from nccl_insight.facts.said.last_words import tails, unwell
from nccl_insight.facts.said.topics import told
from nccl_insight.facts.said.unread import unread
from nccl_insight.facts.who.members import comms
from nccl_insight.readers.embedded.forms import FAILURES, of_traceback
from nccl_insight.tables.normalise.ends import ENDED
from nccl_insight.tables.notes import LOG_CUT, TORN
from nccl_insight.tables.run import Run, fact

_ROWS: Final = 4096
_LAST_WORDS: Final = 40
_NEAR: Final = 0.9


@fact
def progress(run: Run) -> Progress | None:
    """How far the job got; None when nothing in the inputs says so."""
    end = ending(run)
    rows = run.table("milestones")
    if rows.is_empty():
        text = _without_ranks(run)
        return Progress(text, end, 0, {}, ()) if text else None
    total = _world(run)
    counts = _ranks_by_step(rows)
    return Progress(_sentence(run, rows, counts, total), end, total, counts, tuple(_rows(rows)), silent_ranks(run))


def _world(run: Run) -> int:
    """Ranks of all communicators together, those that the log lacks included."""
    return sum(max(c.nranks, c.ranks_seen) for c in comms(run))


def _ranks_by_step(rows: pl.DataFrame) -> dict[str, int]:
    """How many ranks took each step."""
    rank = pl.struct("comm_id", "rank").hash()
    counts = rows.select(rank.filter(pl.col(step).is_not_null()).n_unique().alias(step) for step in STEPS)
    return {step: int(counts[step][0]) for step in STEPS}


def _rows(rows: pl.DataFrame) -> Iterator[Milestones]:
    ordered = rows.with_columns(_size=pl.len().over("comm_id")).sort(
        "_size", "comm_id", "rank", descending=[True, False, False], maintain_order=True
    )
    for row in ordered.head(_ROWS).iter_rows(named=True):
        known = {step: None if row[step] is None else int(row[step]) for step in STEPS}
        rank, end, read_from = int(row["rank"]), str(row["end"] or "running"), int(row["input_id"])
        yield Milestones(
            comm_id=row["comm_id"], rank=rank, host=row["host"], pid=row["pid"], **known, end=end, input_id=read_from
        )


def _of(count: int, total: int) -> str:
    return f"all {total:,}" if count >= total > 1 else f"{count:,} of {total:,}"


def init_words(run: Run) -> str:
    """On how many ranks init completed."""
    rows = run.table("milestones")
    return ", ".join(_init_words(run, _ranks_by_step(rows), _world(run)))


def _init_words(run: Run, counts: dict[str, int], total: int) -> list[str]:
    several = len(comms(run))
    scope = f"ranks of {plural(several, 'communicator')}" if several > 1 else "ranks"
    parts = [f"init completed on {_of(counts['init_completed'], total)} {scope}"]
    if counts["init_completed"] < total:
        parts = [f"init started on {_of(counts['init_started'], total)} {scope}", *parts]
    return parts


def _sentence(run: Run, rows: pl.DataFrame, counts: dict[str, int], total: int) -> str:
    parts = _init_words(run, counts, total)
    connected = counts["connected"]
    parts.append(f"connected: {connected:,} of {total:,}" if connected else "no connection in the log")
    if counts["first_call"]:
        calls = run.height("calls")
        silent = silent_ranks(run)
        parts.append(f"{plural(calls, 'call')} logged" + (f", {rank_words(silent)} behind" if silent else ""))
    ends = rows.filter(pl.col("destroyed").is_not_null())["end"].cast(pl.String)
    aborted = int((ends == "aborted").sum())
    gone = counts["destroyed"] - aborted
    if gone or not aborted:
        parts.append(f"destroyed: {gone:,} of {total:,}" if gone else "none destroyed")
    if aborted:
        parts.append(f"aborted: {aborted:,} of {total:,}")
    return ", ".join(parts)


def _apart(run: Run) -> str:
    """That some ranks got further than others, in words."""
    silent = silent_ranks(run)
    if silent:
        return f"{rank_words(silent)} silent while others go on"
    return "the log ends while a few ranks are ahead of the others"


def _without_ranks(run: Run) -> str:
    """The same for inputs without the init of any rank."""
    collectives = run.table("collectives")
    if collectives.height:
        recorded = f"{plural(collectives.height, 'collective')} recorded"
        ranks = collectives["rank"].drop_nulls().n_unique()
        if ranks:
            return f"{recorded} on {plural(ranks, 'rank')}"
        gpus = collectives.select("input_id", "device").drop_nulls().unique().height
        return f"{recorded} on {plural(gpus, 'GPU')}" if gpus else recorded
    if run.has("flight_recorder"):
        return "entries of a flight recorder, no timings"
    if run.has("benchmarks"):
        return f"{plural(run.table('benchmarks').height, 'measurement')} of nccl-tests"
    started = run.table("processes").drop_nulls("pid")
    network = run.table("networks")
    if started.height:
        chosen = f", {network['pid'].drop_nulls().n_unique()} chose a network" if network.height else ""
        count = started.select("host", "pid").unique().height
        return f"{plural(count, 'process', 'processes')} wrote{chosen}; no init of a communicator in the log"
    if int(run.table("inputs")["nccl_lines"].sum() or 0):
        return "no init of a communicator in the log"
    return ""


def path_of(run: Run, input_id: int) -> str:
    """The file name of an input."""
    found = run.table("inputs").filter(pl.col("input_id") == input_id)["path"]
    return PurePath(str(found[0])).name if len(found) else ""


def ending(run: Run) -> str:
    """How the output ends, in words; empty when there is nothing to say."""
    text, at = end_of(run)
    return f"{text} ({path_of(run, at[0])}:{at[1]})" if at else text


@fact
def end_of(run: Run) -> tuple[str, tuple[int, int] | None]:
    """How the output ends, in words, and the input and line that say so; empty when there is nothing to say."""
    said = endings(run)
    row = said.row(-1, named=True) if said.height else {}
    if row and not (of_traceback(row["text"]) and _told_behind(run, row)):
        at_end = row["lines"] is None or row["line"] > row["lines"] - _LAST_WORDS
        words = f'{"the output ends with" if at_end else "the log says"} "{str(row["text"])[:100]}"'
        return words, (int(row["input_id"]), int(row["line"]))
    return _end_without_words(run), None


def _told_behind(run: Run, row: Mapping[str, Any]) -> bool:
    """Whether a known message stands behind a row: of a traceback the exception's own line."""
    errors = run.table("errors")
    return errors.filter(pl.col("input_id") == row["input_id"], pl.col("line") > row["line"]).height > 0


def _end_without_words(run: Run) -> str:
    if damaged(run):
        return "the log is cut: its stream is damaged"
    rows = run.table("milestones")
    if rows.is_empty():
        return ""
    ends = set(rows["end"].cast(pl.String).drop_nulls())
    if ends == {"aborted"}:
        return "the log ends after all communicators were closed with ncclCommAbort, as torch does"
    if ends <= {"destroyed", "aborted"}:
        return "the log ends after all communicators were closed"
    if "silent" in ends:
        return _apart(run)
    if goes_on(run):
        return "the program's own output goes on"
    if counts_none(rows, "connected", "first_call"):
        return "the log ends after init"
    return "the log stops there"


def counts_none(rows: pl.DataFrame, *steps: str) -> bool:
    """Whether no rank shows any of the steps."""
    return all(rows[step].null_count() == rows.height for step in steps)


@fact
def doubts(run: Run) -> tuple[str, ...]:
    """Why the inputs do not prove that the job is healthy, the weightiest first; empty when they do."""
    seen = run.asked.symptom
    return (*_found_doubts(run), *([f"no cause of {_SEEN.get(seen, seen)} is in the inputs"] if seen else ()))


# Messages from this size on tell the rate of links, not latency.
_LARGE: Final = 64 << 20
_SEEN: Final = {"hang": "the hang", "slow": "the slowness", "crash": "the crash"}


def _found_doubts(run: Run) -> Iterator[str]:
    yield from _doubts_of_end(run)
    yield from _doubts_of_benchmarks(run)
    for what in unread(run)[:1]:
        yield (f'{what.count:,} lines about {what.about} are worded in a way that is not known here ("{what.example}")')
    yield from _doubts_of_inits(run)


def _doubts_of_end(run: Run) -> Iterator[str]:
    """What stopped the job or went wrong before its end, and what was open there."""
    user = ended_by_user(run)
    if user:
        yield user
    if course(run).not_stopped(endings(run)).height and not user:
        yield ending(run)
    said = trouble_line(run) or complaint(run)
    if said and not user:
        yield said
    if damaged(run):
        yield "an input breaks off in the middle"
    if begun := _open_operations(run):
        yield begun


def _doubts_of_benchmarks(run: Run) -> Iterator[str]:
    """A table that breaks off, and measurements of which nobody can say whether they are good."""
    cut = run.table("benchmark_runs").filter(~pl.col("ended").fill_null(False) & (pl.col("listed") > 0))
    if cut.height:
        row = cut.row(-1, named=True)
        yield f"nccl-tests stops after {plural(int(row['rows'] or 0), 'line')} of its table, before its summary"
    if run.has("benchmarks") and (open_rate := _unjudged(run, _LARGE)):
        yield f"{NO_PROBLEM}; {open_rate}"


def _doubts_of_inits(run: Run) -> Iterator[str]:
    """Communicators that were not complete, ranks that fell silent, a job that may go on behind the inputs' end."""
    nccl_lines = int(run.table("inputs")["nccl_lines"].sum() or 0)
    rows = run.table("milestones")
    everyone = comms(run)
    if not everyone:
        yield from _doubts_without_inits(run, nccl_lines)
        return
    closed = _closed(rows)
    open_ = [c for c in everyone if not c.init_complete and not (c.comm_id in closed and 2 * c.ranks_seen > c.nranks)]
    if open_:
        worst = max(open_, key=lambda c: c.nranks)
        done = rows.filter((pl.col("comm_id") == worst.comm_id) & pl.col("init_completed").is_not_null())
        count = done["rank"].n_unique()
        others = len(open_) - 1
        verb = "is" if others == 1 else "are"
        more = f" (and {plural(others, 'more communicator')} {verb} incomplete)" if others else ""
        yield f"init completed on {count} of {worst.nranks} ranks{more}"
    if rows["end"].cast(pl.String).eq("silent").any():
        yield _apart(run)
    # A dump of the flight recorder is written when something hangs as well as when all is well.
    timed = run.table("collectives").filter(pl.col("source") != "flight_recorder").height or run.has("benchmarks")
    if nccl_lines and not timed and not _closed_most(rows) and not any(t.well for t in tails(run)):
        yield _open_end(run, rows)


def _doubts_without_inits(run: Run, nccl_lines: int) -> Iterator[str]:
    """What the inputs lack where they show no communicator."""
    if run.has("collectives") or run.has("benchmarks"):
        yield from filter(None, [_ranks_without_record(run)])
    elif nccl_lines:
        yield "no line shows the init of a communicator"
    elif libraries := run.table("other_communication")["library"].drop_nulls().unique().sort().to_list():
        yield (
            f"the traces hold no NCCL collectives, and kernels of other libraries ({', '.join(libraries)}) tell "
            "neither groups nor sizes"
        )
    else:
        traces = run.has("trace_info")
        yield "the traces hold no communication" if traces else "no line of NCCL and no trace is in the inputs"


def _unjudged(run: Run, least_bytes: int) -> str:
    """Large measurements of several GPUs that prove nothing good, in words; empty without one: nobody knows what they
    should reach, or they stay below it, though not so far that something is wrong for sure."""
    # They bring the model, which other inputs do not need.
    from nccl_insight.facts.figures.expected import efficiency, gpu_of

    rows = efficiency(run).filter((pl.col("size_bytes") >= least_bytes) & (pl.col("busbw_gbps") > 0))
    rows = rows.filter((pl.col("nranks") > 1) & (pl.col("n_gpus").fill_null(1 << 30) >= pl.col("nranks")))
    judged = rows.filter(pl.col("expected_low_gbps").is_not_null())
    if judged.height:
        best = judged.sort(pl.col("busbw_gbps") / pl.col("expected_low_gbps")).row(-1, named=True)
        low, high = best["expected_low_gbps"], best["expected_high_gbps"]
        if best["busbw_gbps"] >= _NEAR * low:
            return ""
        what = f"{best['op'] or 'a collective'} on {best['nranks']} ranks"
        return f"{best['busbw_gbps']:,.4g} GB/s busbw of {what} is less than the {low:,.0f} to {high:,.0f} expected"
    if rows.is_empty():
        return ""
    best = rows.sort("busbw_gbps").row(-1, named=True)
    if gpu_of(run) is None:
        why = "its GPUs are not named, or not in the table"
    elif best["op"] is None:
        why = "which collective it was is not in the inputs"
    elif (best["n_hosts"] or 0) > 1:
        why = "which NICs the nodes have is not in the inputs (say --nics COUNTxGBITS, such as 8x400)"
    else:
        why = "on how many nodes is not in the inputs"
    what = f"{best['op'] or 'a collective'} on {best['nranks']} ranks"
    return f"{best['busbw_gbps']:,.4g} GB/s busbw of {what} is not judged: {why}"


def _open_operations(run: Run) -> str:
    """What the dumps of the flight recorder show as begun and not completed; empty where all is."""
    if not run.has("flight_recorder"):
        return ""
    rows = opened(run).sort("rank", "record_id", nulls_last=True)
    if rows.is_empty():
        return ""
    row, ranks = rows.row(0, named=True), sorted(rows["rank"].drop_nulls().unique())
    number = row["p2p_seq"] if row["is_p2p"] else row["collective_seq"]
    who = rank_words(ranks) if ranks else "a rank"
    return f"the flight recorder shows {row['op']} {number} of {who} begun and not completed when it was dumped"


def _ranks_without_record(run: Run) -> str:
    """That what was recorded holds some ranks of the job only, so that nobody can be compared with the others."""
    collectives, traces = run.table("collectives"), run.table("trace_info")
    ranks = pl.concat([collectives["rank"].cast(pl.Int64), traces["rank"].cast(pl.Int64)]).drop_nulls().n_unique()
    sizes = pl.concat([collectives["group_size"].cast(pl.Int64), traces["world_size"].cast(pl.Int64)]).drop_nulls()
    world = int(sizes.max() or 0)
    if not 0 < ranks < world:
        return ""
    return f"{NO_PROBLEM} in the records of {ranks} of {world} ranks; who comes late shows in those of all of them"


def _closed_most(rows: pl.DataFrame) -> bool:
    """Whether ranks of the largest communicators closed them, or aborted them as programs do that end."""
    sizes = rows.group_by("comm_id").agg(
        _size=pl.len(), _gone=pl.col("end").cast(pl.String).is_in(["destroyed", "aborted"]).any()
    )
    return bool(sizes.filter(pl.col("_size") == pl.col("_size").max())["_gone"].any())


def _open_end(run: Run, rows: pl.DataFrame) -> str:
    """What is known of a job whose end nothing shows."""
    said = [tail for tail in tails(run) if tail.last]
    if said:
        tail = said[-1]
        return (
            f'{NO_PROBLEM}; how the job ended is not in the log, which ends with "{tail.last[:100]}" '
            f"({path_of(run, tail.input_id)}:{tail.last_line})"
        )
    if run.table("notes").filter(pl.col("kind").is_in([TORN, LOG_CUT])).height:
        return "lines are torn or missing, and the log shows no end of the job"
    if counts_none(rows, "first_call"):
        return f"{NO_PROBLEM} in the init; whether the job ran, and how it ended, is not in the log"
    return f"{NO_PROBLEM}; how the job ended is not in the log, which stops after calls of NCCL"


ENDED_BY_USER: Final = "ended by the user"
NO_PROBLEM: Final = "no problem found"


def ended_by_user(run: Run) -> str:
    """That somebody pressed Ctrl-C, and when; empty where no line says so. What follows such a line is its noise."""
    rows = endings(run).select("input_id", pl.col("line").cast(pl.UInt64), "text")
    errors = run.table("errors").filter(pl.col("diagnosis") == ENDED)
    rows = pl.concat([rows, errors.select("input_id", "line", "text")], how="vertical_relaxed")
    rows = rows.filter(told(rows, "interrupted").is_not_null()) if rows.height else rows
    if rows.is_empty():
        return ""
    row = rows.sort("input_id", "line").row(0, named=True)
    place = f"{path_of(run, int(row['input_id']))}:{row['line']}"
    return f"{ENDED_BY_USER} with Ctrl-C ({place}), and no failure is in the log"


def _closed(rows: pl.DataFrame) -> frozenset[str]:
    """Communicators of which all ranks in the log finished init and were destroyed.

    Both take every rank: what is missing are lines of ranks (a file that is not there, another level), not ranks.
    Most ranks must be in the log.
    """
    done = pl.col("init_completed").is_not_null() & (pl.col("end").cast(pl.String) == "destroyed")
    ends = rows.group_by("comm_id").agg(done.all().alias("_done")).filter("_done")
    return frozenset(ends["comm_id"].drop_nulls())


def complaint(run: Run) -> str:
    """What the last lines of the output complain of and no line is known of, quoted; empty when they do not.

    A complaint counts where it is the last thing said: a program that goes on got over it.
    """
    for tail in tails(run):
        word = next(iter(tail.failures), tail.words[-1] if tail.words else None)
        if word is not None and course(run).beside(word.input_id, word.text):
            continue
        if word is not None and (word.form in FAILURES or word.line == tail.last_line):
            return f'the log ends with "{word.text[:100]}" ({path_of(run, word.input_id)}:{word.line})'
    return ""


def trouble_line(run: Run) -> str:
    """The last line of trouble that is not known to be harmless, quoted; empty when there is none.

    A port that came back before the job ended is none.
    """
    known = comms(run)
    # A launcher that failed at first and came up later.
    past = names("starting") if known and all(c.init_complete for c in known) else ()
    found = course(run).not_stopped(
        unwell(run).filter(~pl.col("cause").is_in(past)),
        pl.col("cause").is_in(names("leaving")),
        pl.concat_str(pl.col("launcher", "text").cast(pl.String).fill_null(""), separator=" "),
    )
    healed = {at for flap in flaps(run) if flap.back and not failed_after(run, flap) for at in flap.lines}
    rows = [row for row in found.iter_rows(named=True) if (row["input_id"], row["line"]) not in healed]
    if not rows:
        return ""
    row = rows[-1]
    return f'the log says "{str(row["text"])[:100]}" ({path_of(run, int(row["input_id"]))}:{row["line"]})'
