"""Steps came in a rhythm, and then none."""

from collections.abc import Iterator

import polars as pl

from nccl_insight.base.model import Confidence, Hit, Ref, Severity
from nccl_insight.base.units import format_bytes, format_span_s, plural
from nccl_insight.facts.clock import clock_text
from nccl_insight.facts.ends import ends
from nccl_insight.facts.last_words import unwell
from nccl_insight.facts.progress import stalled
from nccl_insight.rules.context import Context, Hits, hit
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """At most one finding; a note where a failure is known, whose time it tells."""
    run = ctx.run
    if run.asked.symptom == "hang":
        yield from _sweep(run)
    found = stalled(run, run.asked.symptom == "hang")
    if found is None:
        return
    one, at = found.series, found.series.rows["time_s"][-1]
    last = one.at(-1)
    when = f" at {clock_text(at)}" if at is not None else ""
    span = format_span_s(found.quiet_s) if found.quiet_s is not None else ""
    quiet = f", then nothing for {span}" if span else ""
    known = unwell(run).height > 0 or bool(ends(run))
    yield ctx.hit(
        (one.ref(-1),),
        whom=(one.rank,),
        title=f"Steps stopped: the last is {last}{when}{quiet}"
        + (f", while it was at {'an' if found.pause[:1] in 'aeiou' else 'a'} {found.pause}" if found.pause else ""),
        next_step="py-spy dump --native --pid <pid>   # of every rank, while it stands: the one that is outside the "
        "collective is why; no longer there: the lines of all hosts from that time on (dmesg -T, journalctl), and "
        'the next run with eval "$(nccl-insight record-env --symptom hang)"',
        explanation="A line came every "
        f"{format_span_s(found.usual_s)} until then. The job stood still from that moment on, whatever was reported "
        "later: ranks wait in a collective, or one of them waits for data, storage or its CPU.",
        observed=f"{last}, and no further one" + (f" in {span}" if span else ""),
        expected=f"a line every {format_span_s(found.usual_s)}",
        severity=Severity.INFO if known else None,
        confidence=Confidence.MEDIUM if span else Confidence.LOW,
        first_s=at,
        absence="no later count in this input",
    )


def _sweep(run: Run) -> Iterator[Hit]:
    """A sweep of nccl-tests of which the user says that it hangs: the size that it did not get past."""
    cut = run.table("benchmark_runs").filter(~pl.col("ended").fill_null(False) & (pl.col("rows") > 0))
    rows = run.table("benchmarks").join(cut.select("input_id", "run"), on=["input_id", "run"], how="semi")
    if rows.is_empty():
        return
    last = rows.row(-1, named=True)
    yield hit(
        (Ref(int(last["input_id"]), int(last["line"] or 0)),),
        title=f"nccl-tests stopped behind {format_bytes(last['size_bytes'])}: the next size never finished",
        next_step="NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH,TUNING <the same test> -b and -e "
        "with the next size   # does it hang alone? then with NCCL_PROTO=Simple, NCCL_ALGO=Ring and "
        "NCCL_P2P_DISABLE=1, one at a time: the first that helps names the path",
        explanation="Smaller sizes passed over the same connections, so launch and init are right. From some size on "
        "NCCL takes another protocol, algorithm or number of channels.",
        observed=f"{plural(rows['size_bytes'].n_unique(), 'size')}, and no summary",
        expected="a row for each size, and the summary",
        confidence=Confidence.LOW,
        absence="no further row of the table, nor its summary",
    )
