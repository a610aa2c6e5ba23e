"""The NVIDIA driver reported an Xid."""

from itertools import takewhile
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass, field, replace
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


@dataclass
class _Kind:
    """All lines of one Xid number of one weight."""

    xid: int | None
    severity: Severity
    switch: bool
    rows: list[dict[str, object]] = field(default_factory=list)
    ranks: set[int] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)


def _number(text: str, behind: str) -> int | None:
    """The number behind some words, with or without a quote."""
    digits = "".join(takewhile(str.isdigit, text.partition(behind)[2].lstrip("'")))
    return int(digits) if digits.isascii() and digits else None


def _place(run: Run, row: dict[str, object]) -> tuple[int | None, str | None]:
    """Rank and host of the GPU; of a node that NCCL calls by another name those of the process in which CUDA failed."""
    rank, host, address = row["rank"], row["host"], str(row.get("pci_address") or "")
    if rank is None and address and host is not None and host not in places(run).machines:
        failed = failed_in_cuda(run)
        owners = {owner for owner in gpus_at(run.tables, address, None) if owner[1] in failed}
        if len({at for at, _ in owners}) == 1:
            return next(iter(owners))[1] if len(owners) == 1 else None, next(iter(owners))[0]
    return rank, host  # type: ignore[return-value]


def check(ctx: Context) -> Hits:
    """One finding for each Xid number and weight, the most severe first, at most five."""
    yield from _told_by_nccl(ctx.run)
    found = ctx.lines()
    if found is None:
        return
    found = Trouble(found.rows.filter(pl.col("level").ne_missing("DIAG")))
    if not found.rows.height:
        return
    kinds: dict[tuple[int | None, Severity, bool], _Kind] = {}
    rows = found.rows.with_columns(told(found.rows, "xid-word").alias("_word")).select(_READ)
    for row in rows.to_dicts():
        text = str(row["text"] or "")
        number, word = row.get("xid"), row["_word"]
        xid = int(number) if isinstance(number, int) else 79 if word == "fallen-off" else None
        # The cleanup of a process tells which error it comes from.
        xid = _number(text, "caused by previous Xid ") or xid
        switch = text.startswith("SXid") or row["message"] in playing("switch")
        severity = Severity(weight(xid, word, switch=switch))
        kind = kinds.setdefault((xid, severity, switch), _Kind(xid, severity, switch))
        rank, host = _place(ctx.run, row)
        kind.rows.append(row)
        kind.ranks.update([rank] if rank is not None else [])
        kind.hosts.update([host] if host is not None else [])
    ordered = sorted(kinds.values(), key=lambda k: k.severity.order)
    for kind in ordered[:5]:
        yield _hit(ctx, kind)


def _recovery(kind: _Kind) -> str:
    """What the driver asks for with Xid 154: ``changed from 0x0 (None) to 0x2 (Node Reboot Required)``."""
    return str(kind.rows[-1]["text"]).partition(" to 0x")[2].partition("(")[2].partition(")")[0]


def _hit(ctx: Context, kind: _Kind) -> Hit:
    lines = [(int(str(r["input_id"])), int(str(r["line"]))) for r in kind.rows]
    times = [float(str(r["time_s"])) for r in kind.rows if r.get("time_s") is not None]
    name = "SXid" if kind.switch else "Xid"
    meaning = "an NVSwitch error" if kind.switch else MEANINGS.get(kind.xid or 0, "see NVIDIA's list")
    asked = _recovery(kind) if kind.xid == 154 else ""
    meaning = f"the GPU needs: {asked}" if asked else meaning
    kinds = remedies(kind.xid, kind.severity.value, switch=kind.switch)
    hosts = tuple(sorted(kind.hosts))
    ranks = tuple(sorted(kind.ranks))
    if not ranks and kind.severity is Severity.ERROR and not places(ctx.run).rank_of_process:
        ranks = the_failed(ctx.run, hosts)
    return ctx.says(
        "found",
        tuple(Ref(i, n) for i, n in lines[:4]),
        whom=(*ranks, *hosts),
        title=with_who(
            f"The driver reported {name} {kind.xid if kind.xid is not None else '?'}: {meaning}", ranks, hosts
        ),
        **said("xid-error.remedy", kinds | {"asked": asked}),
        observed=" ".join(str(kind.rows[0]["text"]).split())[:200],
        severity=kind.severity,
        first_s=min(times) if times else None,
        last_s=max(times) if times else None,
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
