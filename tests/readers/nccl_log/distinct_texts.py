"""Logs of calls whose texts are all distinct."""

from __future__ import annotations

import random

CALL = (
    "AllReduce: opCount 1f sendbuff 0x7f01 recvbuff 0x7f02 count 5 datatype 7 op 0 root 0 comm 0x55aa [nranks=2] "
    "stream 0x9"
)


def _log(lines: int) -> str:
    """Calls, choices and proxy lines of two ranks, all different, with lines between that look like them."""
    rng = random.Random(7)
    out = []
    for rank in (0, 1):
        head = f"node0:{100 + rank}:{100 + rank} [{rank}] NCCL INFO "
        who = f"ncclCommInitRank comm 0x55aa0{rank} rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} "
        who += f"busId {rank + 1}000 commId 0xabc - Init "
        out += [head + who + "START", head + who + "COMPLETE"]
    for i in range(lines):
        rank = i % 2
        head = f"node0:{100 + rank}:{100 + rank} [{rank}] NCCL INFO "
        op = ("AllReduce", "Broadcast")[i // 2 % 2]
        kinds = (
            f"{op}: opCount {i:x} sendbuff 0x7f{i:06x}00 recvbuff 0x7e{i:06x}00 count {i * 3} datatype 7 op 0 root 0 "
            f"comm 0x55aa0{rank} [nranks=2] stream 0x{i + 99:x}",
            f"{op}: {i * 4} Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..{i % 7}}}",
            f"resp.opId=0x7f{i:08x} matches expected opId=0x7f{i:08x}",
            f"{op}: {i} of something else",
            f"{op}: opCount zz sendbuff 0x{i:x}",
            f"{op}: {i} Bytes -> Algo 1 proto 2 time {i}.25",
        )
        kind = rng.choices(range(6), (8, 8, 8, 1, 1, 1))[0]
        out.append(head.replace("INFO", "WARN" if kind == 3 and i % 5 == 0 else "INFO") + kinds[kind])
    return "\n".join(out) + "\n"
