"""Lines of launchers, schedulers, shells and kernels that say that a process or the job was ended.

They are no diagnosis: they say how the output ends, so that a log that was cut short does not read as a healthy one.
"""

from __future__ import annotations

from typing import Final

import polars as pl

# One alternative per writer: Slurm, timeout and wrappers, shells and launchers on signals, torchrun, MPI, Python,
# the kernel's out-of-memory killer.
_KINDS: Final = (
    ("time limit", r"(?i)\btime ?limit (?:was )?(?:reached|exceeded)|DUE TO TIME ?LIMIT|\btimed out after [0-9]+ ?s"),
    ("cancelled", r"CANCELLED AT |\bDUE TO (?:PREEMPTION|NODE FAILURE)|slurmstepd: error: \*\*\*|KeyboardInterrupt"),
    ("out of memory", r"(?i)oom[-_ ]?kill(?:ed)?\b|Out of memory: Killed process|OOMKilled"),
    (
        "killed by a signal",
        r"(?i)segmentation fault|core dumped|fatal python error|caught signal [0-9]+|exited on signal [0-9]+|"
        r"SIG(?:KILL|TERM|SEGV|ABRT|BUS|INT|HUP)\b|received signal|signal [0-9]+ \(|"
        r"^(?:.{0,80}: )?(?:Killed|Aborted|Terminated|Bus error)(?: +\(.*\))?$|\(signal: ?(?:9|11|15|6|7)\)",
    ),
    (
        "ended with an error",
        r"exit(?:ed|ing)?(?: with)?(?: an)?(?: non-?zero)?(?: exit)?(?: code| status)? ?[:=]? ?"
        r"\(?(?:[1-9][0-9]*|-[0-9]+)\b|"
        r"exitcode ?[:=] ?(?:[1-9]|-)|ChildFailedError|^Traceback \(most recent call last\)|MPI_ABORT was invoked",
    ),
)  # fmt: skip
_ANY: Final = "|".join(f"(?:{pattern})" for _, pattern in _KINDS)
# What every such line holds somewhere, so that most lines are dropped by a plain search.
_MARKS: Final = (
    "limit", "LIMIT", "timed out", "CANCELLED", "DUE TO", "slurmstepd", "KeyboardInterrupt", "OOM", "oom", "Oom",
    "ut of memory", "egmentation fault", "core dumped", "atal ", "signal", "SIG", "Killed", "Aborted", "Terminated",
    "Bus error", "exit", "Exit", "ChildFailed", "Traceback", "MPI_ABORT",
)  # fmt: skip


def ending_lines(text: pl.Expr) -> pl.Expr:
    """Whether a line may say that something ended (a cheap test with few false hits)."""
    return text.str.contains_any(list(_MARKS))


def scan_lines(lines: pl.DataFrame) -> pl.DataFrame:
    """Rows of ``endings`` (``line, kind, text``) from ``line, text``; the first twenty of each kind."""
    text = pl.col("text").str.replace_all(r"\x1b\[[0-9;]*m", "").str.strip_chars()
    found = (
        lines.filter(ending_lines(pl.col("text")))
        .with_columns(text=text)
        .filter(pl.col("text").str.contains(_ANY))
    )
    kind = pl.lit(None, pl.String)
    for name, pattern in reversed(_KINDS):
        kind = pl.when(pl.col("text").str.contains(pattern)).then(pl.lit(name)).otherwise(kind)
    rows = found.with_columns(kind=kind, text=pl.col("text").str.slice(0, 300))
    return rows.group_by("kind", maintain_order=True).head(20).select("line", "kind", "text").sort("line")
