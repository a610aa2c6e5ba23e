"""Another rank went away.

What it finds
-------------
Connections that a peer closed or reset, broken pipes, ncclRemoteError.

Why it matters
--------------
It says that the fault is somewhere else: the rank at the other end stopped first.

How it decides
--------------
The messages decide that a peer is gone, never why. Any failure in the log that can stop a process is
taken as the cause; without one the peers named in the messages are where to look.

What to do
----------
Look at the log and exit status of the ranks that are not among the reporters, and of the hosts named as
peers: exceptions, OOM killer, preemption, Xid.

False positives
---------------
Connections closed in the course of an orderly end of the job.

References
----------
NCCL user guide, ncclRemoteError; NVIDIA/nccl src/misc/socket.cc.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._closed import accepting
from nccl_insight.rules._errors import Trouble, report, trouble
from nccl_insight.rules._faults import ANY
from nccl_insight.run import Run
from nccl_insight.units import format_ranks
from nccl_insight.views.settings import named

CLASS = "S"
SEVERITY = Severity.ERROR
ACTION = Action.TRIAGE
NEEDS = ("errors",)
CAUSED_BY = ANY


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all closed connections, with the peers that closed them."""
    found = trouble(run, "peer-died")
    if found is None:
        return
    other = found.rows.join(accepting(run), on=["input_id", "line"], how="anti")
    if other.is_empty():
        return
    found = Trouble(other)
    peers = (
        other["text"]
        .str.extract(r"(?:peer|from|to) ([0-9A-Za-z_.:%-]+?)<")
        .drop_nulls()
        .unique()
        .sort()
        .to_list()
    )
    silent = _silent(run, found)
    where = f" by {named(peers)}" if peers else ""
    yield from report(
        run,
        "peer-died",
        f"A connection was closed{where}: another rank went away",
        "grep -nE 'Traceback|Error|Killed|signal|oom' <log of the peer>; sacct -j <job> -o node,exitcode; dmesg -T "
        "| grep -i oom",
        explanation="These lines are the echo of another rank's end. The first error of that rank is the cause."
        + (
            f" Ranks {format_ranks(silent)} of the communicator reported nothing: look at those first."
            if silent
            else ""
        ),
        expected="connections stay open until the communicator is destroyed",
    )


def _silent(run: Run, found: Trouble) -> list[int]:
    """Ranks of the largest communicator that did not report a closed connection, if they are few."""
    ranks = run.table("ranks").drop_nulls("rank")
    if ranks.is_empty() or not found.ranks:
        return []
    largest = ranks.sort("nranks", descending=True)["comm_id"][0]
    every = set(ranks.filter(pl.col("comm_id") == largest)["rank"])
    rest = sorted(every - set(found.ranks))
    return rest if rest and len(rest) * 2 <= len(every) else []
