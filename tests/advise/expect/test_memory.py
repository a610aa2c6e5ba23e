"""What NCCL's buffers take, from its own formulas, and what settings would save."""

from __future__ import annotations

from pathlib import Path

import nccl_insight
from nccl_insight.advise.expect.memory import connection_bytes, savings
from nccl_insight.facts.setup.memory import device_memory

HEAD = "devgpu263:557295:558643 [0] NCCL INFO "
INIT = f"{HEAD}ncclCommInitRank comm 0x1 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 1b000 commId 0xab - Init "


def test_sizes_of_public_threads() -> None:
    """NVIDIA/nccl 1685 reports buffers of 10485760 and 2097152 bytes."""
    assert connection_bytes() == (10485760, 2097152)
    assert connection_bytes({"NCCL_BUFFSIZE": "8388608"}) == (14680064, 2097152)
    assert connection_bytes({"NCCL_BUFFSIZE": "nonsense"}) == (10485760, 2097152)


def test_more_members_and_more_communicators_of_public_threads(tmp_path: Path) -> None:
    """NVIDIA/nccl 964: groups of two GPUs take 544 MB, larger ones 688: one more connection on each of 12 channels.

    NVIDIA/nccl 864 asks whether memory grows with the number of communicators: it does, in proportion.
    """
    assert 12 * sum(connection_bytes()) == (688 - 544) << 20
    seen = []
    for communicators in (1, 3):
        lines = []
        for comm in range(communicators):
            init = INIT.replace("0xab", f"0xab{comm}").replace("comm 0x1 ", f"comm 0x1{comm} ")
            lines.append(f"{init}START")
            for channel in range(24):
                for peer in (1, 7):
                    at = comm << 20 | channel << 8 | peer
                    lines += [
                        f"{HEAD}Allocated shareable buffer 0x7f{at:010x} size 10485760 ipcDesc 0x7e00",
                        f"{HEAD}Allocated shareable buffer 0x7e{at:010x} size 2097152 ipcDesc 0x7e00",
                    ]
            lines.append(f"{init}COMPLETE")
        path = tmp_path / f"{communicators}.log"
        path.write_text("\n".join(lines) + "\n")
        (most,) = device_memory(nccl_insight.load(path))
        assert most.communicators == communicators
        seen.append(most.bytes)
    assert seen == [576 << 20, 3 * 576 << 20]


def test_buffers_made_smaller_save_most_where_channels_are_few() -> None:
    names = [s.setting for s in savings(8, 8, 0, 0)]
    assert names == ["NCCL_MAX_CTAS (or NCCL_MAX_NCHANNELS) at half the channels", "NCCL_BUFFSIZE=1048576"]
    assert savings(0, 0, 0, 0) == []
