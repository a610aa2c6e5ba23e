"""Steps that can be pasted: holes like ``<pid>`` filled from the tables, or by a command that finds the value.

A hole that a page may leave is one of ``HOLES``. ``NAME=VALUE <the same job>`` becomes ``export NAME=VALUE``, to be run
before the job. What must run while the processes live is told for the next time where they have ended.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import polars as pl

from nccl_insight.base import late, toml
from nccl_insight.base.model import Step
from nccl_insight.engine.draft import Draft
from nccl_insight.engine.evidence import paths_of
from nccl_insight.facts.said.ended import endings
from nccl_insight.facts.said.errors import causes, present
from nccl_insight.facts.who.scheduler import scheduler
from nccl_insight.loading.assemble.places import places
from nccl_insight.tables.normalise.ends import CRASHED, ENDED, FAILED, KILLED, TIMED_OUT
from nccl_insight.tables.run import Run

# Each hole: the columns of the failure line that hold the value, and a command that finds it where none does.
HOLES: Final[Mapping[str, tuple[Sequence[str], str]]] = toml.beside(__file__)
_HOLE: Final = late.compiled("<(" + "|".join(HOLES) + ")>")
_AGAIN: Final = late.compiled(r"^((?:[A-Z][A-Z0-9_]*=\S+ )+)<the same (job|test)>(?: (?:2>&1 \| )?(.+))?$")
_SETTINGS: Final = late.compiled(r"[A-Z][A-Z0-9_]*=\S+(?: [A-Z][A-Z0-9_]*=\S+)*")
_LIVE: Final = late.compiled(r"\b(?:py-spy|gdb -p|ss -t[a-z]*p|nc -vz)\b|/proc/(?:<pid>|[0-9$])")
_TEXT_MOST: Final = 500
_EACH: Final = "for d in $(ls /sys/class/infiniband); do {}; done"
_ENDED: Final = frozenset({KILLED, CRASHED, FAILED, TIMED_OUT, ENDED})
_PEER: Final = late.compiled(
    r"(?<![0-9A-Za-z.:_%-])(?P<host>[0-9A-Za-z.:_%-]{1,64})\]?<(?P<port>[0-9]{1,5})>"
    r"|(?<![0-9.])(?P<v4>[0-9]{1,3}(?:\.[0-9]{1,3}){3}):(?P<p4>[0-9]{1,5})(?![0-9])"
)
_OTHER_PID: Final = late.compiled(r"<pid of rank ([0-9]{1,9})>")
# A process that is gone cannot be asked: the next time all on that host are.
_STACK: Final = late.compiled(r"py-spy dump(?P<options>(?: --(?!pid)\S+)*) --pid (?:[0-9]+|<pid>)")
_ON_GPUS: Final = "$(nvidia-smi --query-compute-apps=pid --format=csv,noheader)"
_THERE: Final = late.compiled(
    r"\bon (?:the|each) (?:host|node)s? (?:of (?:this|these) ranks?|named)\b|^on (?:that|these) (?:host|node)s?\b"
)
_NAMED = 3
_RECORD: Final = "<record of the job>"
_COLUMNS: Final = "JobID,State,ExitCode,MaxRSS,Elapsed,Timelimit,NodeList,Reason"


def filled_in(run: Run, drafts: list[Draft]) -> list[Draft]:
    """The drafts with steps that hold no hole."""
    return [replace(d, own_steps=_steps(run, d)) for d in drafts]


def _steps(run: Run, draft: Draft) -> tuple[Step, ...]:
    steps = tuple(_recorded(run, step) for step in draft.steps)
    hosts = draft.hit.hosts or places(run).hosts(draft.hit.ranks)
    if 0 < len(hosts) <= _NAMED:
        there = f"on {', '.join(hosts)}"
        steps = tuple(replace(step, where=_THERE.sub(lambda _: there, step.where, 1)) for step in steps)
    if not any("<" in s.text + s.where or _LIVE.search(s.text) for s in steps):
        return steps
    known = _known(run, draft)
    host = hosts[0] if len(hosts) == 1 else ""
    return tuple(_step(run, part, known, host) for step in steps for part in _parts(step))


def _recorded(run: Run, step: Step) -> Step:
    """A step that asks the scheduler, as its own command; in words where nothing tells which scheduler it is."""
    if _RECORD not in step.text:
        return step
    by = scheduler(run)
    if by.kind == "slurm":
        command = f"sacct {f'-j {by.job}' if by.job else '-S now-1day'} -o {_COLUMNS}"
    elif by.kind == "kubernetes":
        command = f"kubectl describe pod {by.job}" if by.job else "kubectl get events --sort-by=.lastTimestamp"
    else:
        words = "ask the scheduler how the job ended: sacct -j, kubectl describe pod, bhist -l or qstat -xf"
        return replace(step, label="do", text=words)
    return replace(step, text=step.text.replace(_RECORD, command))


def _parts(step: Step) -> list[Step]:
    """A step that runs the job again, apart from the commands beside it."""
    if "<the same " not in step.text:
        return [step]
    parts = step.text.split("; ")
    return [replace(step, text=text, where=step.where if n == 0 else "") for n, text in enumerate(parts)]


def _step(run: Run, step: Step, known: Mapping[str, str], host: str) -> Step:
    text, where = _OTHER_PID.sub(lambda m: str(_pid_of(run, int(m[1])) or "<pid>"), step.text), step.where
    if again := _AGAIN.match(text):
        told = f"then run the same {again[2]}{f' ({again[3]})' if again[3] else ''}{f': {where}' if where else ''}"
        return Step(step.label, f"export {again[1].strip()}", without_holes(told, known))
    if _LIVE.search(text) and step.is_command:
        text, where = _alive(run, text, where, host)
    if step.label == "fix" and _SETTINGS.fullmatch(text):
        text = f"export {text}"
    if "<device>" in text and "device" not in known and step.is_command:
        text = "; ".join(_EACH.format(part) if "<device>" in part else part for part in text.split("; "))
    return replace(step, text=without_holes(text, known), where=without_holes(where, known))


def _alive(run: Run, text: str, where: str, host: str) -> tuple[str, str]:
    """A command on live processes and where to run it: the next time where they are gone."""
    told = re.sub(r"(?:^|,? )while (?:it hangs|the job (?:runs|hangs))(?:[;,] *|(?=:)|$)(?:and )?", "", where)
    stack, when = _STACK.fullmatch(text), "while the job runs"
    at = f"on {host}, " if host and stack and not told.startswith("on ") else ""
    if _ENDED & present(run) or not endings(run).is_empty():
        when = "the next time, while the job still runs"
        each = rf"for p in {_ON_GPUS}; do py-spy dump\g<options> --pid $p; done"
        text = _STACK.sub(each, text) if stack else text.replace("<pid>", HOLES["pid"][1])
    return text, f"{at}{when}{'; ' + told if told else ''}"


def without_holes(text: str, known: Mapping[str, str] | None = None) -> str:
    """The text with the known values, else with commands that find them."""
    known = known or {}
    return _HOLE.sub(lambda m: known.get(m[1], HOLES[m[1]][1]), text)


def _known(run: Run, draft: Draft) -> dict[str, str]:
    """The values of holes that the failure line or the tables give."""
    hit, (input_id, line) = draft.hit, draft.first
    rows = causes(run).filter(pl.col("input_id") == input_id)
    row = next(rows.filter(pl.col("line") == line).head(1).iter_rows(named=True), {})
    logs = [ref.input_id for ref in hit.evidence if ref.line > 0]
    if not logs:  # a finding on traces asks for the log beside them
        logs = run.table("inputs").filter(pl.col("kind").cast(pl.String) == "nccl_log")["input_id"].to_list()
    address, port = _peer(row) or (_peer_beside(rows, row) if row else None) or (None, None)
    values = [
        ("device", hit.devices[0].rpartition("/")[2] if hit.devices else None),
        ("pod", draft.host),
        *((hole, row.get(column)) for hole, (columns, _) in HOLES.items() for column in reversed(columns)),
        ("log", paths_of(run).get(logs[0]) if logs else None),
        ("address", address),
        ("port", port),
        ("peer host", address and places(run).host(address)),
        ("pid", row.get("pid") or (_pid_of(run, hit.ranks[0]) if hit.ranks else None)),
    ]
    return {hole: str(value) for hole, value in values if value not in (None, "")}  # the last that is known


def _peer(row: Mapping[str, Any]) -> tuple[str, str] | None:
    """Address and port that a failure line names."""
    named = _PEER.search(str(row.get("peer") or row.get("text") or "")[:_TEXT_MOST])
    return (named["host"] or named["v4"], named["port"] or named["p4"]) if named else None


def _peer_beside(rows: pl.DataFrame, row: Mapping[str, Any]) -> tuple[str, str] | None:
    """The address of the lines just above that tell of the same: a library names it once for each address family."""
    above = rows.filter(
        pl.col("diagnosis") == row["diagnosis"], pl.col("line").is_between(row["line"] - 4, row["line"])
    )
    return next((peer for other in above.iter_rows(named=True) if (peer := _peer(other))), None)


def _pid_of(run: Run, rank: int) -> int | None:
    """The process of a rank."""
    known = places(run).rank_of_process
    return next((pid for (_, pid), own in known.items() if own == rank), None)
