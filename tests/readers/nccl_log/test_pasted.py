"""Text as people paste it: several lines on one, loggers in front, exceptions with something behind them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import nccl_insight
from tests.readers.nccl_log.pasted_text import _said, names

_DEAD = (
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: "
    "Worker unexpectedly exits with a connection error code 2. End of file."
)
_TIMEOUT = (
    "[rank3]:[E416 13:21:26.967375581 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=76, OpType=BROADCAST, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600089 milliseconds "
    "before timing out."
)


def test_lines_glued_before_the_tag_of_a_launcher(tmp_path: Path) -> None:
    glued = _said(tmp_path, f"{_DEAD} (Actor pid=744, ip=10.0.0.7) {_TIMEOUT} (Actor pid=745, ip=10.0.0.7) step 5")
    apart = _said(tmp_path, _DEAD, f"(Actor pid=744, ip=10.0.0.7) {_TIMEOUT}")
    assert names(glued) == names(apart)
    assert names(apart) == {"watchdog-timeout", "process-crashed"}


def _timed_out(tmp_path: Path, *lines: str) -> list[tuple[int, int, int]]:
    (tmp_path / "run.log").write_text("\n".join(lines) + "\n")
    errors = nccl_insight.load([str(tmp_path / "run.log")])["errors"]
    return sorted(errors.drop_nulls("seq").select("line", "rank", "seq").unique().iter_rows())


def test_lines_of_torch_glued_behind_a_progress_bar(tmp_path: Path) -> None:
    other = _TIMEOUT.replace("rank3", "rank5").replace("Rank 3", "Rank 5").replace("SeqNum=76", "SeqNum=77")
    assert _timed_out(tmp_path, f"2%|█ | 13/620 [01:07<50:20, 4.98s/it]{_TIMEOUT} {other}") == [(1, 3, 76), (1, 5, 77)]


def test_a_line_of_torch_into_which_another_process_wrote(tmp_path: Path) -> None:
    torn = _TIMEOUT.replace(
        "collective operation", "collective operatMERS_CACHE` is deprecated and will be removed.ion"
    )
    assert _timed_out(tmp_path, torn) == [(1, 3, 76)]


def test_an_exception_in_front_of_records_on_the_same_line(tmp_path: Path) -> None:
    record = "a1:213:213 [{dev}] NCCL INFO cudaDriverVersion 12080"
    front = "x" * 180 + " RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)"
    said = _said(tmp_path, " ".join([front, record.format(dev=0), record.format(dev=1)]))
    assert names(said) == {"unexplained-failure"}


def test_a_traceback_glued_to_the_last_error(tmp_path: Path) -> None:
    tag = "(VllmWorkerProcess pid=3985) ERROR 01-15 02:47:32 multiproc_worker_utils.py:226] "
    said = _said(
        tmp_path,
        tag + "Exception in worker: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, "
        "unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.20.5",
        tag + "Last error:",
        tag + "Error while creating shared memory segment /dev/shm/nccl-g0wGsu (size 9637888), Traceback "
        "(most recent call last):",
    )
    assert names(said) == {"shm-too-small"}


_TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/app/train.py", line 88, in <module>',
    "    main()",
    '  File "/app/train.py", line 61, in main',
    "    loss = step(batch)",
    "ValueError: Expected more than 1 value per channel",
)
_CLOSED = "n1:77:77 [0] misc/socket.cc:71 NCCL WARN socketProgress: Connection closed by remote peer n2<41822>"


@pytest.mark.parametrize(
    "tag",
    [
        lambda i: "[default0]:",
        lambda i: "trainer/0 ",
        lambda i: f"2026-03-04T05:06:{i:02d}.123456789Z ",
        lambda i: f"[pod/train-0/pytorch] 2026-03-04T05:06:{i:02d}.123456789Z ",
        lambda i: f"2026-03-04T05:06:{i:02d}.123456789Z stdout F ",
        lambda i: f"[2026-03-04T05:06:{i:02d}.123+0000] {{subprocess.py:93}} INFO - ",
        lambda i: f"03/04/2026 05:06:{i:02d} ",
        lambda i: f"05:06:{i:02d}.123456 ",
        lambda i: f"<14>1 2026-03-04T05:06:{i:02d}Z n1 trainer 77 - - ",
        lambda i: f"{i + 7:6d}\t",
        lambda i: f"logs/rank0.log:{i + 7}:",
        lambda i: "logs/rank0.log:",
    ],
)
def test_a_traceback_behind_any_tag(tag: Callable[[int], str], tmp_path: Path) -> None:
    """The tag of the first line is that of the last one, but for times and numbers of lines."""
    lines = ["n1:77:77 [0] NCCL INFO NCCL version 2.27.7+cuda12.8", *_TRACEBACK, "", _CLOSED]
    said = _said(tmp_path, *(tag(i) + line for i, line in enumerate(lines)))
    found = {f.name: f for f in said.findings}
    assert found["application-exception"].severity.value == "error"
    assert "ValueError" in found["application-exception"].title
    assert found["peer-died"].caused_by == "application-exception"


@pytest.mark.parametrize(
    "label",
    [
        "", "[pod/trainer-0/pytorch] ", "2025-06-01T10:00:0{n}.12{n}456Z stdout F ", "worker-1: ", "{n}9:",
        "<14>1 2025-06-01T10:00:0{n}Z node7 trainer 47 - - ", "2025-06-01 10:00:0{n},123 - INFO - ",
    ],
)  # fmt: skip
def test_a_last_error_behind_the_label_of_a_launcher(tmp_path: Path, label: str) -> None:
    thrown = (
        "torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:2777, invalid argument (run with "
        "NCCL_DEBUG=WARN for details), NCCL version 2.21.5",
        "ncclInvalidArgument: Invalid value for an argument.",
        "Last error:",
        "Broadcast : sendbuff (nil) is not a valid pointer",
    )
    said = _said(tmp_path, *(label.replace("{n}", str(n)) + text for n, text in enumerate(thrown, 1)))
    assert names(said) == {"invalid-argument"}


@pytest.mark.parametrize(
    "label", ["", "[pod/trainer-0/pytorch] ", "2025-06-01T10:00:{n}.123Z stdout F ", "gpu01: ", "worker-1  | "]
)
def test_the_root_cause_of_elastic_behind_the_label_of_a_launcher(tmp_path: Path, label: str) -> None:
    block = (
        "Root Cause (first observed failure):", "[0]:", "  time      : 2025-06-01_10:00:00", "  host      : gpu01",
        "  rank      : 5 (local_rank: 5)", "  exitcode  : 1 (pid: 4005)", "  error_file: <N/A>",
        "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
    )  # fmt: skip
    said = _said(tmp_path, *(label.replace("{n}", str(n)) + text for n, text in enumerate(block, 8)))
    assert names(said) == {"application-exception"}
    assert [f.ranks for f in said.findings if f.name == "application-exception"] == [(5,)]


def test_quotes_and_arrows_of_a_forum(tmp_path: Path) -> None:
    warned = "gpu01:4000:4001 [0] init.cc:1840 NCCL WARN Cuda failure 802 ‘system not yet initialized’"
    assert names(_said(tmp_path, warned)) == {"fabric-manager-issue"}
    link = "gpu01:4000:4001 [0] NCCL INFO Channel 00/0 : 0[0] → 1[1] via P2P/IPC"
    (tmp_path / "run.log").write_text(link + "\n", encoding="utf-8")
    run = nccl_insight.load([tmp_path / "run.log"])
    assert run.table("connections").select("src_rank", "dst_rank").rows() == [(0, 1)]


@pytest.mark.parametrize("label", ["", "worker-1: ", "[pod/trainer-0/pytorch] ", "2025-06-01T10:00:{n}.12Z "])
def test_a_message_that_breaks_in_two_behind_the_label_of_a_launcher(tmp_path: Path, label: str) -> None:
    texts = (
        "transport/net_socket.cc:424 NCCL WARN NET/Socket : peer 10.0.0.9<59210> message truncated :",
        "receiving 1048576 bytes instead of 65536",
    )
    said = _said(tmp_path, *(label.replace("{n}", str(n)) + text for n, text in enumerate(texts, 8)))
    assert {f.name: f.severity.value for f in said.findings}["collective-mismatch"] == "error"


def test_entities_of_a_page_without_signs_of_less_and_greater(tmp_path: Path) -> None:
    warned = "gpu01:4000:4001 [0] init.cc:1840 NCCL WARN Cuda failure 802 &#x27;system not yet initialized&#x27;"
    assert names(_said(tmp_path, warned)) == {"fabric-manager-issue"}


def test_the_output_of_a_cell_of_a_notebook(tmp_path: Path) -> None:
    assert names(_said(tmp_path, '   "text": [', f'    "{_TIMEOUT}\\n",', '    "done\\n"', "   ]")) == {
        "watchdog-timeout"
    }


def test_the_rank_that_torch_puts_in_front_of_a_failure_without_a_head(tmp_path: Path) -> None:
    said = _said(
        tmp_path,
        "[rank3]: ncclUnhandledCudaError: Call to CUDA function failed.",
        "[rank3]: Last error:",
        "[rank3]: Cuda failure 2 'out of memory'",
    )
    assert [(f.name, f.ranks) for f in said.findings if f.severity.value == "error"] == [("cuda-oom-init", (3,))]
    untold = _said(tmp_path, "Last error:", "Cuda failure 2 'out of memory'")
    assert [f.ranks for f in untold.findings if f.name == "cuda-oom-init"] == [()]


_COMPLETION = (
    "Got completion from peer 10.0.0.5<44557> with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid fe80::1 "
    "remoteGidsfe80::2 hca mlx5_0"
)


@pytest.mark.parametrize(
    "line",
    [
        _COMPLETION,
        f"NET/IB:{_COMPLETION}",
        f"our nodes stop with NET/IBP:{_COMPLETION}",
        f"transport/net_ib.cc:1295 NCCL WARN NET/IBX : {_COMPLETION}",
        f"gpu01:1:2 [0] transport/net_ib.cc:1295 NCCL WARN NET/IBX : {_COMPLETION}",
    ],
)
def test_words_whose_speaker_was_lost_or_changed(tmp_path: Path, line: str) -> None:
    assert "ib-completion-retry-exceeded" in names(_said(tmp_path, line))


def test_prose_about_a_message_is_no_message(tmp_path: Path) -> None:
    analysis = _said(tmp_path, "all nodes have Got completion from peer errors in NET/IB, and then it dies")
    assert "ib-completion-retry-exceeded" not in names(analysis)


_SHM = "Error: failed to extend /dev/shm/nccl-KtCNfm to 9637892 bytes"
_REFUSED = "connect to 10.0.0.4<48211> returned Connection refused, exceeded error retry count after 35"


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ((f'We get "{_SHM}" on one of the nodes only.',), "shm-too-small"),
        ((f"The last words were misc/shmutils.cc:72 NCCL WARN {_SHM}.",), "shm-too-small"),
        ((f"Rank 3 says `misc/shmutils.cc:72 NCCL WARN {_SHM}`, and stops.",), "shm-too-small"),
        (
            ("All actors were up ->", f"`ncclRemoteError: {_REFUSED}", "attempts` (peer = n12)."),
            "bootstrap-connect-refused",
        ),
    ],
)
def test_prose_that_quotes_a_failure(tmp_path: Path, lines: tuple[str, ...], name: str) -> None:
    assert name in names(_said(tmp_path, *lines))


def test_prose_that_quotes_a_program(tmp_path: Path) -> None:
    said = _said(tmp_path, 'It prints "step 12 of 300 has been finished in 4.1 s, error 0" every time.')
    assert names(said) == set()
