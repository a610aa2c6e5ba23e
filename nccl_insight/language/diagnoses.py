"""The names that a message's meaning may be given: every diagnosis of the catalog."""

from typing import Final

_NAMES: Final = """
    algorithm-surprising algorithm-unavailable alltoall-imbalanced application-exception
    benchmark-below-expected bootstrap-bind-failed bootstrap-connect-refused bootstrap-connect-timeout
    bootstrap-connection-closed bootstrap-failed bootstrap-no-interface bootstrap-no-route
    busbw-below-expected busbw-outlier channel-count-mismatch clocks-not-comparable collective-mismatch
    collective-not-reached collective-skew collective-stalled collnet-unavailable comm-dominates-step
    communicator-incomplete communicator-leak confidential-computing cuda-driver-mismatch
    cuda-driver-shutdown cuda-driver-too-old cuda-hardware-error cuda-init-error cuda-oom-init
    cuda-unhandled cumem-host-alloc-failed cumem-import-failed debug-output-insufficient
    device-api-unavailable driver-mix duplicate-gpu duplicate-rank efa-provider-missing
    efa-security-group env-deprecated env-invalid-value env-mismatch env-recommended-unset
    env-tuning-pinned env-unknown-name error-propagated exposed-communication fabric-manager-issue gpu-idle
    forced-network-unavailable gdr-broken gdr-distance gdr-not-used gdrcopy-failed gin-backend-error
    gpu-isolation gpu-nic-distance gpu-throttled graph-inconsistent graph-speed-mismatch hang-after-init
    hang-in-init host-check-failed host-tuning ib-completion-error ib-completion-flush
    ib-completion-local-prot ib-completion-retry-exceeded ib-create-cq-failed ib-create-qp-failed
    ib-cross-rail ib-device-fatal ib-device-recovering ib-fabric-isolation ib-gid-changed ib-gid-index
    ib-libibverbs-missing ib-local-access-violation ib-mixed-link-layers ib-no-device
    ib-open-device-failed ib-partition-key ib-port-error ib-qp-invalid-argument ib-qp-timeout
    ib-qp-unreachable ib-queue-error ib-reg-mr-failed ib-verbs-failed ifname-not-found ifname-wrong
    init-slow invalid-argument job-ended-by-scheduler kernel-cmdline-iommu-missing
    kernel-sharedmem-limit known-bad-version late-once launch-failed library-version-mismatch
    link-errors link-flap log-torn log-truncated low-bandwidth memlock-limit mixed-networks
    mnnvl-imex-missing mnnvl-not-used msccl-algorithm-invalid msccl-unavailable mtu-mismatch
    nccl-attention nccl-diag-failed nccl-internal-error nccl-memory-high net-plugin-error
    net-plugin-load-failed net-socket-by-config net-socket-fallback network-congestion
    nic-count-mismatch nic-shared-by-gpus nic-speed-mismatch no-overlap no-transport nvlink-degraded
    nvls-multicast-failed nvls-not-used nvml-failed ofi-plugin-init-failed ofi-rail-mismatch
    ofi-reg-mr-failed ofi-request-error p2p-acs-iommu-hang p2p-disabled-by-env p2p-disabled-on-nvlink
    p2p-ipc-handle-failed p2p-not-available p2p-staged-through-host p2p-through-cpu p2p-ungrouped
    pageable-copies pcie-link-degraded peer-died plain-note process-crashed process-killed rank-desync
    rank-missing-in-init ras-incomplete ras-mismatch ras-port-in-use requested-plugin-missing
    resource-exhausted ring-crosses-nodes-often rings-unbalanced rocm-smi-failed scaling-hint
    send-recv-unmatched separate-jobs several-attempts several-jobs shm-attach-missing shm-permission
    shm-too-small socket-latency-on-single-node step-regression straggler-rank telemetry-dropped
    too-many-small-collectives topo-file-missing topo-pci-path-missing topo-search-fallback
    topo-xml-invalid trace-metadata-missing trace-truncated unexplained-failure unlike-the-others
    version-mix watchdog-stuck watchdog-timeout wrong-results xid-error
"""

DIAGNOSES: Final = frozenset(_NAMES.split())
