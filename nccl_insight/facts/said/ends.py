"""How processes and the job ended, as the kernel, launchers, schedulers and Python say it.

The line names a process by number, task, rank or node, which :mod:`nccl_insight.loading.assemble.places` turns into
NCCL's rank and host. The reporter's host is never taken for the dead process's.
"""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import polars as pl

from nccl_insight.base.advice import advised
from nccl_insight.base.data import dataclass, replace
from nccl_insight.base.grouping import grouped
from nccl_insight.base.model import Ref
from nccl_insight.facts.said import host_facts
from nccl_insight.facts.said.clock import ERROR_STAMPS, with_time
from nccl_insight.facts.said.course import Course, course
from nccl_insight.facts.said.ended import endings
from nccl_insight.facts.said.errors import CONSEQUENCE, causes
from nccl_insight.facts.said.last_words import Tail, Word, tails, unwell
from nccl_insight.facts.said.topics import plays, told
from nccl_insight.language.load import parts_of, witnesses
from nccl_insight.language.meanings import Witness
from nccl_insight.loading.assemble.places import Place, Places, places
from nccl_insight.readers.embedded.endings import shell_signal
from nccl_insight.readers.embedded.tags import read_tag
from nccl_insight.tables.normalise.ends import CRASHED as CRASHED
from nccl_insight.tables.normalise.ends import EFFECT, GONE
from nccl_insight.tables.normalise.ends import ENDED as ENDED
from nccl_insight.tables.normalise.ends import FAILED as FAILED
from nccl_insight.tables.normalise.ends import KILLED as KILLED
from nccl_insight.tables.run import Run, fact

KINDS: Final = (KILLED, CRASHED, ENDED, FAILED)

_NOTHING: Final = Witness()
_ABORT: Final = 6
POD: Final = r"\bpods?/([A-Za-z0-9_.-]+)"
"""Of an event, in front of its message."""

# What a shell prints of a command that a signal ended, alone on the last lines or behind a progress bar.
BARE: Final = "bare_word"
# What is said in our own words of the block of torch elastic.
FIRST_FAILURE: Final = "torch elastic: first failure"
# In that block the line of the rank stands so far below its heading.
_NAMES_RANK: Final = 4
# A line that is known by its form alone.
LAST_WORDS: Final = "last_words"
_LAST_LINES: Final = 8


@dataclass(frozen=True)
class End:
    """One line that says how a process, or the job, ended.

    ``memory``: the line says that memory ran out. ``strong``: the line alone proves the kind (an exit code 1 does not
    prove an exception of the program). ``local_rank``: where the line has it and no rank.
    ``order``: place among all lines of the run. ``strange``: hosts that NCCL's lines do not name. ``pid``: of the
    process that ended, as the line numbers it: the kernel's numbers are others than those within a container.
    ``lost``: a launcher or service that lost a process and does not know of what. ``beside``: it is of a container
    beside that of the ranks.
    """

    kind: str
    text: str
    ref: Ref
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    time_s: float | None = None
    memory: bool = False
    strong: bool = True
    signal: int | None = None
    exit_code: int | None = None
    place: str | None = None
    exception: str | None = None
    package: str | None = None
    message: str = ""
    strange: frozenset[str] = frozenset()
    local_rank: int | None = None
    pid: int | None = None
    lost: bool = False
    beside: bool = False

    @property
    def parts(self) -> frozenset[str]:
        """The parts that its message plays (``language/parts.toml``)."""
        return parts_of(self.message)

    @property
    def order(self) -> tuple[int, int]:
        """Reading order."""
        return (self.ref.input_id, self.ref.line)


@fact
def ends(run: Run) -> tuple[End, ...]:
    """All ends in reading order: launchers' and kernel's lines, and Python exceptions of the program itself."""
    known = places(run)
    errors = run.table("errors")
    said = pl.coalesce("end_kind", "diagnosis").alias("kind")
    rows = with_time(run, errors.with_columns(said).filter(pl.col("kind").is_in(list(KINDS))), *ERROR_STAMPS)
    rows = rows.filter(pl.col("exit_code").fill_null(1) != 0)
    if plays(rows, "passing").all():
        rows = pl.concat([rows, _told_to_end(run, errors)])
    # torch elastic names the first failure behind the others.
    named = rows.filter(plays(rows, "first-failure"))["input_id"].unique()
    if named.len():
        rows = rows.filter(~(plays(rows, "later") & rows["input_id"].is_in(named.to_list())))
    sizes = run.table("inputs").select("input_id", pl.col("lines").cast(pl.Int64))
    rows = rows.with_columns(told(rows, "memory-killed").alias("_memory")).join(sizes, on="input_id", how="left")
    pods, agents, beside, job = described(run), _agents(rows, errors), host_facts.sidecars(run), course(run)
    if agents:  # which pass on in their exit code that a rank failed
        rows = rows.filter(pl.col("task_list").is_null() | (pl.col("kind") != FAILED))
    found: list[End] = []
    for row in rows.iter_rows(named=True):
        end = _of_line(row, known, pod_of(row, pods), agents)
        of_container = (
            end is not None and "kubernetes" in end.parts and end.kind != ENDED and row.get("pod_name") is None
        )
        if end is not None and of_container and beside(*end.order):
            end = replace(end, ranks=(), beside=True) if end.kind == KILLED else None
        if end is not None and end.kind == FAILED and end.exit_code and job.went_on([end.ref], end.time_s):
            # Of an earlier step of a batch script: the ranks that went on are others.
            end = replace(end, ranks=(), local_rank=None)
        found += _given(end)
    traces = with_time(run, run.table("tracebacks"), "timestamp", "tag")
    traces = traces.with_columns(told(traces, "exception-kind").alias("_kind"))
    found += [e for row in traces.iter_rows(named=True) if (e := _of_exception(row)) is not None]
    found = _not_survived(found, job)
    found += _bare(run)
    found += _interrupted(run, found)
    found += _last_words(run, known, found)
    found = joined(sorted(found, key=lambda e: e.order))
    return tuple(_where_peers_lost_it(run, known, found))


T = TypeVar("T")


def _given(value: T | None) -> tuple[T, ...]:
    return () if value is None else (value,)


def _told_to_end(run: Run, errors: pl.DataFrame) -> pl.DataFrame:
    """Processes that SIGTERM ended, where nothing else says why the job ended: whoever sent it ended the job."""
    lowered = pl.coalesce("task_end", "end_reason", "signal_text").cast(pl.String).str.to_lowercase()
    told = (pl.col("signal") == 15) | lowered.str.contains("terminated").fill_null(False)
    rows = errors.filter((pl.col("end_kind").cast(pl.String) == EFFECT) & told.fill_null(False))
    return with_time(run, rows.with_columns(kind=pl.lit(ENDED)), *ERROR_STAMPS)


# Witnesses of one death speak within this time: a launcher polls its processes, a scheduler its nodes.
_ONE_DEATH_S: Final = 60.0


def joined(found: Sequence[End]) -> list[End]:
    """The ends, each with rank and host of the process as far as any other witness of the same death knows them.

    Witnesses of one death name one process number; or one of them names the node alone, or not even that (the kernel's
    log of a node, in which the processes of a container have other numbers), and the rest one process that a signal
    ended, or that is gone for no stated reason, there and at that time.
    """
    by_pid = grouped((end.pid, end) for end in found if end.ranks and end.pid is not None and end.pid > 1)
    silent = (e for e in found if e.kind == KILLED or e.exit_code in (137, -9) or e.lost)
    gone = [e for e in silent if e.ranks and e.exception is None]
    return [end if end.ranks or end.beside else _as_told(end, by_pid, gone) for end in found]


def _as_told(end: End, by_pid: Mapping[int, Sequence[End]], gone: Sequence[End]) -> End:
    told_by = [e for e in by_pid.get(end.pid or 0, ()) if _one_death(end, e)]
    if not told_by and end.exception is None and end.kind == KILLED and (end.memory or end.signal == 9):
        told_by = [e for e in gone if _one_death(end, e)]
    if len({(e.ranks, e.hosts) for e in told_by}) != 1 or len(told_by[0].ranks) != 1:
        return end
    return replace(end, ranks=told_by[0].ranks, hosts=told_by[0].hosts, strange=told_by[0].strange)


def _one_death(one: End, other: End) -> bool:
    if one.hosts and other.hosts and set(one.hosts).isdisjoint(other.hosts):
        return False
    return one.time_s is None or other.time_s is None or abs(one.time_s - other.time_s) <= _ONE_DEATH_S


def _where_peers_lost_it(run: Run, known: Places, found: list[End]) -> list[End]:
    """A process that died without a name (the kernel's log of a node, in which pods have other numbers) is on the host
    to which all others lost their connections, if that is one, and none of its processes lost one."""
    if not found or any(e.hosts or e.ranks for e in found) or len(known.machines) < 2:
        return found
    closed = causes(run).filter(pl.col("cause") == GONE)
    hosts = known.hosts_at(closed)
    if len(hosts) != 1 or not hosts <= known.machines or hosts & set(closed["host"].drop_nulls()):
        return found
    return [replace(e, hosts=tuple(hosts)) if e.kind in (KILLED, CRASHED) else e for e in found]


def _not_survived(found: list[End], job: Course) -> list[End]:
    """Without exceptions behind which their input counts steps for long, where something else ended a process later."""
    past = {e.ref for e in found if e.exception and job.counted_on(e.ref.input_id, e.ref.line, None)}
    last = {input_id: line for input_id, (line, _) in job.steps.items()}
    fatal = any(
        e.ref.line > last.get(e.ref.input_id, 0) and (e.exception or (e.strong and e.kind in (KILLED, CRASHED)))
        for e in found
    )
    return [e for e in found if not e.exception or e.ref not in past] if past and fatal else found


def _bare(run: Run) -> list[End]:
    """Ends of commands as the shell says them, without a number: the last lines of inputs only."""
    # A program that closed all its communicators ended well; what a script ends behind it is none of the job.
    orderly = (pl.col("end").cast(pl.String) == "destroyed").all()
    closed = run.table("milestones").group_by("input_id").agg(orderly=orderly).filter("orderly")["input_id"].to_list()
    last = (pl.col("line") > pl.col("lines") - _LAST_LINES) & ~pl.col("input_id").is_in(closed)
    rows = [(row, shell_signal(str(row["text"]))) for row in endings(run).filter(last).iter_rows(named=True)]
    # Where the script goes on, it has itself ended what it calls terminated.
    return [
        End(
            kind=kind_of_signal(ended[1]),
            text=ended[0],
            ref=Ref(row["input_id"], row["line"]),
            ranks=_given(row["rank"]),
            hosts=_given(row["host"]),
            strong=False,
            signal=ended[1],
            message=BARE,
        )
        for row, ended in rows
        if ended is not None and (ended[1] != 15 or row["line"] >= row["lines"])
    ]


# What a terminal shows of Ctrl-C.
_TYPED: Final = "^C"


def _interrupted(run: Run, found: Sequence[End]) -> list[End]:
    """That somebody pressed Ctrl-C, as the terminal or Python shows it, where no launcher says so."""
    rows = endings(run)
    if rows.is_empty() or any(e.kind == ENDED for e in found):
        return []
    typed = pl.col("text").str.starts_with(_TYPED)
    rows = with_time(run, rows.filter(typed | told(rows, "interrupted").is_not_null()).head(1), "text")
    return [
        End(
            kind=ENDED,
            text=str(text)[:200],
            ref=Ref(int(input_id), int(line)),
            hosts=_given(host),
            time_s=time_s,
            strong=False,
            signal=2,
            message="interrupted",
        )
        for input_id, line, text, time_s, host in rows.select("input_id", "line", "text", "time_s", "host").iter_rows()
    ]


def _last_words(run: Run, known: Places, found: Sequence[End]) -> list[End]:
    """What the last lines say by their form, where no line that is known tells why the job ended."""
    tails_ = [t for t in tails(run) if t.failures]
    if not tails_ or any(e.kind != FAILED or e.exception for e in found):
        return []
    # Lines that only pass a failure on do not tell how a process ended; its signal does.
    rows = unwell(run)["cause", "message"].iter_rows()
    # Nor do effects that the kernel tells: they are of no process.
    said = {c for c, m in rows if c != CONSEQUENCE or witnesses().get(m, _NOTHING).speaker != "kernel"}
    # Nor does a launcher's exit code: the exception does that the program raised.
    if said - {CONSEQUENCE, *(FAILED for _ in found)}:
        return []
    words = (_telling(tail, bool(found), bool(said)) for tail in tails_)
    return [_as_end(word, known.placed(read_tag(word.text), word.input_id)) for word in words if word is not None]


def _telling(tail: Tail, ended: bool, reported: bool) -> Word | None:
    """The one of the last lines that tells most, where others tell of an end, or report something, already: of
    exceptions that came of each other one that says what to do; of words the signal behind them."""
    words = [w for w in tail.failures if w.ended or (w.exception if ended else not reported)]
    if not words:
        return None
    word = next((w for w in words if w.exception and advised(w.text)), words[0])
    return word if word.exception else next((w for w in words if w.ended), word)


def _as_end(word: Word, place: Place) -> End:
    return End(
        kind=kind_of_signal(word.ended) if word.ended else FAILED,
        text=word.text[max(word.text.find(word.exception or ""), 0) :][:200],
        ref=Ref(word.input_id, word.line),
        ranks=_given(place.rank),
        hosts=_given(place.host),
        strong=False,
        signal=word.ended,
        exit_code=word.code,
        exception=word.exception,
        message=LAST_WORDS,
    )


def kind_of_signal(signal: int) -> str:
    """How a process ended that a signal ended."""
    return KILLED if signal == 9 else ENDED if signal in (1, 2, 15) else CRASHED


@fact
def described(run: Run) -> dict[int, list[tuple[int, str]]]:
    """The names of pods by input and line, as descriptions of them begin; a name without namespace is a container's."""
    own = pl.col("pod_namespace").is_not_null()
    rows = run.table("pods").filter(own | ~own.any().over("input_id"))
    rows = rows.select("input_id", "line", "pod_name").drop_nulls().sort("input_id", "line")
    return grouped((int(i), (int(line), str(name))) for i, line, name in rows.iter_rows())


def pod_of(row: Mapping[str, Any], pods: Mapping[int, Sequence[tuple[int, str]]]) -> str | None:
    """The pod or container that a line of Kubernetes or Docker Compose is about."""
    object_ = str(row.get("component") or "")
    before = re.search(POD, str(row.get("launcher") or ""))
    if before is not None:
        return before[1]
    named = row.get("pod_name") or (object_ if object_.startswith("pod/") else None)
    if named is None and "kubernetes" in parts_of(str(row["message"])):
        named_at = pods.get(int(row["input_id"]), ())
        above = bisect_left(named_at, int(row["line"]), key=lambda pod: pod[0])
        named = named_at[above - 1][1] if above else None
    named = named or row.get("container_name")
    return str(named) if named is not None else None


def _agents(rows: pl.DataFrame, errors: pl.DataFrame) -> bool:
    """Whether a scheduler's tasks are agents of a launcher: these name the ranks that they started, or came not up."""
    if plays(errors, "daemon").any():
        return True
    named = rows.filter(pl.col("rank").is_not_null())["message"].drop_nulls().unique()
    return any((said := witnesses().get(m, _NOTHING)).speaker == "agent" and said.names == "rank" for m in named)


def _of_line(row: Mapping[str, Any], known: Places, pod: str | None, agents: bool) -> End | None:
    message = str(row["message"] or "")
    parts = parts_of(message)
    strange = "any-program" in parts and known.names and str(row.get("container_name")) not in known.names
    if strange and row["line"] <= (row["lines"] or 0) - _LAST_LINES:
        return None  # a wording that any program may use
    said = witnesses().get(message, _NOTHING)
    ranks, hosts = known.whom(row, pod, tasks=not agents)
    code, signal = row.get("exit_code"), row.get("signal")
    text = " ".join(str(row["text"] or "").split())
    kind = str(row["kind"])
    return End(
        kind=kind,
        text=_words(row, text),
        ref=Ref(int(row["input_id"]), int(row["line"]) + (_NAMES_RANK if "first-failure" in parts else 0)),
        ranks=tuple(sorted(ranks)),
        hosts=tuple(sorted(hosts)),
        time_s=row["time_s"],
        memory=said.end == "memory" or row["_memory"] is not None or "OOM" in str(row.get("k8s_reason") or ""),
        strong=(kind not in (FAILED, ENDED) and (signal != _ABORT or "bad_alloc" in text)) or _reason(row, said),
        signal=signal,
        exit_code=code,
        message=message,
        strange=frozenset(hosts - known.machines),
        local_rank=row.get("local_rank") if "local-rank" in parts else None,
        # What the program says of itself stands for the exception that it raises.
        exception=message if kind == FAILED and said.speaker == "process" and said.end == "reason" else None,
        pid=row.get("killed_pid"),
        lost=said.end == "lost",
    )


def _reason(row: Mapping[str, Any], said: Witness) -> bool:
    """Whether a scheduler's line says why: a time limit, preemption, a lost node."""
    return bool(row.get("end_reason") or row.get("lsf_reason")) or said.end == "reason"


def _words(row: Mapping[str, Any], text: str) -> str:
    """The line in a few words; the block of torch elastic is put into one."""
    if "first-failure" in parts_of(str(row["message"])):
        code = row.get("exit_code")
        why = str(row.get("error_text") or "")
        shown = "" if why.startswith("To enable traceback") else f", {why}"
        return f"{FIRST_FAILURE} was rank {row.get('rank')} with exit code {code}{shown}"
    if row.get("component") and row.get("error_text"):
        return str(row["error_text"])[:200]
    if row.get("cpp_exception"):
        return f"{text[:200]} what(): {row['error_text']}" if row.get("error_text") else text[:200]
    return text[:200]


def _of_exception(row: Mapping[str, Any]) -> End | None:
    name, text = str(row["exception"]), str(row["text"] or "")
    if row["chained"] or (not row["traceback"] and not str(row["tag"]) and "." not in name):
        return None
    if row["_kind"] == "echo":
        return None  # it only passes on what NCCL, the process group or the launcher met elsewhere
    memory = row["_kind"] == "out-of-memory"
    worker = row["_kind"] == "worker-killed"
    return End(
        kind=KILLED if memory or worker else FAILED,
        text=f"{name}: {text}"[:400] if text else name,
        ref=Ref(int(row["input_id"]), int(row["line"])),
        ranks=_given(row["rank"]),
        hosts=_given(row["host"]),
        time_s=row["time_s"],
        memory=memory,
        strong=True,
        local_rank=row["local_rank"],
        place=row["place"],
        exception=name,
        package=row["package"],
        message="cuda" if row["_kind"] == "cuda" else "worker" if worker else "exception",
        pid=row["pid"],
    )
