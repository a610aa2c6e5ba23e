"""Environment of captured processes, the world that a launcher describes, and what the machine has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.live.capture.environment import gpu_count, hosts_of, nccl_settings, world_of
from nccl_insight.share import api
from tests.captures import HAS_TORCH, cli


def test_log_files_of_ranks_are_kept_apart_and_percent_signs_are_no_patterns(tmp_path: Path) -> None:
    odd = tmp_path / "50%h"
    first, second = (nccl_settings(odd, calls=True, rank=rank)["NCCL_DEBUG_FILE"] for rank in "01")
    assert first != second
    assert first.startswith(f"{tmp_path}/50%%h/nccl.rank0.")
    assert "NCCL_TOPO_DUMP_FILE" not in nccl_settings(odd, calls=True, rank="1")


def test_settings_do_not_touch_what_the_user_tunes(tmp_path: Path) -> None:
    names = set(nccl_settings(tmp_path, calls=True))
    assert "COLL" in nccl_settings(tmp_path, calls=True)["NCCL_DEBUG_SUBSYS"]
    assert "COLL" not in nccl_settings(tmp_path, calls=False)["NCCL_DEBUG_SUBSYS"]
    assert not names & {"NCCL_ALGO", "NCCL_PROTO", "NCCL_NET", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME"}


# --- settings and surroundings -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "29400"},
         (3, 8, 1, "a", 29400)),
        ({"SLURM_PROCID": "9", "SLURM_STEP_NUM_TASKS": "16", "SLURM_LOCALID": "1", "SLURM_STEP_NODELIST": "gpu[07-08]",
          "SLURM_JOB_ID": "881234"}, (9, 16, 1, "gpu07", 21234)),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
          "MASTER_ADDR": "b"}, (0, 2, 0, "b", 20000)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_the_launchers_world(environ: dict[str, str], expected: tuple[int, int, int, str, int] | None) -> None:
    world = world_of(environ)
    assert (world and (world.rank, world.size, world.local_rank, world.address, world.port)) == expected


def test_a_world_without_an_address() -> None:
    with pytest.raises(UsageError, match="MASTER_ADDR"):
        world_of({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"})


def test_gpus_are_counted_from_device_files(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert gpu_count({}, str(tmp_path)) == 3
    assert gpu_count({"CUDA_VISIBLE_DEVICES": "0,1"}, str(tmp_path)) == 2
    assert gpu_count({"CUDA_VISIBLE_DEVICES": ""}, str(tmp_path)) == 0
    assert gpu_count({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, str(tmp_path)) == 0
    assert gpu_count({"CUDA_VISIBLE_DEVICES": "0,-1,2"}, str(tmp_path)) == 1
    assert gpu_count({"CUDA_VISIBLE_DEVICES": "GPU-8f6d7a0c-1,GPU-2"}, str(tmp_path)) == 2


@pytest.mark.gpu
def test_nccl_on_the_gpus_of_this_machine(tmp_path: Path) -> None:
    if not HAS_TORCH or gpu_count(dict(os.environ)) == 0:
        pytest.skip("needs torch and a CUDA device")
    done = cli("capture", "-o", "cap", "--max-bytes", "16M", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = api.load([tmp_path / "cap"])
    assert run.table("host_bandwidth").height >= 4
    assert run.table("processes").height >= 1


@pytest.mark.parametrize(
    ("listed", "hosts"),
    [
        ("gpu[07-09,12],login3", ["gpu07", "gpu08", "gpu09", "gpu12", "login3"]),
        ("gpu07", ["gpu07"]),
        ("a-b.c[1]", ["a-b.c1"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("", []),
    ],
)
def test_lists_of_hosts(listed: str, hosts: list[str]) -> None:
    assert hosts_of(listed) == hosts


def test_a_list_of_hosts_cannot_be_endless() -> None:
    assert len(hosts_of("n[0-999999999]")) == 20_000
