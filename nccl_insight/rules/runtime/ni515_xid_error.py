"""The NVIDIA driver reported an Xid."""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple

import polars as pl

from nccl_insight.base.data import replace
from nccl_insight.base.grouping import grouped
from nccl_insight.base.model import Action, Hit, Ref, Severity
from nccl_insight.base.xids import BY_PROGRAM, MEANINGS, remedies, weight
from nccl_insight.facts.said.topics import told
from nccl_insight.language.load import playing
from nccl_insight.loading.assemble.places import gpus_at, places
from nccl_insight.rules._diag import events
from nccl_insight.rules._errors import Trouble, failed_in_cuda, the_failed, with_who
from nccl_insight.rules.context import Context, Hits
from nccl_insight.rules.says import said
from nccl_insight.tables.run import Run

_READ: Final = ("input_id", "line", "time_s", "text", "message", "rank", "host", "pci_address", "xid", "_word")


class _Kind(NamedTuple):
    """What lines have in common that are of one Xid number and weight."""

    xid: int | None
    severity: Severity
    switch: bool
    foreign: bool


def _number(text: str, behind: str) -> int | None:
    """The number behind some words, with or without a quote."""
    digits = "".join(takewhile(str.isdigit, text.partition(behind)[2].lstrip("'")))
    return int(digits) if digits.isascii() and digits else None


def _place(run: Run, row: Mapping[str, Any]) -> tuple[int | None, str | None]:
    """Rank and host of the GPU; of a node that NCCL calls by another name those of the process in which CUDA failed."""
    rank, host, address = row["rank"], row["host"], str(row["pci_address"] or "")
    if rank is None and address and host is not None and host not in places(run).machines:
        failed = failed_in_cuda(run)
        owners = {owner for owner in gpus_at(run.tables, address, None) if owner[1] in failed}
        if len({at for at, _ in owners}) == 1:
            return next(iter(owners))[1] if len(owners) == 1 else None, next(iter(owners))[0]
    return rank, host


def check(ctx: Context) -> Hits:
    """One finding for each Xid number and weight, the most severe first, at most five."""
    yield from _told_by_nccl(ctx.run)
    found = ctx.lines()
    if found is None:
        return
    found = Trouble(found.rows.filter(pl.col("level").ne_missing("DIAG")))
    if not found.rows.height:
        return
    rows = found.rows.with_columns(told(found.rows, "xid-word").alias("_word")).select(_READ)
    kinds = grouped((_kind(ctx.run, row), row) for row in rows.to_dicts())
    for kind in sorted(kinds, key=lambda kind: kind.severity.order)[:5]:
        yield _hit(ctx, kind, kinds[kind])


def _kind(run: Run, row: Mapping[str, Any]) -> _Kind:
    text, word = str(row["text"] or ""), row["_word"]
    # The cleanup of a process tells which error it comes from.
    fallen = 79 if word == "fallen-off" else None
    xid = _number(text, "caused by previous Xid ") or (fallen if row["xid"] is None else row["xid"])
    switch = text.startswith("SXid") or row["message"] in playing("switch")
    foreign = not switch and xid in BY_PROGRAM and _foreign(run, row)
    severity = Severity.INFO if foreign else Severity(weight(xid, word, switch=switch))
    return _Kind(xid, severity, switch, foreign)


def _foreign(run: Run, row: Mapping[str, Any]) -> bool:
    """Whether the job uses other GPUs of that host only: a program that is none of it met the fault."""
    host, address = row["host"], str(row["pci_address"] or "")
    ours = len(places(run).on([host]))
    known = len(gpus_at(run.tables, "", host))  # of all addresses
    return bool(address) and 0 < ours == known and not gpus_at(run.tables, address, host)


def _hit(ctx: Context, kind: _Kind, rows: Sequence[Mapping[str, Any]]) -> Hit:
    times = [row["time_s"] for row in rows if row["time_s"] is not None]
    name = "SXid" if kind.switch else "Xid"
    meaning = "an NVSwitch error" if kind.switch else MEANINGS.get(kind.xid or 0, "see NVIDIA's list")
    meaning = "a GPU that the job does not use" if kind.foreign else meaning
    # ``changed from 0x0 (None) to 0x2 (Node Reboot Required)``
    asked = str(rows[-1]["text"]).partition(" to 0x")[2] if kind.xid == 154 else ""
    asked = asked.partition("(")[2].partition(")")[0]
    meaning = f"the GPU needs: {asked}" if asked else meaning
    kinds = remedies(kind.xid, kind.severity.value, switch=kind.switch)
    at = [_place(ctx.run, row) for row in rows]
    ranks = tuple(sorted({rank for rank, _ in at if rank is not None}))
    hosts = tuple(sorted({host for _, host in at if host is not None}))
    if not ranks and kind.severity is Severity.ERROR and not places(ctx.run).rank_of_process:
        ranks = the_failed(ctx.run, hosts)
    return ctx.says(
        "found",
        tuple(Ref(row["input_id"], row["line"]) for row in rows[:4]),
        whom=(*ranks, *hosts),
        title=with_who(
            f"The driver reported {name} {kind.xid if kind.xid is not None else '?'}: {meaning}", ranks, hosts
        ),
        **said("xid-error.remedy", kinds | {"asked": asked}),
        observed=" ".join(str(rows[0]["text"]).split())[:200],
        severity=kind.severity,
        first_s=min(times, default=None),
        last_s=max(times, default=None),
        program=kind.xid in BY_PROGRAM,
        hard=kind.severity is Severity.ERROR,
    )


def _told_by_nccl(run: Run) -> Hits:
    """Events that NCCL's diagnostics found in the kernel logs of the hosts, since boot and not only in this job."""
    for number, switch, seen in events(run):
        by_program = not switch and number in BY_PROGRAM
        meaning = "" if switch else MEANINGS.get(number, "")
        yield replace(
            seen,
            title=f"{seen.title}: {meaning}" if meaning else seen.title,
            severity=seen.severity or Severity.WARNING,
            action=Action.TRIAGE if by_program else None,
        )
