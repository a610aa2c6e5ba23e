"""Which diagnoses stop a process, and so explain what its peers then report."""

from __future__ import annotations

from typing import Final

CONFIGURATION: Final = (
    "duplicate-gpu", "duplicate-rank", "version-mix", "separate-jobs", "cuda-driver-too-old",
    "env-invalid-value", "algorithm-unavailable", "forced-network-unavailable", "invalid-argument",
    "library-version-mismatch", "ifname-not-found", "bootstrap-no-interface", "bootstrap-bind-failed",
    "mixed-networks", "nic-count-mismatch",
)  # fmt: skip

DEVICE: Final = (
    "xid-error", "fabric-manager-issue", "mnnvl-imex-missing", "nvls-multicast-failed", "cumem-import-failed",
    "cuda-oom-init", "cuda-init-error", "cuda-unhandled", "kernel-sharedmem-limit", "nvml-failed",
    "topo-pci-path-missing", "topo-xml-invalid", "p2p-disabled-on-nvlink", "graph-inconsistent", "no-transport",
    "p2p-ipc-handle-failed", "rocm-smi-failed",
)  # fmt: skip

MEMORY: Final = ("shm-too-small", "shm-permission", "shm-attach-missing", "memlock-limit")

NETWORK: Final = (
    "ib-device-fatal", "ib-port-error", "ib-reg-mr-failed", "ib-create-cq-failed", "ib-qp-timeout",
    "ib-qp-unreachable", "ib-qp-invalid-argument", "ib-local-access-violation", "ib-completion-local-prot",
    "ib-completion-retry-exceeded", "ib-create-qp-failed", "ib-completion-error", "ib-partition-key",
    "ofi-plugin-init-failed", "ofi-request-error", "ofi-reg-mr-failed", "ofi-rail-mismatch",
)  # fmt: skip

BOOTSTRAP: Final = (
    "ifname-wrong", "bootstrap-connect-timeout", "bootstrap-connect-refused", "bootstrap-no-route",
)  # fmt: skip

APPLICATION: Final = ("collective-mismatch", "collective-not-reached", "send-recv-unmatched")

STARTUP: Final = (*CONFIGURATION, *DEVICE, *MEMORY, *NETWORK)
ANY: Final = (*STARTUP, *BOOTSTRAP, *APPLICATION)


def others(names: tuple[str, ...], *without: str) -> tuple[str, ...]:
    """The names without some."""
    return tuple(n for n in names if n not in without)
