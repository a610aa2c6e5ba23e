"""Init finished on all ranks and the first collective did not."""

import polars as pl

from nccl_insight.base.model import Hit
from nccl_insight.base.natures import names
from nccl_insight.base.units import plural
from nccl_insight.facts.fabric.nvls import one_sided
from nccl_insight.facts.progress.absent import absences
from nccl_insight.facts.progress.watchdog import states
from nccl_insight.facts.said.course import course
from nccl_insight.facts.said.ends import ends
from nccl_insight.facts.said.errors import causes
from nccl_insight.facts.said.last_words import unwell
from nccl_insight.facts.setup.settings import refs
from nccl_insight.facts.who.members import completed
from nccl_insight.facts.who.transports import links
from nccl_insight.rules._errors import trouble
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.normalise.ends import TIMED_OUT
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """A watchdog that saw no collective complete, after an init that did."""
    run = ctx.run
    ranks = run.table("ranks")
    if ranks.is_empty() or completed(run).height < ranks.height:
        return
    watchdog = trouble(run, TIMED_OUT)
    first = watchdog.telling("first-operation") if watchdog else None
    # Who gave up an operation behind others of its group had come further than the first one.
    further = first is not None and (states(run)["timed_out_seq"] > 1).any()
    if first is not None and (further or absences(run) or _explained(run)):
        # The rank that did not come, or the failure, is the finding; that nothing completed follows from it.
        return
    if first is None:
        loud = unwell(run).height
        if run.asked.symptom == "hang" and not loud and not _explained(run) and _nobody_went_on(run):
            yield _silence(ctx)
            return
        if (
            not run.has("connections")
            and not run.has("calls")
            and not loud
            and ranks["destroyed"].cast(pl.String).eq("no").all()
        ):
            yield ctx.cannot("untold")
        return
    yield from ctx.tells("found", rows=first)


def _explained(run: Run) -> bool:
    """Whether the log holds a failure that keeps a collective from completing."""
    rows = causes(run).filter(pl.col("loud") & pl.col("cause").is_in(list(names("any"))))
    return rows.height > 0 or bool(ends(run)) or bool(one_sided(run))


def _nobody_went_on(run: Run) -> bool:
    """Whether the log shows no step of the program, no closed communicator and no second call of any rank."""
    ranks, calls = run.table("ranks"), run.table("calls")
    if course(run).steps or not ranks["destroyed"].cast(pl.String).eq("no").all() or run.has("benchmarks"):
        return False
    return calls.is_empty() or calls.group_by("host", "pid", "comm").len().filter(pl.col("len") > 1).is_empty()


def _silence(ctx: Context) -> Hit:
    """Where to look when a job hangs behind an init that completed: the paths that it connected, likeliest first."""
    run = ctx.run
    ranks, used = run.table("ranks"), links(run)
    p2p = used.filter((pl.col("transport") == "P2P") & pl.col("same_host").fill_null(True))
    nvlink = (run.table("topology_links")["link"].cast(pl.String) == "NVL").any()
    net = used.filter(pl.col("transport") == "NET").height > 0
    apart = ranks.height > 1 and ranks.height == ranks["host"].n_unique()
    whole = ranks.filter(pl.col("nranks") > ranks.height).is_empty()
    pcie = p2p.height > 0 and not nvlink
    network = not pcie and (net or (apart and not p2p.height))
    kinds = used.group_by("transport").len().sort("len", descending=True).drop_nulls().iter_rows()
    return ctx.says(
        "silence",
        refs(p2p if p2p.height else ranks, 2),
        whom=ranks,
        observed=", ".join(plural(n, f"{kind} connection") for kind, n in kinds) or "no connection in the log",
        absence="no further call, step or end of any rank in the inputs",
        all="all " * whole,
        n_ranks=ranks.height,
        called=run.has("calls"),
        pcie=pcie,
        network=network,
        both=pcie and net,
    )
