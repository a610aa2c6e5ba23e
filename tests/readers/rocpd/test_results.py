"""``*_results.json`` of rocprofv3 (``--output-format json``): kernels and copies of each process."""

from __future__ import annotations

import json
from pathlib import Path

from nccl_insight.inputs.find import find_inputs
from nccl_insight.readers.kernels import COMM, COMPUTE, MEMCPY
from nccl_insight.readers.rocpd.results import read_results

PROCESS = {
    "metadata": {"pid": 7, "node": {"hostname": "gpu1"}},
    "kernel_symbols": [
        {"kernel_id": 1, "formatted_kernel_name": "ncclDevKernel_Generic(ncclDevKernelArgs)"},
        {"kernel_id": 2, "formatted_kernel_name": "", "kernel_name": "Cijk_gemm"},
    ],
    "strings": {"buffer_records": [{"kind": "MEMORY_COPY", "operations": ["NONE", "HOST_TO_DEVICE"]}]},
    "buffer_records": {
        "kernel_dispatch": [
            {"start_timestamp": 10, "end_timestamp": 30, "stream_id": {"handle": 4},
             "dispatch_info": {"kernel_id": 1, "agent_id": {"handle": 2}}},
            {"start_timestamp": 40, "end_timestamp": 50, "dispatch_info": {"kernel_id": 2}},
            {"start_timestamp": 90, "end_timestamp": 80, "dispatch_info": {"kernel_id": 2}},
            {"start_timestamp": "x", "end_timestamp": 80, "dispatch_info": 5},
        ],
        "memory_copy": [
            {"start_timestamp": 60, "end_timestamp": 70, "operation": 1, "bytes": 64, "dst_agent_id": {"handle": 2}}
        ],
    },
}  # fmt: skip


def test_kernels_and_copies_of_a_process(tmp_path: Path) -> None:
    path = tmp_path / "1_results.json"
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [PROCESS, "junk"]}))
    notes: list[tuple[str, str]] = []
    found, host = read_results(find_inputs([str(path)])[0], notes)
    assert (host, notes) == ("gpu1", [])
    assert found.select("kind", "start_ns", "end_ns", "agent", "stream", "name", "size_bytes", "pid").rows() == [
        (COMM, 10, 30, 2, 4, "ncclDevKernel_Generic(ncclDevKernelArgs)", None, 7),
        (COMPUTE, 40, 50, -1, None, "Cijk_gemm", None, 7),
        (MEMCPY, 60, 70, 2, None, "HOST_TO_DEVICE", 64, 7),
    ]


def test_a_file_that_is_cut_is_told(tmp_path: Path) -> None:
    path = tmp_path / "1_results.json"
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [PROCESS]})[:200])
    notes: list[tuple[str, str]] = []
    found, host = read_results(find_inputs([str(path)])[0], notes)
    assert found.is_empty()
    assert host is None
    assert "the profile is damaged or cut" in notes[0][1]
