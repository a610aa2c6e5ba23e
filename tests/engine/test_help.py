"""The help that a message brings itself: what a finding says first, with its values, and what is left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import nccl_insight
from nccl_insight.base.model import Finding, Hit, Severity
from nccl_insight.cli import build_app
from nccl_insight.engine.draft import Draft
from nccl_insight.engine.help import helped
from nccl_insight.report import json_
from tests import checks
from tests.by_hand import run

HEAD = "gpu01:4005:4011 [0] NCCL INFO NCCL version 2.27.3+cuda12.8\n"


def first(tmp_path: Path, *lines: str, code: str = "") -> Finding:
    path = tmp_path / "run.log"
    head = "gpu01:4005:4011 [0] "
    path.write_text(HEAD + "".join(f"{head}{line}\n" for line in lines), encoding="utf-8")
    found = nccl_insight.analyze(nccl_insight.load([path])).findings
    return next(finding for finding in found if code in finding.code)


def test_a_value_of_the_line_decides_what_is_said(tmp_path: Path) -> None:
    mixed = first(tmp_path, "misc/socket.cc:502 NCCL WARN socketFinalizeAccept: wrong type 4 != 3")
    assert mixed.title.startswith("One side uses NET/IB, the other NET/Socket")
    assert any("mpirun -x" in step.text for step in mixed.steps)
    other = first(tmp_path, "misc/socket.cc:502 NCCL WARN socketFinalizeAccept: wrong type 2 != 1")
    assert other.title.startswith("A connection for proxy reached a port for bootstrap")


def test_a_cuda_code_brings_its_own_advice_with_or_without_its_number(tmp_path: Path) -> None:
    for line in (
        "Cuda failure 222 'the provided PTX was compiled with an unsupported toolchain.'",
        "Cuda failure 'the provided PTX was compiled with an unsupported toolchain.'",
    ):
        finding = first(tmp_path, f"enqueue.cc:47 NCCL WARN {line}")
        assert "driver is older than the CUDA toolkit" in finding.title
        assert not any("compute-sanitizer" in step.text for step in finding.steps)


def test_a_remedy_that_the_line_offers_is_shown(tmp_path: Path) -> None:
    finding = first(
        tmp_path,
        "init.cc:900 NCCL WARN Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1 to "
        "enable this configuration.",
    )
    assert ("fix", "export NCCL_MULTI_RANK_GPU_ENABLE=1") in [(s.label, s.text) for s in finding.steps]
    unknown = first(
        tmp_path, "graph/x.cc:9 NCCL WARN Quux is off here. Set NCCL_QUUX_ENABLE=2 to enable it.", code="NI518"
    )
    assert (unknown.steps[0].label, unknown.steps[0].text) == ("fix", "export NCCL_QUUX_ENABLE=2")
    words = first(
        tmp_path, "graph/x.cc:9 NCCL WARN Quux is off here. Set NCCL_QUUX to a higher number for it.", code="NI518"
    )
    assert (words.steps[0].label, words.steps[0].text.partition(":")[0]) == ("do", "set NCCL_QUUX to a higher number")


def test_a_failed_test_is_placed_on_the_host_that_it_prints(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    for head in ("gpu09: ", "[1,3]<stdout>:gpu09: "):
        log.write_text(
            f"{head}Test CUDA failure common.cu:422 'uncorrectable ECC error encountered'\n", encoding="utf-8"
        )
        assert nccl_insight.analyze(log).findings[0].hosts == ("gpu09",)


def test_the_address_that_a_line_names_is_in_its_step(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    head = "[E socket.cpp:860] [c10d] The client socket has timed out after 60s while trying to connect to "
    log.write_text(f"{head}10.0.0.1:1234\n", encoding="utf-8")
    assert "10.0.0.1/1234" in nccl_insight.analyze(log).findings[0].steps[0].text
    log.write_text(
        "[W socket.cpp:436] [c10d] The server socket has failed to bind to 0.0.0.0:29400 (errno: 98 - Address already "
        "in use).\n[E socket.cpp:472] [c10d] The server socket has failed to listen on any local network address.\n",
        encoding="utf-8",
    )
    assert '":29400 "' in nccl_insight.analyze(log).findings[0].steps[0].text


def test_a_way_to_silence_a_warning_is_no_remedy(tmp_path: Path) -> None:
    finding = first(
        tmp_path,
        "transport/net_ib.cc:900 NCCL WARN NET/IB : There are mismatched physical devices between local (mlx5_0) "
        "and remote (mlx5_1). To disable this warning, set NCCL_IB_WARN_RAIL_LOCAL=0",
    )
    assert not any("NCCL_IB_WARN_RAIL_LOCAL" in step.text for step in finding.steps)


def test_steps_are_data_in_json(tmp_path: Path) -> None:
    finding = first(tmp_path, "enqueue.cc:47 NCCL WARN Cuda failure 'named symbol not found'")
    steps = json.loads(json.dumps(json_.finding_dict(finding)))["next_steps"]
    assert [step["kind"] for step in steps] == ["check", "do"]
    assert "cuobjdump" in steps[0]["command"]
    assert "gpu01" in steps[0]["where"]
    assert set(steps[1]) == {"kind", "text", "where", "needs_root", "while_running"}


def test_holes_are_filled_from_the_line_or_by_a_command(tmp_path: Path) -> None:
    refused = first(
        tmp_path,
        "misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to 10.0.0.7<40861> returned "
        "113(No route to host) errno 11(Resource temporarily unavailable)",
    )
    said = " ".join(step.text for step in refused.steps)
    assert "10.0.0.7" in said
    assert "<" not in said
    memory = first(
        tmp_path, "misc/ibvwrap.cc:262 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory"
    )
    assert any("/limits" in step.text for step in memory.steps)


def test_a_setting_to_try_is_exported_and_the_job_run_again(tmp_path: Path) -> None:
    finding = first(tmp_path, "init.cc:9 NCCL WARN AllReduce : invalid type 17")
    step = next(s for s in finding.steps if "NCCL_CHECK_POINTERS" in s.text)
    assert step.text.startswith("export NCCL_CHECK_POINTERS=1 ")
    assert step.where.startswith("then run the same job")


def test_processes_that_a_time_out_ends_are_not_its_cause(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE,\n"
        "terminate called after throwing an instance of 'c10::DistBackendError'\n"
        "misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer gpu02<4000>\n",
        encoding="utf-8",
    )
    found = nccl_insight.analyze(nccl_insight.load([path])).findings
    assert [f.code for f in found if f.severity is Severity.ERROR] == ["NI504"]


def test_a_first_collective_in_which_no_data_moves_has_a_setting_to_try(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(
        "".join(
            f"[rank{rank}]:[E1218 20:27:21.42 ProcessGroupNCCL.cpp:{line}] [PG ID 1 PG GUID 1 Rank {rank}] {text}\n"
            for rank in (0, 1)
            for line, text in (
                (629, "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=BROADCAST, NumelIn=8, "
                 "NumelOut=8, Timeout(ms)=600000) ran for 600081 milliseconds before timing out."),
                (2168, "failure detected by watchdog at work sequence id: 1 PG status: last enqueued work: 547, "
                 "last completed work: -1"),
            )
        ),
        encoding="utf-8",
    )  # fmt: skip
    finding = nccl_insight.analyze(nccl_insight.load([path])).findings[0]
    assert "the first BROADCAST" in finding.title
    assert finding.steps[0].text == "export NCCL_P2P_DISABLE=1"


def test_an_exit_behind_a_refused_connection_is_its_effect(tmp_path: Path) -> None:
    refused = first(
        tmp_path,
        "misc/socket.cc:544 NCCL WARN socketPollConnect: connect to 10.0.0.2<4000> returned Connection refused, "
        "exceeded error retry count after 35 attempts",
        "Received sigquit from a child process. It usually means the child failed.",
    )
    assert refused.code == "NI203"


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("/lib/libc.so.6: version `GLIBC_2.32' not found (required by /opt/libnccl-net.so)", "needs GLIBC_2.32,"),
        ("/opt/libnccl-net.so: undefined symbol: fi_getinfo", "fi_getinfo is undefined"),
    ],
)
def test_what_the_linker_says_of_a_plugin_is_told(tmp_path: Path, said: str, title: str) -> None:
    line = f"NCCL INFO NET/Plugin: Plugin load returned 2 : {said} : when loading libnccl-net.so"
    assert title in first(tmp_path, line, code="NI212").title


def test_what_to_record_follows_the_symptom(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    line = (
        "[rank0]:[E1218 20:27:21.42 ProcessGroupNCCL.cpp:629] [PG ID 1 PG GUID 1 Rank 0] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=9, OpType=BROADCAST, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for "
        "600081 milliseconds before timing out.\n"
    )
    path.write_text(HEAD + line, encoding="utf-8")
    assert nccl_insight.analyze(nccl_insight.load([path])).more == ()
    path.write_text(HEAD * 3 + line, encoding="utf-8")
    assert "--symptom hang" in nccl_insight.analyze(nccl_insight.load([path])).more[0].add


def test_record_env_prints_exports() -> None:
    shown = CliRunner().invoke(build_app(), ["record-env", "--symptom", "hang"])
    assert shown.exit_code == 0
    assert "export TORCH_NCCL_DUMP_ON_TIMEOUT=1" in shown.stdout.splitlines()
    assert CliRunner().invoke(build_app(), ["record-env", "--symptom", "x"]).exit_code != 0


@pytest.mark.parametrize(
    ("raised", "step"),
    [
        ("RuntimeError: CUDA error: peer access is not supported between these two devices", "NCCL_P2P_DISABLE=1"),
        ("RuntimeError: HIP error: invalid device function", "rocminfo"),
        ("torch.AcceleratorError: CUDA error: invalid device ordinal", "CUDA_VISIBLE_DEVICES"),
        ("RuntimeError: CUDA error: device-side assert triggered", "token ids"),
        ("RuntimeError: CUDA error: an unheard-of failure", "compute-sanitizer"),
        ("OSError: [Errno 28] No space left on device: '/ckpt/step_5.pt'", "df -h"),
        ("ValueError: Total number of attention heads (52) must be divisible by tensor parallel size (8).", "divide"),
        ("AssertionError: MPI world size 4 does not match torch world size 2", "which -a mpirun"),
        ("RuntimeError: world_size (1) is not divisible by 2", "--nproc-per-node"),
        ("RuntimeError: received 0 items of ancdata", "ulimit -n"),
        ("ValueError: warmup_ratio must be between 0 and 1, got 7", "within the limit that it states"),
        ("ValueError: Unknown scheduler wsdd", "name or value that the program knows"),
        ("ValueError: sharded states cannot be used with offloading", "change one of the options"),
        ("ValueError: `hub_model_id` must be set", "give hub_model_id (an option"),
        ("ImportError: `frob` must be installed. Please install it via `pip install frob`", "install the package"),
        (
            "RuntimeError: unable to mmap 512 bytes from file </torch_1>: Cannot allocate memory (12)",
            "vm.max_map_count",
        ),
        ("OSError: You are trying to access a gated repo at https://huggingface.co/a/b. 401 Client Error.", "token"),
        ("RuntimeError: Timed out on rank 0 (world_size=2, missing_ranks=[1])", "missing_ranks lists"),
    ],
)
@pytest.mark.parametrize("trace", [True, False])
def test_exceptions_bring_the_help_of_what_they_quote(tmp_path: Path, raised: str, step: str, trace: bool) -> None:
    path = tmp_path / "run.log"
    head = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n' if trace else ""
    path.write_text(f"step 3 loss 2.1\n{head}{raised}\n", encoding="utf-8")
    (finding, *_) = nccl_insight.analyze(nccl_insight.load([path])).findings
    assert finding.name == "application-exception"
    assert any(step in s.text for s in finding.steps)


def test_an_exception_names_the_package_that_raised_it(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    frame = '  File "/opt/lib/python3.11/site-packages/frobtrain/schedule.py", line 7, in step'
    raised = "IndexError: pop from an empty deque"
    path.write_text(f"Traceback (most recent call last):\n{frame}\n    q.pop()\n{raised}\n", encoding="utf-8")
    run = nccl_insight.load([path])
    assert run.table("tracebacks")["package"].to_list() == ["frobtrain"]
    (finding,) = nccl_insight.analyze(run).findings
    assert any("code of frobtrain did not expect" in s.text for s in finding.steps)


def test_what_pydantic_refuses_is_told_behind_a_tag(tmp_path: Path) -> None:
    path, tag = tmp_path / "run.log", "(APIServer pid=7)"
    path.write_text(
        f"{tag} Traceback (most recent call last):\n"
        f'{tag}   File "/opt/lib/python3.11/site-packages/pydantic/dataclasses.py", line 9, in __init__\n'
        f"{tag} pydantic_core.ValidationError: 1 validation error for Sizes\n"
        f"{tag}   Value error, tensor parallel size (16) cannot be larger than the number of GPUs (8)\n",
        encoding="utf-8",
    )
    (finding,) = nccl_insight.analyze(nccl_insight.load([path])).findings
    assert "raised ValidationError: tensor parallel size (16)" in finding.title.replace("pydantic_core.", "")


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79 GiB",
         {"PYTORCH_CUDA_ALLOC_CONF"}),
        ("cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 1,000,000,000 bytes (allocated so far: 0 bytes).",
         set()),
        ("jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 3.64TiB with "
         "allocator GPU_0_bfc on device 0.", {"XLA_PYTHON_CLIENT_PREALLOCATE"}),
    ],
)  # fmt: skip
def test_memory_of_the_gpu_is_sought_with_the_settings_of_whoever_asked(
    tmp_path: Path, text: str, settings: set[str]
) -> None:
    finding = _only(tmp_path, "Traceback (most recent call last):", '  File "/app/train.py", line 7, in <module>', text)
    said = " ".join(step.text for step in finding.steps)
    known = {"PYTORCH_CUDA_ALLOC_CONF", "XLA_PYTHON_CLIENT_PREALLOCATE"}
    assert "nvidia-smi" in said
    assert {name for name in known if name in said} == settings


def test_what_stands_behind_the_heading_of_an_exception_is_told(tmp_path: Path) -> None:
    head = ("Traceback (most recent call last):", '  File "/app/train.py", line 7, in <module>')
    finding = _only(
        tmp_path, *head, "RuntimeError: Error(s) in loading state_dict for Linear:",
        '\tMissing key(s) in state_dict: "bias". ', '\tUnexpected key(s) in state_dict: "extra". ',
    )  # fmt: skip
    assert 'Missing key(s) in state_dict: "bias"' in finding.observed
    finding = _only(
        tmp_path, *head, "torch._dynamo.exc.Unsupported: Failed to trace builtin operator",
        "  Explanation: Dynamo does not know how to trace builtin operator `print` with argument types ['str']",
        "  Hint: Avoid calling builtin `print`. Consider using an equivalent alternative function/method to `print`.",
    )  # fmt: skip
    assert any("Consider using an equivalent alternative" in step.text for step in finding.steps)


def test_gloo_is_told_by_its_own_setting(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    said = "[rank8]: RuntimeError: Gloo connectFullMesh failed with"
    path.write_text(f"{said} [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error\n", encoding="utf-8")
    (finding, *_) = nccl_insight.analyze(nccl_insight.load([path])).findings
    assert any(s.label == "fix" and "GLOO_SOCKET_IFNAME=" in s.text for s in finding.steps)
    path.write_text(f"{said} Connection reset by peer\n", encoding="utf-8")
    names = {f.name for f in nccl_insight.analyze(nccl_insight.load([path])).findings}
    assert "bootstrap-failed" not in names


def _only(tmp_path: Path, *lines: str) -> Finding:
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = nccl_insight.analyze(nccl_insight.load([path])).findings
    (finding,) = [f for f in found if f.severity is not Severity.INFO]
    return finding


_NCCL = "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:328"
_SRUN = "srun: error: node7: task {}: Exited with exit code 1"


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ((f"{_NCCL}, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.23.4", _SRUN.format(3)), 518),
        ((f"3: [rank3]: {_NCCL}, unhandled cuda error, NCCL version 2.23.4", _SRUN.format(3)), 518),
        ((f"3: [rank3]: {_NCCL}, unhandled cuda error, NCCL version 2.23.4", _SRUN.format(5)), 550),
        ((f"3: [rank3]: {_NCCL}, remote process exited or there was a network error", _SRUN.format(5)), 550),
    ],
)
def test_an_exit_code_is_told_by_the_result_of_nccl_that_its_process_passed_on(
    tmp_path: Path, lines: tuple[str, ...], name: int
) -> None:
    assert _only(tmp_path, *lines).code == f"NI{name}"


def test_a_crash_names_the_exception_that_nobody_caught(tmp_path: Path) -> None:
    told = _only(tmp_path, "terminate called after throwing an instance of 'mscclpp::IbError'")
    assert "mscclpp::IbError" in told.title


def test_the_port_of_the_store_is_told_by_its_own_setting(tmp_path: Path) -> None:
    told = _only(
        tmp_path,
        "[W socket.cpp:436] [c10d] The server socket has failed to bind to [::]:12211 (errno: 98 - Address already in "
        "use).",
        "[E socket.cpp:472] [c10d] The server socket has failed to listen on any local network address.",
    )
    assert told.name == "bootstrap-bind-failed"
    assert any("MASTER_PORT" in step.text for step in told.steps)
    assert not any("NCCL_COMM_ID" in step.text for step in told.steps)


def test_a_working_directory_that_slurm_replaces_is_no_failure(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    chdir = "slurmstepd: error: couldn't chdir to `/root/x': No such file or directory: going to /tmp instead\n"
    path.write_text(chdir + HEAD, encoding="utf-8")
    found = nccl_insight.analyze(nccl_insight.load([path])).findings
    assert "launch-failed" not in {f.name for f in found}


def test_a_finding_without_lines_keeps_its_words() -> None:
    plain = Draft(checks.rule("NI605"), Hit("it is slow"), Severity.WARNING)
    assert helped(run(), [plain]) == [plain]
    assert helped(run(errors=[{"input_id": 0, "line": 1}]), []) == []
