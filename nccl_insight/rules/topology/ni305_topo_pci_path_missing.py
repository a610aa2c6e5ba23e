"""NCCL cannot find a GPU or NIC in /sys.

What it finds
-------------
The failure to resolve a PCI device below /sys/class/pci_bus or /sys/devices.

Why it matters
--------------
Older versions of NCCL cannot build a topology without it and stop.

How it decides
--------------
The message for a PCI path decides. The same message for /sys/class/net is harmless and left out, and
where init completed afterwards it is reported as a note.

What to do
----------
Mount /sys into the container; on WSL2 and other virtual machines without a PCI tree use a newer NCCL or
NCCL_TOPO_FILE.

False positives
---------------
Newer versions print it and go on; then init completes.

References
----------
NVIDIA/nccl issue 573; NCCL troubleshooting guide, topology detection.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.errors import causes
from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import Trouble, report, trouble
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.CONFIG
NEEDS = ("errors", "interfaces")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all paths."""
    found = trouble(run, "topo-pci-path-missing") or _listed(run)
    if found is None:
        return
    ranks = run.table("ranks").filter(pl.col("init_complete").fill_null(False))
    processes = found.rows.select("host", "pid")
    went_on = ranks.join(processes, on=["host", "pid"], how="semi", nulls_equal=True).height > 0
    yield from report(
        run,
        "topo-pci-path-missing",
        "A device's PCI path is missing in /sys",
        "ls -l /sys/class/pci_bus | head; nvidia-smi --query-gpu=pci.bus_id --format=csv   # inside the container",
        explanation="NCCL reads the PCI tree below /sys to learn how GPUs and NICs are connected. In WSL2, some "
        "virtual machines and containers "
        "without /sys it is not there." + (" Init completed all the same." if went_on else ""),
        severity=Severity.INFO if went_on else None,
        quiet=Severity.INFO if went_on else None,
        rows=found,
    )


def _listed(run: Run) -> Trouble | None:
    """The same message where it was read as a note about a device."""
    frame = run.table("interfaces")
    rows = frame.filter(pl.col("device_path").str.contains(r"/(?:pci|devices/pci)").fill_null(False))
    if rows.is_empty():
        return None
    template = causes(run).clear()
    text = pl.format("Could not find real path of {}", "device_path")
    shown = rows.select("input_id", "line", "host", "pid", text.alias("text"), pl.lit(True).alias("loud"))
    return Trouble(pl.concat([template, shown], how="diagonal_relaxed"))
