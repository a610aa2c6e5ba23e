"""The verdict: OK only with proof, what else where there is none, and how far the job got."""

from __future__ import annotations

import gzip
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

import nccl_insight
from nccl_insight.base.model import Confidence, Severity
from nccl_insight.engine.verdict import headline
from tests.bare_logs import judge, log
from tests.runs import SHARED
from tests.trace_maker import event, trace, write


def test_a_job_that_starts_and_ends_is_ok(tmp_path: Path) -> None:
    analysis = judge(tmp_path, log(closed=2))
    assert (analysis.status, analysis.headline, analysis.reasons) == ("ok", "No problem found", ())
    assert analysis.progress is not None
    assert analysis.progress.line == (
        "init completed on all 2 ranks, no connection in the log, destroyed: 2 of 2; "
        "the log ends after all communicators were closed"
    )
    first = analysis.progress.ranks[0]
    assert (first.rank, first.host, first.launched, first.init_started, first.init_completed, first.destroyed) == (
        0, "node1", 1, 2, 4, 6,
    )  # fmt: skip


def test_an_end_in_front_of_a_job_that_came_to_its_end_was_of_another_attempt(tmp_path: Path) -> None:
    preempted = "slurmstepd: error: *** JOB 4242 ON node0 CANCELLED AT 2025-11-20T09:00:00 DUE TO PREEMPTION ***"
    assert judge(tmp_path, [preempted, "resumed from step 300", *log(closed=2)]).status == "ok"
    assert judge(tmp_path, [*log(closed=0), preempted]).status != "ok"


def test_who_gives_up_waiting_is_named_as_it_is(tmp_path: Path) -> None:
    """The watchdog and the flight recorder are torch's: no other program has them."""
    said = "(EngineCore_DP0 pid=42) TimeoutError: RPC call to execute_model timed out."
    first = judge(tmp_path, [*log(closed=0), said]).findings[0]
    assert first.name == "watchdog-timeout"
    assert "RPC call to execute_model" in first.title
    assert "watchdog" not in first.title
    assert all("trace_rank" not in step.text for step in first.steps)


def test_a_rank_that_does_not_finish_init_leaves_no_proof(tmp_path: Path) -> None:
    analysis = judge(tmp_path, log(done=1, closed=0))
    assert analysis.status == "inconclusive"
    assert analysis.reasons[0] == "init completed on 1 of 2 ranks"
    assert [row.end for row in analysis.progress.ranks] == ["running", "silent"]  # type: ignore[union-attr]


@pytest.mark.part(2)
@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        ("gemm", "the traces hold no communication"),
        (
            "void deep_ep::internode::dispatch<false, 8>(int4*)",
            "the traces hold no NCCL collectives, and kernels of other libraries (deep_ep) tell neither groups "
            "nor sizes",
        ),
    ],
)
def test_traces_in_which_nccl_does_nothing_say_so(tmp_path: Path, kernel: str, reason: str) -> None:
    kernels = [event("kernel", kernel, 1000.0 + 100 * i, 50.0, device=0, stream=7) for i in range(9)]
    analysis = nccl_insight.analyze([write(tmp_path / "rank0.json", trace(0, 64, kernels))])
    assert (analysis.status, analysis.reasons[0]) == ("inconclusive", reason)


def test_ranks_that_the_log_lacks_leave_no_proof(tmp_path: Path) -> None:
    analysis = judge(tmp_path, log(ranks=6, of=8))
    assert analysis.status == "inconclusive"
    assert analysis.headline == "No cause found: init completed on 6 of 8 ranks"


def test_ranks_without_lines_are_no_doubt_where_all_others_ended_well(tmp_path: Path) -> None:
    """A rank that runs at another level, or whose file is not among the inputs."""
    assert judge(tmp_path, log(ranks=3, of=4, closed=3)).status == "ok"
    assert judge(tmp_path, log(ranks=3, of=4, closed=2)).status == "inconclusive"
    assert judge(tmp_path, log(ranks=1, of=4, closed=1)).status == "inconclusive"
    assert judge(tmp_path, log(ranks=4, of=4, done=3, closed=3)).status == "inconclusive"


@pytest.mark.part(2)
@pytest.mark.parametrize(
    "line",
    [
        "driver: time limit reached, leaving",
        "slurmstepd: error: *** JOB 4711 ON node1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***",
        "/opt/job.sh: line 12: 4711 Segmentation fault      (core dumped) python train.py",
        "srun: error: node1: task 3: Exited with exit code 1",
        "mpirun noticed that process rank 1 with PID 0 on node node1 exited on signal 9 (Killed).",
        "Fatal Python error: Segmentation fault",
        "[101.5] Out of memory: Killed process 4711 (python)",
        "/var/spool/slurmd/job5/slurm_script: line 33:  4100 Terminated              srun python train.py",
        'Thread 4100 (active): "MainThread"',
        'Thread 12 (Thread 0x7f2a1f7fe640 (LWP 4100) "python3"):',
        "Current thread 0x00007f2c8e5d1740 (most recent call first):",
    ],
)
def test_output_that_ends_with_the_end_of_a_process_is_not_ok(tmp_path: Path, line: str) -> None:
    analysis = judge(tmp_path, [*log(version="2.30.7"), line])
    if analysis.status != "findings":
        assert analysis.status == "inconclusive"
        assert line[:60] in analysis.reasons[0]
        assert "run.log:6" in analysis.reasons[0]


@pytest.mark.part(2)
@pytest.mark.parametrize(
    "line",
    [
        "exit code 0", "Training finished, exiting", "Epoch 3/3: loss 0.1", "step 400 of 400, loss 0.2",
        "{'train_runtime': 812.4, 'train_loss': 1.91, 'epoch': 3.0}", "`Trainer.fit` stopped: `max_epochs=3` reached.",
        "[after training is done] datetime: 2025-03-02 11:00:07", "Finished: all 8 workers exited successfully",
        "      Reason:       Completed", "done.",
    ],
)  # fmt: skip
def test_an_end_that_is_announced_or_said_is_proof(tmp_path: Path, line: str) -> None:
    assert judge(tmp_path, [*log(), "step 390 loss 2.1", line]).status == "ok"


@pytest.mark.parametrize(
    "line",
    ["epoch 3: loss 0.1", "Epoch 3/10: loss 0.1", "saved checkpoint at step 9", "Thread 3 (active) ended", "loading"],
)
def test_output_that_stops_on_its_way_is_no_proof(tmp_path: Path, line: str) -> None:
    analysis = judge(tmp_path, [*log(), line])
    assert analysis.status == "inconclusive"
    assert line in analysis.headline
    assert analysis.headline.startswith("No problem found; how the job ended is not in the log")


@pytest.mark.parametrize("version", ["2.8.4", "2.27.7", "2.30.7"])
def test_silence_after_init_proves_nothing(tmp_path: Path, version: str) -> None:
    analysis = judge(tmp_path, log(version=version))
    assert analysis.status == "inconclusive"
    assert "whether the job ran" in analysis.headline


def test_one_rank_that_is_not_destroyed_with_the_others(tmp_path: Path) -> None:
    analysis = judge(tmp_path, log(closed=1))
    assert analysis.status == "inconclusive"
    assert "rank 1 silent while others go on" in analysis.reasons


def _calling(counts: list[int], members: list[int]) -> list[str]:
    """Inits of the ranks of a job of eight, then those of a communicator of some of them, which prints calls."""
    head = [f"node1:{100 + r}:{200 + r} [{r}] NCCL INFO " for r in range(8)]
    out = [f"{head[r]}NCCL version 2.30.7+cuda13.0" for r in (0,)]
    for comm, of in ((0xA0, list(range(8))), (0xB0, members)):
        for place, rank in enumerate(of):
            what = (
                f"comm 0x{comm:x}{rank} rank {place} nranks {len(of)} cudaDev {rank} nvmlDev {rank} busId {rank}000 "
                f"commId 0x{comm:x}00"
            )
            out += [f"{head[rank]}ncclCommInitRank {what} - Init {state}" for state in ("START", "COMPLETE")]
    for place, rank in enumerate(members):
        out += [
            f"{head[rank]}AllReduce: opCount {n:x} sendbuff 0x7f0000000{n:03x} recvbuff 0x7f0000000{n:03x} count 1024 "
            f"datatype 7 op 0 root 0 comm 0x{0xB0:x}{rank} [nranks={len(members)}] stream 0x55{rank}"
            for n in range(counts[place])
        ]
    return out


def test_who_is_behind_is_a_rank_of_the_job(tmp_path: Path) -> None:
    analysis = judge(tmp_path, _calling([9, 9, 4, 9], [4, 5, 6, 7]))
    assert analysis.progress is not None
    assert "rank 6 behind" in analysis.progress.line
    assert analysis.progress.silent == (6,)


def test_where_few_are_ahead_nobody_is_silent(tmp_path: Path) -> None:
    analysis = judge(tmp_path, _calling([8, 8, 9, 8], [4, 5, 6, 7]))
    assert analysis.status != "ok"
    assert analysis.progress is not None
    assert "behind" not in analysis.progress.line
    assert analysis.progress.silent == ()
    assert "the log ends while a few ranks are ahead of the others" in analysis.reasons


def test_a_log_of_versions_only_is_inconclusive_and_says_what_to_do(tmp_path: Path) -> None:
    analysis = judge(tmp_path, ["NCCL version 2.27.7+cuda12.8"])
    assert analysis.status == "inconclusive"
    assert [m.enables.split(":")[0] for m in analysis.more[:3]] == ["if it hangs", "if it is slow", "if it crashes"]


def test_what_to_add_is_grouped_and_leaves_other_kinds_of_input_out(tmp_path: Path) -> None:
    (group, *_) = [m for m in judge(tmp_path, log(closed=2)).more if "NCCL_DEBUG_SUBSYS" in m.add]
    assert group.add.startswith("NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV")
    assert len(group.checks) == len(set(group.checks)) > 1
    assert f"{len(group.checks)} more checks" in group.enables
    assert "straggler-rank" not in group.checks


def test_nothing_to_judge_says_what_each_input_was_taken_for(tmp_path: Path) -> None:
    analysis = judge(tmp_path, ["once upon a time"], "story.log")
    assert analysis.status == "not_judged"
    assert analysis.headline == 'Nothing to judge: text without a line of NCCL: text that begins "once upon a time"'
    (tmp_path / "empty.log").write_bytes(b"")
    assert nccl_insight.analyze([tmp_path / "empty.log"]).inputs[0].taken_for == "empty file"


@pytest.mark.parametrize(
    "level", ["WARNING 08-13 11:11:59 [flashinfer_all_reduce.py:85] ", "[ERROR] [launch.py:22:main] ", "WARNING: "]
)
def test_what_a_text_of_another_program_warns_of_is_quoted(tmp_path: Path, level: str) -> None:
    log = tmp_path / "run.log"
    log.write_text(f"once upon a time\n(worker) {level}no workspace: timed out\nthe end\n")
    headline = nccl_insight.analyze(log).headline
    assert headline == 'Nothing to judge: text without a line of NCCL: text that warns "no workspace: timed out"'


ELF = b"\x7fELF\x02\x01\x01" + b"\0" * 9
PICKLED = b"\x80\x04\x95\x20\0\0\0\0\0\0\0}\x94(\x8c\x08segments\x94]\x94\x8c\x0ddevice_traces\x94]\x94u."


@pytest.mark.part(2)
@pytest.mark.parametrize(
    ("name", "content", "what", "command"),
    [
        ("a.nsys-rep", bytes(range(256)) * 4, "Nsight Systems report", "nsys export --type=sqlite"),
        ("a.qdrep", bytes(range(256)) * 4, "Nsight Systems report", "nsys export --type=sqlite"),
        ("a.qdstrm", bytes(range(256)) * 4, "Nsight Systems raw stream", "QdstrmImporter"),
        ("a.ncu-rep", b"NVR\0" + bytes(range(64)), "Nsight Compute report", "nsys profile"),
        ("a.pftrace", b"\n\x07" + bytes(range(64)), "Perfetto trace", "traceconv json"),
        ("a.et", b"\n\x07" + bytes(range(64)), "Chakra execution trace", "export_chrome_trace"),
        ("et.json", b'{"schema": "1.1.1-chakra.0.0.4", "nodes": []}', "PyTorch execution trace", "export_chrome"),
        (
            "old_et.json", b'{"schema": "1.0.1", "pid": 7, "nodes": [{"name": "execution_graph|thread"',
            "PyTorch execution trace", "export_chrome",
        ),
        (
            "algorithm.0.et", b"\xd0\x01\x12]\n\x06schema\xea\x01\x121.0.2-chakra.0.0.4\x12<algo name=",
            "Chakra execution trace", "export_chrome",
        ),
        ("mem.pickle", PICKLED, "PyTorch memory snapshot", "_memory_viz"),
        ("core.4711", ELF + b"\x04\x00" + b"\0" * 40, "core dump", "gdb -batch"),
        ("libnccl.so.2", ELF + b"\x03\x00" + b"\0" * 40, "program or library", ""),
        ("bin.dat", bytes(range(256)) * 8, "binary file of an unknown kind", "file "),
    ],
)  # fmt: skip
def test_files_that_cannot_be_read_are_named(
    tmp_path: Path, name: str, content: bytes, what: str, command: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    run = nccl_insight.load([path], input_format=None)
    (row,) = run.table("unreadable").to_dicts()
    assert (row["what"], command in row["command"]) == (what, True)
    if command.startswith(("nsys export", "gdb")):
        assert str(path) in row["command"]
    analysis = nccl_insight.analyze(run)
    assert analysis.status == "not_judged"
    assert what in analysis.headline


def test_a_rocpd_database_is_no_nsys_export(tmp_path: Path) -> None:
    path = tmp_path / "4711_results.db"
    with sqlite3.connect(path) as base:
        base.execute("create table rocpd_metadata (id integer)")
    (item,) = nccl_insight.analyze([path]).inputs
    assert item.taken_for.startswith("ROCm profiler database (rocpd)")


@pytest.mark.part(2)
@pytest.mark.parametrize(
    "content",
    [
        b"\0" * 4096 + b"node1:1:1 [0] NCCL INFO Using network IB\n",
        b"node1:1:1 [0] NCCL INFO Using network IB\n",
        b"\x1b[31mnode1:1:1 [0] NCCL INFO Using network IB\x1b[0m\r\n",
        b"node1:1:1 [0] NCCL INFO Using network \xff\xfe IB\n",
        gzip.compress(b"node1:1:1 [0] NCCL INFO Using network IB\n", mtime=0),
    ],
)
def test_logs_with_odd_bytes_are_still_logs(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(content)
    assert nccl_insight.load([path]).table("inputs")["kind"].to_list() == ["nccl_log"]


def test_a_binary_beside_a_healthy_log_is_named(tmp_path: Path) -> None:
    judge(tmp_path, log(closed=2))
    (tmp_path / "bin.dat").write_bytes(bytes(range(256)) * 8)
    analysis = nccl_insight.analyze([tmp_path])
    assert analysis.inputs[0].taken_for.startswith("binary file")
    assert analysis.status == "ok"


def _simulated(*words: str) -> list[Path]:
    found = sorted((SHARED / "simulated").glob("*.log"))
    return [p for p in found if any(w in p.name for w in words)]


@pytest.mark.skipif(not (SHARED / "simulated").is_dir(), reason="needs NCCL_INSIGHT_REFERENCE_DATA")
@pytest.mark.part(2)
@pytest.mark.parametrize("path", _simulated("rank-dies", "rank0-dies", "rank-segv", "rank-never"), ids=lambda p: p.stem)
def test_no_run_that_lost_a_rank_is_ok(path: Path) -> None:
    assert nccl_insight.analyze([path]).status != "ok"


@pytest.mark.skipif(not (SHARED / "simulated").is_dir(), reason="needs NCCL_INSIGHT_REFERENCE_DATA")
@pytest.mark.part(2)
@pytest.mark.parametrize(
    "path", _simulated("-8gpu-nvlink.log", "2gpu-nvlink.log", "gb200-mnnvl.log", "8gpu-a100.log"), ids=lambda p: p.stem
)
def test_healthy_runs_are_ok_where_their_end_is_in_the_log(path: Path) -> None:
    analysis = nccl_insight.analyze([path])
    assert analysis.progress is not None
    closed = any(row.destroyed is not None for row in analysis.progress.ranks)
    assert analysis.status == ("ok" if closed else "inconclusive")
    assert closed or analysis.headline.startswith("No problem found")


@pytest.mark.parametrize("line", ["", "   ", "\t"])
def test_blank_lines_at_the_end_are_no_output_of_the_program(tmp_path: Path, line: str) -> None:
    lines = log(version="2.27.7")
    assert "epoch 1" in judge(tmp_path, ["training starts", *lines, "epoch 1: loss 0.3", line]).headline
    assert "ends with" not in judge(tmp_path, ["training starts", *lines, line, line]).headline


@pytest.mark.part(2)
@pytest.mark.parametrize(
    "text",
    [
        "ERROR: see the log of the worker",
        "train.py: error: --foo needs a file that is there",
        "│ Traceback (most recent call last) │",
        "Prefill instance with bootstrap_port=8998 is dead.",
        "cable 5 of board 3 is currently down",
    ],
)
def test_last_words_of_a_program_that_complains_leave_no_proof(tmp_path: Path, text: str) -> None:
    analysis = judge(tmp_path, [*log(), "step 10 loss 2.1", text])
    assert analysis.status == "inconclusive"
    assert text.strip("│ ")[:100] in analysis.reasons[0]


def test_a_program_that_did_not_begin_behind_a_job_that_ran_is_a_note(tmp_path: Path) -> None:
    analysis = judge(tmp_path, [*log(), "step 10 loss 2.1", "train.py: error: unrecognized arguments: --foo"])
    assert analysis.status == "inconclusive"
    (note,) = [f for f in analysis.findings if f.name == "launch-failed"]
    assert note.title == "train.py is given wrong or too few arguments: --foo"
    assert note.severity.value == "info"
    alone = judge(tmp_path, ["train.py: error: unrecognized arguments: --foo"])
    assert alone.findings[0].severity.value == "error"


@pytest.mark.part(2)
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("FATAL: worker 3 lost, giving up", "application-exception"),
        ("ERROR: training failed, see the log of the worker", "application-exception"),
        ("thread 'main' panicked at src/main.rs:33:9:", "application-exception"),
        ("exit_status  137", "process-killed"),
        ("make: *** [Makefile:12: train] Error 1", "application-exception"),
        ("all of the group exited with code 139", "process-crashed"),
        ("job r-17 stopped: task 2 returned non-zero exit status 3", "application-exception"),
        ("KeyError: 'weight'", "application-exception"),
        ("SystemExit: 2", "application-exception"),
        ("lib.store.ChunkMissing: no chunk 17", "application-exception"),
        ("terminated by signal 9", "process-killed"),
        ("F0312 11:00:07.120341  4100 client.cc:80] cannot go on", "application-exception"),
    ],
)
def test_the_form_of_the_last_words_names_the_end(tmp_path: Path, text: str, name: str) -> None:
    analysis = judge(tmp_path, [*log(), "step 10 loss 2.1", text])
    assert (analysis.status, analysis.findings[0].name) == ("findings", name)
    assert judge(tmp_path, [*log(), text, "step 11 loss 2.1"]).status == "inconclusive"


def test_what_would_be_so_is_no_end(tmp_path: Path) -> None:
    line = "INFO Shutting down. If you see SIGTERM received in worker.cc, please ignore it."
    assert judge(tmp_path, [*log(), "step 10 loss 2.1", line]).status == "inconclusive"


def test_what_python_ignores_while_it_clears_up_is_no_failure(tmp_path: Path) -> None:
    noise = [
        "Exception ignored in: <function Loader.__del__ at 0x7f2a1c000b60>",
        "Traceback (most recent call last):",
        '  File "/opt/data.py", line 88, in __del__',
        "TypeError: 'NoneType' object is not callable",
    ]
    assert judge(tmp_path, [*log(closed=2), "Training completed.", *noise]).status == "ok"


def test_severe_levels_in_the_middle_of_the_output_are_no_end(tmp_path: Path) -> None:
    lines = [
        *log(),
        "ERROR:root:flash_attn not found, using sdpa",
        *[f"step {n} loss 2.{n}" for n in range(9)],
        "Training completed.",
    ]
    assert judge(tmp_path, lines).status == "ok"


@pytest.mark.part(2)
@pytest.mark.parametrize(
    "line",
    [
        "    Fix crash on exit code 1; workers received SIGKILL",
        "Traceback (most recent call last):",
        "make: *** [x] Error 2",
    ],
)
def test_what_ended_before_the_job_began_is_not_its_end(tmp_path: Path, line: str) -> None:
    assert judge(tmp_path, [line, *log(closed=2)]).status == "ok"
    assert judge(tmp_path, [*log(), line, *log(closed=2)[-2:]]).status == "ok"
    assert judge(tmp_path, [*log(closed=2), line]).status != "ok"


def test_a_crash_that_a_sentence_mentions_is_none(tmp_path: Path) -> None:
    text = "Generated text: 'Segmentation fault (core dumped) is a message that the kernel prints.'"
    analysis = judge(tmp_path, [*log(), text, "step 10"])
    assert not [f for f in analysis.findings if f.severity.value != "info"]


def test_a_time_of_day_in_front_of_the_version_is_no_host(tmp_path: Path) -> None:
    lines = log(closed=2)
    lines[0] = "Mar 04 11:59:01 NCCL version 2.14.3+cuda11.8"
    assert judge(tmp_path, lines).job.n_nodes == 1


def test_a_head_cut_at_the_end_of_the_log_is_no_hang(tmp_path: Path) -> None:
    whole = judge(tmp_path, log(done=0))
    cut = judge(tmp_path, [*log(done=0), "node1:100:100 [0] NCCL INFO Using network IB", "node1:101:"])
    assert cut.status == whole.status == "inconclusive"
    stuck = judge(tmp_path, [*log(done=0), "node1:100:100 [0] NCCL INFO Using network IB"])
    assert [f.name for f in stuck.findings if f.severity.value == "error"] == ["hang-in-init"]


def test_a_remark_about_the_host_hides_no_hang(tmp_path: Path) -> None:
    remark = 'node1:100:100 [0] init.cc:132 NCCL WARN Missing "iommu=pt" from kernel command line which can lead to '
    lines = [*log(done=0), f"{remark}system instablity or hang!"]
    assert [f.name for f in judge(tmp_path, lines).findings if f.severity.value == "error"] == ["hang-in-init"]


@pytest.mark.part(2)
@pytest.mark.parametrize("given", [(0,), (0, 1), (0, 2), (1, 3), (2, 3), (0, 1, 2), (0, 1, 2, 3)])
def test_traces_of_some_ranks_prove_nothing_of_the_job(given: tuple[int, ...]) -> None:
    """Whom all wait for may be a rank without a trace: nobody is late, and nobody is proved to be in time."""
    traces = sorted((Path(__file__).parents[2] / "fixtures" / "traces" / "gloo_healthy").glob("rank*.json.gz"))
    analysis = nccl_insight.analyze([traces[rank] for rank in given])
    assert (len(traces), analysis.status) == (4, "ok" if len(given) == 4 else "inconclusive")
    assert (f"of {len(given)} of 4 ranks" in analysis.headline) is (len(given) < 4)


def test_missing_ranks_are_not_said_to_be_where_others_wait(tmp_path: Path) -> None:
    found = {f.name: f for f in judge(tmp_path, log(ranks=3, of=4, done=0)).findings}
    for name in ("rank-missing-in-init", "communicator-incomplete"):
        assert (found[name].ranks, found[name].hosts) == ((3,), ())


def test_processes_on_their_way_are_no_missing_ranks(tmp_path: Path) -> None:
    """The log ends before they say which rank they are."""
    coming = "node1:150:150 [3] NCCL INFO cudaDriverVersion 12080"
    waiting = log(ranks=3, of=4, done=0)
    names = [[f.name for f in judge(tmp_path, x).findings] for x in (waiting, [*waiting, coming])]
    assert "rank-missing-in-init" in names[0]
    assert "rank-missing-in-init" not in names[1]


ELASTIC = (
    "E0304 12:00:01.123456 12311 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) "
    "local_rank: 1 (pid: 7331) of binary: /usr/bin/python3"
)


def test_the_rank_of_a_node_is_the_rank_of_the_job_where_there_is_one_node(tmp_path: Path) -> None:
    one = judge(tmp_path, [*log(ranks=4, of=4), ELASTIC])
    assert [(f.name, f.ranks) for f in one.findings if f.severity.value == "error"] == [("application-exception", (1,))]
    part = judge(tmp_path, [*log(ranks=4, of=8), ELASTIC])
    assert [f.ranks for f in part.findings if f.name == "application-exception"] == [()]


@pytest.mark.part(2)
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("(Worker pid=12) terminate called after throwing an instance of 'c10::Error'", "process-crashed"),
        ("terminate called without an active exception", "process-crashed"),
        ("x1000c0s0b0n0: rank 3 died from signal 9", "process-killed"),
        ("Killed", "process-killed"),
        ("2025-03-02T11:00:07Z Killed", "process-killed"),
        (" 61%|####  | 611/1000 [04:47<03:03,  2.12it/s]Killed", "process-killed"),
        ("Segmentation fault", "process-crashed"),
        ("Bus error", "process-crashed"),
        ("zsh: killed     python train.py", "process-killed"),
        ("Terminated", "job-ended-by-scheduler"),
        ("srun: Force Terminated StepId=4512.0", "unexplained-failure"),
    ],
)
def test_last_words_that_prove_how_a_process_ended_are_a_finding(tmp_path: Path, text: str, name: str) -> None:
    analysis = judge(tmp_path, [*log(), "step 10 loss 2.1", text])
    assert analysis.status == "findings"
    assert analysis.findings[0].name == name


@pytest.mark.parametrize("text", ["Killed", "Segmentation fault", "Terminated"])
def test_a_word_of_the_shell_is_an_echo_of_the_failure_before_it(tmp_path: Path, text: str) -> None:
    failure = "node1:101:101 [0] misc/ibvwrap.cc:1 NCCL WARN Call to ibv_open_device failed"
    analysis = judge(tmp_path, [*log(), failure, text])
    loud = [f.name for f in analysis.findings if f.severity in (Severity.ERROR, Severity.WARNING)]
    assert loud
    assert not {"process-killed", "process-crashed", "job-ended-by-scheduler"} & set(loud)


def test_a_word_of_the_shell_in_the_middle_of_the_output_is_none(tmp_path: Path) -> None:
    after = [f"step {n} loss 2.{n}" for n in range(9)]
    assert judge(tmp_path, [*log(), "Killed", *after]).status != "findings"


def test_what_a_script_ends_behind_a_job_is_none_of_the_job(tmp_path: Path) -> None:
    assert judge(tmp_path, [*log(), "Terminated", "job finished"]).status != "findings"
    assert judge(tmp_path, [*log(closed=2), "Terminated"]).status != "findings"
    assert judge(tmp_path, [*log(closed=2), "Killed"]).status != "findings"


def test_text_without_nccl_that_ends_with_a_word_of_the_shell_is_judged(tmp_path: Path) -> None:
    analysis = judge(tmp_path, ["Epoch 1", "lr = 1.00e-05", "Killed"])
    assert [f.name for f in analysis.findings] == ["process-killed"]


def test_plugins_without_their_hardware_and_link_local_networks_are_no_alarm(tmp_path: Path) -> None:
    head = "node1:100:100 [0] NCCL INFO "
    two = [line.replace("node1:101", "node2:101") for line in log(closed=2)]
    plugin = [
        f"{head}NET/IB : No device found.",
        f"{head}Failed to initialize NET plugin SPCX",
        f"{head}NET/Socket : Using [0]enp1s0f0np0:169.254.102.149<0>",
        f"{head}Using network Socket",
        f"{head}Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
    ]
    analysis = judge(tmp_path, [two[0], *plugin, *two[1:]])
    assert not [f.name for f in analysis.findings if f.severity.value != "info"]
    stuck = [line for line in two if "Init START" in line or "version" in line]
    found = [f.name for f in judge(tmp_path, [*stuck, *plugin]).findings if f.severity.value == "error"]
    assert "ifname-wrong" in found
    other = [line.replace("SPCX", "Libfabric") for line in plugin]
    loud = [f.name for f in judge(tmp_path, [two[0], *other, *two[1:]]).findings if f.severity.value == "warning"]
    assert loud == ["net-plugin-load-failed"]


def test_exceptions_whose_names_are_words_end_a_traceback_only(tmp_path: Path) -> None:
    frame = '  File "/app/train.py", line 9, in main'
    for text in ("Exception: is_gds_supported(13) failed", "torch._dynamo.exc.Unsupported: call_method"):
        lines = [*log(), "Traceback (most recent call last):", frame, text]
        analysis = judge(tmp_path, lines)
        assert [f.name for f in analysis.findings if f.severity.value == "error"] == ["application-exception"]
    spoken = judge(tmp_path, [*log(closed=2), "Exception: the first epoch is slower", "Unsupported: option x, ignored"])
    assert not [f for f in spoken.findings if f.severity.value != "info"]


def test_a_host_that_ssh_does_not_reach_is_no_alarm_in_a_job_that_ran(tmp_path: Path) -> None:
    missed = "ssh: connect to host 192.168.100.16 port 22: Connection timed out"
    ran = judge(tmp_path, [missed, *log(closed=2)])
    assert (ran.status, [f.name for f in ran.findings if f.severity.value != "info"]) == ("ok", [])
    tail = [line for line in log(closed=2) if "Destroy" in line]
    cut = judge(tmp_path, [missed, *tail])
    assert not [f for f in cut.findings if f.severity.value != "info"]
    alone = judge(tmp_path, [missed, log()[0]])
    assert [f.name for f in alone.findings if f.severity.value == "error"] == ["launch-failed"]


def test_result_codes_of_ranks_that_were_connected_are_the_end_of_the_job(tmp_path: Path) -> None:
    """What the threads of an abort print, in a log that lost its beginning."""
    codes = [f"node1:10{r}:20{r} [{r}] NCCL INFO misc/socket.cc:707 (ncclSocketTryRecv) -> 3" for r in (0, 1)]
    connected = "node1:100:100 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 1"
    quiet = judge(tmp_path, [connected, *codes])
    assert not [f.name for f in quiet.findings if f.severity.value != "info"]
    loud = judge(tmp_path, ["node1:100:100 [0] NCCL INFO Using network IB", *codes])
    assert [f.name for f in loud.findings if f.severity.value != "info"] == ["unexplained-failure"]


def test_a_line_of_source_in_a_traceback_says_nothing(tmp_path: Path) -> None:
    said = "Neither MPI nor Gloo support has been built. Try another one."
    log = tmp_path / "run.log"
    log.write_text(
        "Traceback (most recent call last):\n"
        '  File "/opt/run.py", line 876, in _run\n'
        f"    raise ValueError('{said}')\n"
        f"ValueError: {said}\n"
    )
    analysis = nccl_insight.analyze(log)
    (finding, *_) = analysis.findings
    assert finding.name == "launch-failed"
    assert [ref.line for ref in finding.evidence] == [4]
    assert "Traceback" not in analysis.headline + str(analysis.progress)


@pytest.mark.part(2)
@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("Rank 3 is silent", "Rank 3 is silent (since about 08:00:01, probable)"),
        (
            "Rank 3 did not come to 35 (ALLREDUCE)",
            "Rank 3 did not come to 35 (ALLREDUCE); since about 08:00:01, probable",
        ),
        ("Rank 3 is silent since about 08:00:01", "Rank 3 is silent since about 08:00:01 (probable)"),
    ],
)
def test_the_headline_says_since_when_and_how_sure(tmp_path: Path, title: str, said: str) -> None:
    found = judge(tmp_path, [*log(closed=0), "RuntimeError: no such file"]).findings[0]
    finding = replace(found, title=title, severity=Severity.ERROR, confidence=Confidence.MEDIUM, begun_time="08:00:01")
    assert headline("findings", [finding], (), ()) == said
