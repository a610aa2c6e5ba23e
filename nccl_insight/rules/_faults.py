"""Which diagnoses stop a process, and so explain what its peers then report."""

from __future__ import annotations

from typing import Final

CONFIGURATION: Final = (
    "duplicate-gpu", "duplicate-rank", "version-mix", "separate-jobs", "cuda-driver-too-old",
    "env-invalid-value", "algorithm-unavailable", "forced-network-unavailable", "invalid-argument",
    "library-version-mismatch", "ifname-not-found", "bootstrap-no-interface", "bootstrap-bind-failed",
    "mixed-networks",
)  # fmt: skip

DEVICE: Final = (
    "xid-error", "fabric-manager-issue", "mnnvl-imex-missing", "nvls-multicast-failed", "cumem-import-failed",
    "cuda-oom-init", "cuda-init-error", "cuda-unhandled", "kernel-sharedmem-limit", "nvml-failed",
    "topo-pci-path-missing", "topo-xml-invalid", "p2p-disabled-on-nvlink", "graph-inconsistent", "no-transport",
    "p2p-ipc-handle-failed", "rocm-smi-failed", "cuda-hardware-error", "cuda-driver-mismatch",
)  # fmt: skip

MEMORY: Final = (
    "shm-too-small",
    "shm-permission",
    "shm-attach-missing",
    "memlock-limit",
    "cumem-host-alloc-failed",
    "resource-exhausted",
)

NETWORK: Final = (
    "ib-device-fatal", "ib-port-error", "ib-reg-mr-failed", "ib-create-cq-failed", "ib-qp-timeout",
    "ib-qp-unreachable", "ib-qp-invalid-argument", "ib-local-access-violation", "ib-completion-local-prot",
    "ib-completion-retry-exceeded", "ib-create-qp-failed", "ib-completion-error", "ib-partition-key",
    "ofi-plugin-init-failed", "ofi-request-error", "ofi-reg-mr-failed", "ofi-rail-mismatch", "ib-gid-changed",
)  # fmt: skip

BOOTSTRAP: Final = (
    "ifname-wrong", "bootstrap-connect-timeout", "bootstrap-connect-refused", "bootstrap-no-route",
)  # fmt: skip

APPLICATION: Final = ("collective-mismatch", "collective-not-reached", "send-recv-unmatched",
                       "p2p-ungrouped")  # fmt: skip

# What ends a process or the job from outside of NCCL: whatever the peers report then is its echo.
OUTSIDE: Final = (
    "application-exception", "process-killed", "process-crashed", "job-ended-by-scheduler", "watchdog-stuck",
    "cuda-hardware-error", "xid-error", "launch-failed",
)  # fmt: skip

STARTUP: Final = (*CONFIGURATION, *DEVICE, *MEMORY, *NETWORK)
ANY: Final = (*STARTUP, *BOOTSTRAP, *APPLICATION, *OUTSIDE)

# What the peers of a process that ended report.
ECHOES: Final = (
    "peer-died", "error-propagated", "ib-completion-retry-exceeded", "ib-completion-flush", "ib-completion-error",
    "ib-completion-local-prot", "ib-local-access-violation", "ib-queue-error", "ib-qp-timeout", "ofi-request-error",
    "net-plugin-error", "bootstrap-connect-refused", "bootstrap-connect-timeout", "bootstrap-connection-closed",
    "bootstrap-no-route", "bootstrap-failed", "watchdog-timeout", "rank-desync", "collective-not-reached",
    "collective-stalled", "rank-missing-in-init", "hang-in-init", "hang-after-init", "cuda-driver-shutdown",
    "ras-incomplete", "ras-mismatch", "unexplained-failure", "cuda-unhandled", "communicator-incomplete",
)  # fmt: skip

# What is only seen after something else went wrong, the more distant the later.
_SYMPTOMS: Final = {
    "ib-completion-retry-exceeded": 1, "ofi-request-error": 1, "ib-queue-error": 1, "net-plugin-error": 1,
    "bootstrap-connect-refused": 1, "rank-missing-in-init": 1, "collective-not-reached": 1, "rank-desync": 1,
    "collective-stalled": 2, "watchdog-timeout": 2, "watchdog-stuck": 1, "hang-in-init": 2, "hang-after-init": 2,
    "p2p-acs-iommu-hang": 2, "ib-completion-flush": 3, "peer-died": 3, "cuda-driver-shutdown": 3,
    "error-propagated": 3, "unexplained-failure": 3,
}  # fmt: skip


def nearness(name: str) -> int:
    """0 for what can be the first cause; larger for symptoms."""
    return _SYMPTOMS.get(name, 0)


def others(names: tuple[str, ...], *without: str) -> tuple[str, ...]:
    """The names without some."""
    return tuple(n for n in names if n not in without)
