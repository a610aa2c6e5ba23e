"""A CUDA call of NCCL failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from nccl_insight.base.model import CannotJudge, Hit, Severity
from nccl_insight.facts.topics import telling, told
from nccl_insight.rules._errors import Trouble, trouble
from nccl_insight.rules.context import Context
from nccl_insight.tables.run import Run

_RERUN = (
    "run the program under compute-sanitizer on one node for a few steps (kernels are 10 to 100 times slower)"
)
_XID = "dmesg -T | grep -i xid   # on the hosts named"
_XID_FIRST = _SANITIZER = f"{_XID}; then {_RERUN}"
_KNOWN = (
    (
        "illegal-access",
        "an illegal memory access; the kernel that did it may be the program's own",
        _SANITIZER,
    ),
    (
        "device-assert",
        "an assertion in a kernel of the program, often an index out of range in an embedding or loss",
        "CUDA_LAUNCH_BLOCKING=1 <the same job>   # the traceback then names the call; " + _XID_FIRST,
    ),
    (
        "launch-failure",
        "a kernel that failed while it ran; the message comes with the next CUDA call, also after an abort",
        _XID_FIRST,
    ),
    (
        "not-permitted",
        "an operation that this container or user may not do (IMEX channel, capabilities)",
        "ls -l /dev/nvidia-caps-imex-channels; capsh --print   # inside the container",
    ),
    (
        "unknown-error",
        "an error that the driver cannot name; look for an Xid, and on WSL at its driver",
        "dmesg -T | grep -i xid; nvidia-smi   # on the hosts named",
    ),
    (
        "no-kernel-image",
        "kernels that were not built for this GPU",
        "cuobjdump --list-elf libnccl.so.2 | sort -u   # does it hold the GPU's architecture?",
    ),
    (
        "device-busy",
        "a GPU in exclusive mode that another process holds, or one that was lost",
        "nvidia-smi -q -d COMPUTE | grep -i 'compute mode'; nvidia-smi pmon -c 1   # on the hosts named",
    ),
    (
        "device-ordinal",
        "a device number that the process does not see: LOCAL_RANK against CUDA_VISIBLE_DEVICES",
        "echo $LOCAL_RANK $CUDA_VISIBLE_DEVICES; nvidia-smi -L   # in the rank's environment",
    ),
    (
        "refused-argument",
        "memory or a handle that CUDA does not take: of another process or of the host, which this container cannot "
        "register or map, or of a GPU of another kind",
        "nvidia-smi -L; df -h /dev/shm; ulimit -l; readlink /proc/self/ns/ipc   # inside the container of each rank of "
        "the host: all must see the same GPUs and share memory",
    ),
    (
        "peer-access",
        "peer access between GPUs that do not offer it",
        "nvidia-smi topo -p2p r   # on the hosts named",
    ),
)
_LATE = ("launch-failure", "illegal-access", "unknown-error", "context-gone")


def check(ctx: Context) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines, with what is known of that CUDA error; those after a time-out's abort apart."""
    run = ctx.run
    found = ctx.lines()
    if found is None:
        return
    late = _after_abort(run, found.rows)
    first = found.rows.join(
        late.select("input_id", "line"), on=["input_id", "line"], how="anti", maintain_order="left"
    )
    if first.height:
        yield from _hit(ctx, Trouble(first), ())
    if late.height:
        yield from _hit(ctx, Trouble(late), ("watchdog-timeout", "ib-completion-retry-exceeded"))


def _after_abort(run: Run, rows: pl.DataFrame) -> pl.DataFrame:
    """Late errors after the watchdog gave up: the abort of the communicators makes them."""
    watchdog = trouble(run, "watchdog-timeout")
    if watchdog is None or watchdog.first_s is None:
        return rows.clear()
    return telling(rows, "cuda-kind", *_LATE).filter(pl.col("time_s") > watchdog.first_s)


def _quoted(found: Trouble) -> str | None:
    """The error that an exception quotes, without what CUDA adds to it."""
    said = found.value("exception")
    return said.partition("error: ")[2].partition(" was encountered")[0][:90] or said[:90] if said else None


_CALLERS: Final = {"nccl-tests": "nccl-tests", "either": "NCCL or the program", "program": "the program"}


def _hit(ctx: Context, found: Trouble, caused_by: tuple[str, ...]) -> Iterator[Hit]:
    reason = found.value("error_text") or _quoted(found) or "CUDA error"
    callers = set(told(found.rows, "cuda-caller"))
    caller = "either" if "either" in callers else callers.pop() if len(callers) == 1 else None
    where = _CALLERS.get(caller or "", "NCCL")
    kinds = set(told(found.rows, "cuda-kind").drop_nulls())
    meaning, step = next(
        ((text, step) for kind, text, step in _KNOWN if kind in kinds),
        (
            "an error of the CUDA driver or of an earlier kernel",
            _XID_FIRST,
        ),
    )
    yield from ctx.report(
        f"A CUDA call inside {where} failed: {reason}",
        step,
        explanation=f"The message stands for {meaning}. CUDA reports errors late, so look for the first one of the "
        "same process."
        + (" It came after the watchdog gave up, when communicators were aborted." if caused_by else ""),
        quiet=Severity.WARNING,
        caused_by=caused_by,
        rows=found,
    )
