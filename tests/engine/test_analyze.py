# ruff: noqa: E501
"""The engine: isolation of rules, evidence, order, cause and consequence, status, and a log with many faults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import nccl_insight
from nccl_insight.base.model import Action, Analysis, CannotJudge, Confidence, FindingClass, Hit, Ref, Role, Severity
from nccl_insight.base.pages import Page
from nccl_insight.engine.analyze import analyze
from nccl_insight.engine.policy import Ignore, Policy
from nccl_insight.rules import Check, Rule
from nccl_insight.rules.context import Context
from nccl_insight.tables.run import Run, build_run


def rule(name: str, check: Check, kind: str = "F", caused_by: tuple[str, ...] = (), code: str = "NI999") -> Rule:
    return Rule(
        Page(Path(), code, name, {}, ""), finding_class=FindingClass(kind), severity=Severity.ERROR,
        confidence=Confidence.HIGH, action=Action.TRIAGE, needs=(), logic=check, caused_by=caused_by,
    )  # fmt: skip


def yields(*results: Hit | CannotJudge) -> Check:
    def check(ctx: Context) -> Iterator[Hit | CannotJudge]:
        yield from results

    return check


def hit(title: str = "t", line: int = 1, **more: object) -> Hit:
    return replace(Hit(title=title, next_step="do", evidence=(Ref(0, line, f"line {line}"),)), **more)  # type: ignore[arg-type]


class Lines:
    """A reader over a list of lines."""

    def __init__(self, *lines: str) -> None:
        self.lines_of = lines

    def lines(self, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], str]:
        return {(i, n): self.lines_of[n - 1] for i, n in wanted if 0 < n <= len(self.lines_of)}


def run_of(errors: list[dict[str, object]] | None = None, reader: Lines | None = None) -> Run:
    inputs = pl.DataFrame({"input_id": [0], "path": ["run.log"], "kind": ["nccl_log"], "lines": [9], "nccl_lines": [9]})
    tables = {"inputs": inputs}
    if errors:
        tables["errors"] = pl.DataFrame(errors)
    return build_run(tables, reader)


def names(analysis: Analysis) -> list[tuple[str, str, str, str | None]]:
    return [(f.name, f.severity.value, f.role.value, f.caused_by) for f in analysis.findings]


def test_a_failing_rule_costs_only_its_own_verdict() -> None:
    def broken(run: Run) -> Iterator[Hit | CannotJudge]:
        raise KeyError("no such column")
        yield

    analysis = analyze(run_of(), rules=[rule("bad", broken), rule("good", yields(hit()))])
    assert [f.name for f in analysis.findings] == ["good"]
    assert analysis.not_judged[0].name == "bad"
    assert "KeyError" in analysis.notes[0]


def test_missing_tables_and_reasons_not_to_decide_are_said() -> None:
    needs_calls = replace(rule("calls", yields(hit())), needs=("calls",))
    silent = rule("silent", yields(CannotJudge("too little", "record more")))
    analysis = analyze(run_of(), rules=[needs_calls, silent])
    assert analysis.findings == ()
    said = {n.name: (n.reason, n.how_to_enable) for n in analysis.not_judged}
    assert said["silent"] == ("too little", "record more")
    assert "calls" in said["calls"][0]
    assert "COLL" in said["calls"][1]


def test_a_log_without_trouble_is_knowledge_about_errors() -> None:
    needs_errors = replace(rule("quiet", yields()), needs=("errors",))
    assert analyze(run_of(), rules=[needs_errors]).not_judged == ()
    trace_only = build_run({"collectives": pl.DataFrame({"rank": [0], "group_size": [4]})})
    assert analyze(trace_only, rules=[needs_errors]).not_judged[0].name == "quiet"


def test_evidence_is_read_back_and_the_first_is_primary() -> None:
    shown = Hit(title="t", next_step="do", evidence=(Ref(0, 2), Ref(0, 1), Ref(0, 2)))
    analysis = analyze(run_of(reader=Lines("first", "second")), rules=[rule("x", yields(shown))])
    evidence = analysis.findings[0].evidence
    assert [(e.input, e.line, e.text, e.primary) for e in evidence] == [
        ("run.log", 2, "second", True),
        ("run.log", 1, "first", False),
    ]


def test_absence_is_evidence() -> None:
    shown = Hit(title="t", next_step="do", absence="no Init COMPLETE of rank 3")
    evidence = analyze(run_of(), rules=[rule("x", yields(shown))]).findings[0].evidence
    assert (evidence[0].line, evidence[0].text, evidence[0].primary) == (0, "no Init COMPLETE of rank 3", True)


def test_order_is_severity_then_root_then_confidence_then_line() -> None:
    analysis = analyze(
        run_of(),
        rules=[
            rule("info", yields(hit(severity=Severity.INFO))),
            rule("late", yields(hit(line=8))),
            rule("unsure", yields(hit(line=1, confidence=Confidence.LOW))),
            rule("early", yields(hit(line=3))),
        ],
    )
    assert [f.name for f in analysis.findings] == ["early", "late", "unsure", "info"]


def test_consequences_come_after_their_root_and_are_lowered() -> None:
    analysis = analyze(
        run_of(),
        rules=[
            rule("echo", yields(hit(line=1)), kind="S"),
            rule("symptom", yields(hit(line=2)), caused_by=("root",)),
            rule("root", yields(hit(line=5))),
        ],
    )
    assert names(analysis) == [
        ("root", "error", "root", None),
        ("symptom", "warning", "cascade", "root"),
        ("echo", "info", "cascade", "root"),
    ]


def test_a_lone_consequence_keeps_its_severity() -> None:
    analysis = analyze(run_of(), rules=[rule("echo", yields(hit()), kind="S")])
    assert names(analysis) == [("echo", "error", "independent", None)]


def test_circles_of_causes_are_broken() -> None:
    rules = [
        rule("a", yields(hit(line=1)), caused_by=("b",)),
        rule("b", yields(hit(line=2)), caused_by=("c",)),
        rule("c", yields(hit(line=3)), caused_by=("a",)),
    ]
    analysis = analyze(run_of(), rules=rules)
    assert sorted(f.role.value for f in analysis.findings) == ["cascade", "cascade", "root"]
    by_name = {f.name: f.caused_by for f in analysis.findings}
    for start in by_name:
        seen, at = [], start
        while by_name[at] is not None and len(seen) < 5:
            seen.append(at)
            at = str(by_name[at])
        assert len(seen) < 3


def test_an_effect_that_came_first_in_its_process_is_not_explained() -> None:
    def lines(oom: int, refused: int) -> Analysis:
        errors: list[dict[str, object]] = [
            {"input_id": 0, "line": oom, "host": "a", "pid": 1, "level": "WARN", "text": "Cuda failure 'out of memory'",
             "diagnosis": "cuda-oom-init", "role": "root"},
            {"input_id": 0, "line": refused, "host": "a", "pid": 1, "level": "WARN",
             "text": "socketStartConnect: Connect to 10.0.0.1<1> failed : Connection refused",
             "diagnosis": "bootstrap-connect-refused", "role": "root"},
        ]  # fmt: skip
        return analyze(run_of(sorted(errors, key=lambda e: int(str(e["line"])))))

    after = {f.name: f for f in lines(oom=2, refused=5).findings}
    assert after["bootstrap-connect-refused"].caused_by == "cuda-oom-init"
    before = {f.name: f for f in lines(oom=5, refused=2).findings}
    assert before["bootstrap-connect-refused"].caused_by is None


def test_fingerprints_do_not_depend_on_hosts_lines_or_texts() -> None:
    def marks(host: str, line: int) -> list[str]:
        found = analyze(run_of(), rules=[rule("x", yields(hit(title=host, line=line, hosts=(host,), ranks=(3, 1))))])
        return [f.fingerprint for f in found.findings]

    assert marks("gpu01", 3) == marks("node9", 77)
    two = analyze(run_of(), rules=[rule("x", yields(hit(line=1), hit(line=2)))])
    assert len({f.fingerprint for f in two.findings}) == 2


def test_anchors_are_unique() -> None:
    analysis = analyze(run_of(), rules=[rule("x", yields(hit(line=1), hit(line=2)), code="NI998")])
    assert [f.anchor for f in analysis.findings] == ["NI998-1", "NI998-2"]


def test_policy_silences_visibly_and_changes_severity() -> None:
    rules = [rule("x", yields(hit())), rule("y", yields(hit()))]
    policy = Policy(ignore=(Ignore("x", "known"),), severity={"y": Severity.WARNING}, select=frozenset({"x", "y"}))
    analysis = analyze(run_of(), policy, rules)
    assert names(analysis) == [("y", "warning", "independent", None)]
    assert [(s.finding.name, s.reason) for s in analysis.suppressed] == [("x", "known")]
    only = analyze(run_of(), Policy(select=frozenset({"y"})), rules)
    assert [f.name for f in only.findings] == ["y"]
    assert "1 rule not selected" in only.notes[0]


@pytest.mark.parametrize(
    ("severity", "status"),
    [(Severity.ERROR, "findings"), (Severity.WARNING, "findings"), (Severity.INFO, "inconclusive")],
)
def test_status(severity: Severity, status: str) -> None:
    assert analyze(run_of(), rules=[rule("x", yields(hit(severity=severity)))]).status == status


def test_nothing_to_judge() -> None:
    empty = pl.DataFrame({"input_id": [0], "path": ["x"], "kind": ["unknown"], "lines": [3], "nccl_lines": [0]})
    analysis = analyze(build_run({"inputs": empty}), rules=[rule("x", yields(hit()))])
    assert analysis.status == "not_judged"
    assert analysis.findings == ()
    assert analyze(run_of(), Policy(min_coverage=0.5), rules=[]).status == "not_judged"


@pytest.mark.parametrize(("groups", "expected"), [(3, (6, 3)), (1, (2, 1))])
def test_groups_side_by_side_are_counted_together(groups: int, expected: tuple[int, int]) -> None:
    """Two GPUs of a host make a communicator; a second one of the same GPUs adds none."""
    rows = [
        (f"c{n}{again}", f"h{n}", 10 * n + r, r, 2, f"{r + 1}b000")
        for n in range(groups)
        for again in ("a", "b")
        for r in range(2)
    ]
    ranks = pl.DataFrame(rows, schema=["comm_id", "host", "pid", "rank", "nranks", "bus_id"], orient="row")
    comms = pl.DataFrame({"comm_id": sorted({r[0] for r in rows}), "nranks": 2, "n_nodes": 1})
    job = analyze(build_run({"ranks": ranks, "communicators": comms}), rules=[]).job
    assert (job.nranks, job.n_nodes) == expected


def test_job_is_the_largest_communicator() -> None:
    ranks = pl.DataFrame(
        {
            "comm_id": ["a", "a", "b"],
            "host": ["h10", "h9", "h9"],
            "pid": [1, 2, 2],
            "rank": [0, 1, 0],
            "nranks": [2, 2, 1],
            "bus_id": ["1b000", "1b000", "1b000"],
        }
    )
    comms = pl.DataFrame({"comm_id": ["a", "b"], "nranks": [2, 1], "n_nodes": [2, 1]})
    processes = pl.DataFrame(
        {"host": ["h10", "h9"], "pid": [1, 2], "nccl_version": ["2.21.5", None], "network": ["IB", "IB"]}
    )
    job = analyze(build_run({"ranks": ranks, "communicators": comms, "processes": processes}), rules=[]).job
    assert (job.nranks, job.n_nodes, job.gpus, job.communicators) == (2, 2, 2, 2)
    assert job.hosts == ("h9", "h10")
    assert (job.nccl_versions, job.networks) == (("2.21.5",), ("IB",))


# --- one log with many faults -----------------------------------------------------------------------------

_COMM = "0x8a1f5f0c3d2e1b00"


def _rank_lines(rank: int, calls: int) -> list[str]:
    head = f"gpu{rank // 2:02d}:{4000 + rank}:{4100 + rank} [{rank % 2}] NCCL INFO"
    start = f"comm 0x55d0a{rank} rank {rank} nranks 4 cudaDev {rank % 2} nvmlDev {rank % 2} busId {rank + 1}b000 commId {_COMM}"
    lines = [f"{head} NCCL version 2.27.7+cuda12.8"] if rank == 0 else []
    lines += [f"{head} Using network IB", f"{head} ncclCommInitRank {start} - Init START"]
    lines += [f"{head} ncclCommInitRank {start} - Init COMPLETE"]
    lines += [
        f"{head} AllReduce: opCount {n} sendbuff 0x7f9e32a00000 recvbuff 0x7f9d32800000 count 1024 datatype 7 op 0 "
        f"root 0 comm 0x55d0a{rank} [nranks=4] stream 0x564134211800"
        for n in range(calls)
    ]
    return lines


def _planted() -> list[str]:
    lines = [line for rank in range(4) for line in _rank_lines(rank, 50 if rank == 3 else 60)]
    warn = "gpu{0:02d}:{1}:{2} [{3}] {4} NCCL WARN {5}"

    def add(rank: int, source: str, text: str) -> None:
        lines.append(warn.format(rank // 2, 4000 + rank, 4100 + rank, rank % 2, source, text))

    add(
        0,
        "transport/net_ib.cc:1295",
        "NET/IB : Got completion from peer 10.4.0.2<33092> with error 12, opcode 0, len 0, vendor err 129 (Recv)",
    )
    add(
        1,
        "transport/net_ib.cc:1615",
        "NET/IB : Got completion from peer 10.4.0.2<54862> with status=5 opcode=0 len=0 vendor err 249 (Recv) localGid "
        "fe80::1 remoteGidsfe80::2",
    )
    add(1, "misc/socket.cc:480", "socketStartConnect: Connect to 10.4.0.9<38847> failed : Connection refused")
    add(
        2,
        "misc/shmutils.cc:129",
        "Error while creating shared memory segment /dev/shm/nccl-0FkcAx (size 9637888), error: No space left on device (28)",
    )
    add(2, "misc/socket.cc:49", "socketProgress: Connection closed by remote peer gpu00<51159>")
    lines.append(
        "[rank0]:[E504 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=51, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600060 milliseconds "
        "before timing out."
    )
    return lines


PLANTED = {
    "ib-completion-retry-exceeded", "ib-completion-flush", "bootstrap-connect-refused", "shm-too-small", "peer-died",
    "watchdog-timeout", "collective-not-reached",
}  # fmt: skip


def _analyse(lines: list[str], folder: Path, name: str = "run.log") -> Analysis:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return nccl_insight.analyze([path])


def test_all_planted_faults_are_found_and_ordered(tmp_path: Path) -> None:
    analysis = _analyse(_planted(), tmp_path)
    found = {f.name: f for f in analysis.findings}
    assert set(found) >= PLANTED
    assert found["collective-not-reached"].ranks == (3,)
    assert "50" in found["collective-not-reached"].title
    first = analysis.findings[0]
    assert (first.severity, first.role) == (Severity.ERROR, Role.ROOT)
    for name in ("peer-died", "ib-completion-flush"):
        assert found[name].severity is Severity.INFO
        assert found[name].caused_by in PLANTED
    assert found["watchdog-timeout"].role is Role.CASCADE


def test_retelling_changes_no_finding(tmp_path: Path) -> None:
    lines = _planted()
    expected = sorted(
        (f.name, f.severity, f.ranks, f.role, f.caused_by, f.fingerprint) for f in _analyse(lines, tmp_path).findings
    )

    def told(retold: list[str], name: str) -> list[object]:
        found = _analyse(retold, tmp_path, name).findings
        return sorted((f.name, f.severity, f.ranks, f.role, f.caused_by, f.fingerprint) for f in found)

    assert told([f"[1,{n % 4}]<stdout>:{line}" for n, line in enumerate(lines)], "tagged.log") == expected
    assert told([line.replace("gpu0", "worker-a") for line in lines], "renamed.log") == expected
    by_process = sorted(lines, key=lambda line: line.split(" ", 1)[0][::-1])
    assert told(by_process, "shuffled.log") == expected
