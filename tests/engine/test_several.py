"""Several jobs and several attempts in the inputs: told apart, listed, judged apart."""

from __future__ import annotations

import re
from pathlib import Path

import nccl_insight
from nccl_insight.base.model import Analysis, NotJudged
from nccl_insight.engine.several import merged_status, part_label, unjudged
from nccl_insight.facts.who.parts import Part, parts

RESTART = (
    "[2026-01-02 03:04:05,123] torch.distributed.elastic.agent.server.api: [INFO] "
    "[default] Worker group FAILED. 3/3 attempts left; will restart worker group"
)
SHM_FULL = (
    "misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-Ab12Cd to 9637892 bytes, "
    "error: No space left on device (28)"
)


def world(
    comm: str, *, pids: int = 100, n: int = 2, host: str = "node1", done: bool = True, closed: bool = True,
    first_gpu: int = 0, version: str = "2.27.7", ranks: range | None = None,
) -> list[str]:  # fmt: skip
    """The lines of one communicator of ``n`` ranks."""
    shown = range(n) if ranks is None else ranks
    head = {r: f"{host}:{pids + r}:{pids + r} [{r}] " for r in shown}
    at = {
        r: f"comm 0x{pids + r:x} rank {r} nranks {n} cudaDev {r} nvmlDev {r} busId {first_gpu + r + 1}b000"
        for r in shown
    }
    lines = [f"{head[r]}NCCL INFO NCCL version {version}+cuda12.8" for r in shown if r == 0]
    lines += [f"{head[r]}NCCL INFO ncclCommInitRank {at[r]} commId {comm} - Init START" for r in shown]
    if done:
        lines += [f"{head[r]}NCCL INFO ncclCommInitRank {at[r]} commId {comm} - Init COMPLETE" for r in shown]
    if closed:
        lines += [f"{head[r]}NCCL INFO {re.sub('nvmlDev [0-9] ', '', at[r])} - Destroy COMPLETE" for r in shown]
    return lines


def failed(comm: str, **more: int) -> list[str]:
    pid = more.get("pids", 100)
    return [*world(comm, closed=False, **more), f"node1:{pid}:{pid} [0] {SHM_FULL}"]  # type: ignore[arg-type]


def judge(tmp_path: Path, **files: list[str]) -> Analysis:
    paths = []
    for name, lines in files.items():
        path = tmp_path / f"{name}.log"
        path.write_text("\n".join(lines) + "\n")
        paths.append(path)
    return nccl_insight.analyze(paths)


def test_replicas_of_one_rank_are_not_several_jobs(tmp_path: Path) -> None:
    """What should be one job and is many is the check separate-jobs."""
    lines = [line for k in range(3) for line in world(f"0x{k}", pids=100 + 10 * k, n=1)]
    assert judge(tmp_path, a=lines).jobs == ()


def named(analysis: Analysis) -> dict[str, str]:
    return {f.name: f.severity.value for f in analysis.findings}


def test_one_job_has_no_parts(tmp_path: Path) -> None:
    analysis = judge(tmp_path, a=world("0xa"))
    assert (analysis.jobs, analysis.status) == ((), "ok")
    assert not {"several-jobs", "several-attempts"} & set(named(analysis))


def test_the_last_attempt_is_judged(tmp_path: Path) -> None:
    analysis = judge(tmp_path, a=[*failed("0xa"), *world("0xb", pids=300)])
    assert analysis.status == "ok"
    assert named(analysis) == {"several-attempts": "info"}
    assert [(j.label, j.judged) for j in analysis.jobs] == [("attempt 1 of 2", False), ("attempt 2 of 2", True)]
    assert "/dev/shm is too small on node1" in analysis.jobs[0].reached
    assert [e.line for e in analysis.findings[0].evidence] == [8, 2]


def test_a_failure_of_the_last_attempt_is_a_finding(tmp_path: Path) -> None:
    analysis = judge(tmp_path, a=[*failed("0xa"), *failed("0xb", pids=300)])
    assert analysis.status == "findings"
    found = [f for f in analysis.findings if f.name == "shm-too-small"]
    assert [e.line for f in found for e in f.evidence] == [12]


def test_the_launcher_says_that_it_starts_again(tmp_path: Path) -> None:
    """The ranks were killed without a word: only torchrun's line tells."""
    first = world("0xa", closed=False)
    analysis = judge(tmp_path, a=[*first, RESTART, *world("0xb", pids=300, host="node2")])
    assert [j.label for j in analysis.jobs] == ["attempt 1 of 2", "attempt 2 of 2"]
    assert analysis.status == "ok"


def test_a_requeued_job_is_another_attempt(tmp_path: Path) -> None:
    line = "slurmstepd: error: *** JOB 4711 ON node1 CANCELLED AT 2026-01-02T03:04:05 DUE TO JOB REQUEUE ***"
    analysis = judge(tmp_path, a=[*world("0xa", closed=False), line, *world("0xb", pids=300, host="node7")])
    assert [j.judged for j in analysis.jobs] == [False, True]
    assert "REQUEUE" in analysis.jobs[0].reached
    assert analysis.status == "ok"


STEP = (
    "[2026-01-02 03:{:02d}:00] iteration {:8d}/     100 | elapsed time per iteration (ms): 60000.0 | lm loss: 2.1E+00 |"
)
STEPS = [STEP.format(20 + n, n) for n in range(30)]


def test_an_attempt_may_have_no_line_of_nccl(tmp_path: Path) -> None:
    analysis = judge(tmp_path, a=[*failed("0x1"), RESTART, *STEPS, "Training completed."])
    assert named(analysis)["several-attempts"] == "info"
    assert "shm-too-small" not in named(analysis)


def test_a_job_that_counts_on_behind_the_schedulers_word_was_started_again(tmp_path: Path) -> None:
    word = "slurmstepd: error: *** JOB 7 ON node1 CANCELLED AT 2026-01-02T03:04:05 DUE TO PREEMPTION ***"
    again = [*world("0x2", pids=200, closed=False), *STEPS]
    for files in ({"a": [*failed("0x1"), word, *again]}, {"a": [*failed("0x1"), *again], "slurm": [word]}):
        assert "shm-too-small" not in named(judge(tmp_path, **files, b=["# notes"]))
    assert "shm-too-small" in named(judge(tmp_path, a=[*failed("0x1"), word], slurm=["# notes"], b=["# notes"]))


def test_a_container_gives_the_same_process_numbers_again(tmp_path: Path) -> None:
    analysis = judge(tmp_path, a=[*failed("0xa"), *world("0xb")])
    assert [j.label for j in analysis.jobs] == ["attempt 1 of 2", "attempt 2 of 2"]
    assert analysis.status == "ok"
    assert analysis.job.nccl_versions == ("2.27.7",)


def test_what_ended_well_is_a_job_of_its_own(tmp_path: Path) -> None:
    analysis = judge(tmp_path, a=[*world("0xa"), *failed("0xb", pids=300)])
    assert [j.label for j in analysis.jobs] == ["job 1", "job 2"]
    assert all(j.judged for j in analysis.jobs)
    assert named(analysis) == {"several-jobs": "info", "shm-too-small": "error"}


def test_a_failure_of_any_job_counts(tmp_path: Path) -> None:
    analysis = judge(tmp_path, a=failed("0xa"), b=world("0xb", pids=300, n=4))
    assert named(analysis) == {"several-jobs": "info", "shm-too-small": "error"}
    assert [(j.label, j.nranks) for j in analysis.jobs] == [("job 1", 2), ("job 2", 4)]
    assert [Path(j.inputs[0]).name for j in analysis.jobs] == ["a.log", "b.log"]


def test_jobs_of_different_releases_are_no_mix_of_versions(tmp_path: Path) -> None:
    analysis = judge(tmp_path, a=world("0xa"), b=world("0xb", pids=300, host="node2", version="2.21.5", first_gpu=4))
    assert named(analysis) == {"several-jobs": "info"}


def test_ranks_that_complete_each_other_are_one_job_of_two_releases(tmp_path: Path) -> None:
    """Different releases hash the unique id differently; both ranks wait for each other."""
    analysis = judge(
        tmp_path,
        a=[
            *world("0xa", done=False, closed=False, ranks=range(1)),
            "node1:100:100 [0] misc/socket.cc:71 NCCL WARN socketProgress: Connection closed by remote peer "
            "node2<35434>",
        ],
        b=[
            "node2:301:301 [1] NCCL INFO NCCL version 2.23.4+cuda12.4",
            *world("0xb", pids=300, host="node2", done=False, closed=False, ranks=range(1, 2)),
            "node2:301:301 [1] bootstrap.cc:220 NCCL WARN Message truncated : received 120 bytes instead of 64",
        ],
    )
    assert "several-jobs" not in named(analysis)
    assert named(analysis)["version-mix"] == "error"


def test_files_of_one_communicator_are_one_job(tmp_path: Path) -> None:
    one, other = world("0xa", n=4, ranks=range(2)), world("0xa", n=4, ranks=range(2, 4), host="node2")
    assert judge(tmp_path, a=one, b=other).jobs == ()


def test_groups_without_a_common_communicator_are_one_job(tmp_path: Path) -> None:
    """Tensor-parallel groups of two nodes: equal in size and release, on other GPUs."""
    assert judge(tmp_path, a=world("0xa"), b=world("0xb", pids=300, host="node2")).jobs == ()
    side_by_side = [*world("0xa", closed=False), *world("0xb", pids=300, first_gpu=4, closed=False)]
    assert judge(tmp_path, c=side_by_side).jobs == ()


def test_a_process_that_goes_on_keeps_the_job_whole(tmp_path: Path) -> None:
    """A failed group is made anew by processes of which one is the same."""
    lines = [*failed("0xa"), *world("0xb", pids=300), "node1:100:100 [0] NCCL INFO Using network Socket"]
    assert judge(tmp_path, a=lines).jobs == ()


def test_the_folders_of_torchrun_name_the_attempts(tmp_path: Path) -> None:
    for number, lines in enumerate((failed("0xa"), world("0xb", pids=300))):
        folder = tmp_path / "run" / f"attempt_{number}" / "0"
        folder.mkdir(parents=True)
        (folder / "stderr.log").write_text("\n".join(lines) + "\n")
    analysis = nccl_insight.analyze([tmp_path / "run"])
    assert [j.label for j in analysis.jobs] == ["attempt 1 of 2", "attempt 2 of 2"]
    assert analysis.status == "ok"


def test_very_many_jobs_are_judged_together(tmp_path: Path) -> None:
    path = tmp_path / "suite.log"
    path.write_text("\n".join(line for k in range(40) for line in world(f"0x{k:x}", pids=100 + 10 * k)) + "\n")
    assert len(parts(nccl_insight.load([path]))) == 1


def test_an_attempt_that_finds_its_port_taken_follows_from_the_one_before(tmp_path: Path) -> None:
    died = "srun: error: node1: task 1: Segmentation fault"
    taken = "node1:200:200 [0] misc/socket.cc:420 NCCL WARN Call to bind failed: Address already in use"
    lines = [*world("0x1", closed=False), died, RESTART, *world("0x2", pids=200, done=False, closed=False), taken]
    told = {f.name: f.title for f in judge(tmp_path, a=lines).findings}
    assert "bootstrap-bind-failed" in told
    assert told["several-attempts"].endswith("the last one failed at the port that the one before it left")


def test_parts_are_called_by_job_and_attempt_as_far_as_there_are_several() -> None:
    one, two, other = Part(1, 1, (), judged=False), Part(1, 2, (), judged=True), Part(2, 1, (), judged=True)
    assert part_label(one, [one, two]) == "attempt 1 of 2"
    assert part_label(other, [one, two, other]) == "job 2"
    assert part_label(two, [one, two, other]) == "job 1, attempt 2 of 2"


def test_the_status_that_needs_most_attention_stands_for_all() -> None:
    states = [("ok", ()), ("not_judged", ("b",)), ("inconclusive", ("a",))]
    assert merged_status(states) == ("inconclusive", ("a",))
    assert merged_status([*states, ("findings", ())]) == ("findings", ())


def test_only_what_no_job_could_be_judged_for_is_not_judged() -> None:
    one, two = NotJudged("a", "no trace"), NotJudged("b", "no log")
    assert unjudged([[one, two], [two]]) == [two]
    assert unjudged([]) == []
