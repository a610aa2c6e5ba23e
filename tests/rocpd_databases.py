"""Databases of rocprofv3, made by hand."""

from __future__ import annotations

import sqlite3
from pathlib import Path

ID = "_00000b2c_5d1e_7a4f_9c3b_1f2e3d4c5b6a"


def database(path: Path, suffix: str = ID) -> Path:
    """Two RCCL kernels, a GEMM that covers half of the first, a custom all-reduce and a copy on one agent."""
    with sqlite3.connect(path) as base:
        base.execute(
            f"create table `rocpd_kernel_dispatch{suffix}` (id integer primary key, nid integer, pid integer, "
            'tid integer, agent_id integer, kernel_id integer, stream_id integer, start bigint, "end" bigint)'
        )
        base.execute(
            f"create table `rocpd_info_kernel_symbol{suffix}` (id integer primary key, kernel_name text, "
            "display_name text)"
        )
        base.execute(f"create table `rocpd_string{suffix}` (id integer primary key, string text)")
        base.execute(
            f"create table `rocpd_memory_copy{suffix}` (id integer primary key, pid integer, start bigint, "
            '"end" bigint, name_id integer, dst_agent_id integer, stream_id integer, size integer)'
        )
        names = [
            "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
            "Cijk_Ailk_Bljk_BBS_BH_MT128x128x64",
            "void aiter::cross_device_reduce_2stage<__hip_bfloat16, 8>(aiter::RankData*)",
        ]
        for number, name in enumerate(names, 1):
            base.execute(f"insert into `rocpd_info_kernel_symbol{suffix}` values (?, ?, ?)", (number, name, name))
        base.execute(f"insert into `rocpd_string{suffix}` values (7, 'MEMORY_COPY_DEVICE_TO_HOST')")
        for number, (kernel, start, end) in enumerate([(1, 100, 200), (2, 150, 300), (1, 400, 450), (3, 500, 520)]):
            row = (number, 1, 42, 42, 3, kernel, 1, start * 1000, end * 1000)
            base.execute(f"insert into `rocpd_kernel_dispatch{suffix}` values (?,?,?,?,?,?,?,?,?)", row)
        base.execute(f"insert into `rocpd_memory_copy{suffix}` values (1, 42, 600000, 630000, 7, 3, 1, 4096)")
    base.close()
    return path
