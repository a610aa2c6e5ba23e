"""Which text is evidence of which diagnosis: the table behind :mod:`nccl_insight.facts.errors`."""

# ruff: noqa: E501
from __future__ import annotations

from typing import Final

BENIGN: Final = "benign"
CONSEQUENCE: Final = "consequence"
ALLOC_FAILED: Final = "alloc-failed"
SHM_FAILED: Final = "shm-failed"
P2P_CUDA: Final = "p2p-cuda"
OTHER: Final = "other"
VAGUE: Final = frozenset({BENIGN, CONSEQUENCE, ALLOC_FAILED, SHM_FAILED, P2P_CUDA, OTHER})


# `with error 12`, `with status=12`, `with status=transport retry counter exceeded(12)`
_WC = r"(?:ompletion|CQE) .*(?:status|error)[= ](?:[A-Za-z_ /-]+\(|\([A-Za-z_ /-]+\))?"

# (cause, text, file): first match wins. ``file`` limits the line to sources of that name, "" to any.
PATTERNS: Final[tuple[tuple[str, str, str], ...]] = (
    # harmless, however loud
    (BENIGN, r"failed to IPC register userbuff|rank [0-9]+ failed to IPC register", ""),
    (BENIGN, r"lib wrapper not initialized", ""),
    (BENIGN, r"^Retrieve \w+|^dlv?sym failed on ", ""),
    (BENIGN, r"Could not find real path of (?:/sys/class/net/|\S+ \(/sys/class/net/)", ""),
    (BENIGN, r"No interface found in the same subnet as remote address", ""),
    (BENIGN, r"Got (?:non-fatal )?async event ?: ?(?:port active|P_Key change|LID change|SM change|client reregistration)", ""),
    (BENIGN, r"didn't receive a valid magic|socket magic mismatch|wrong socket type|handshake receive .* discarding|peer closed before magic|closed before magic handshake", ""),
    (BENIGN, r"peer access is already enabled", ""),
    (BENIGN, r"nvml(?:Shutdown|Device(?:Set|Clear)CpuAffinity)\(.*\) failed|No NVML, trying to use CUDA", ""),
    (BENIGN, r"Both NCCL_CTA_POLICY_ZERO and|NCCL_OOB_NET_IFNAME=.*ignoring", ""),
    (OTHER, r"MNNVL is not supported on this system", ""),
    (CONSEQUENCE, r"^comm(?:Reclaim|DestroySync): ", ""),
    ("ras-port-in-use", r"RAS failed to establish a client listening socket", ""),
    ("ras-port-in-use", r"(?:bind|Bind).*Address already in use", r"ras/"),
    # launch and environment
    ("duplicate-gpu", r"Duplicate GPU detected|Multiple Ranks are using the same GPU", ""),
    ("cuda-driver-too-old", r"driver version is insufficient|not supported in the installed CUDA driver|CUDA driver is older than the minimum|Insufficient driver to use CUDA", ""),
    ("duplicate-rank", r"Bootstrap Root ?: rank [0-9]+ of [0-9]+ ranks has already checked in", ""),
    ("version-mix", r"Mismatched NCCL version detected|NCCL version mismatch with remote peer|NCCL library is not backwards compatible|compiled with too old version of NCCL|NCCL library version is too old", ""),
    ("env-invalid-value", r"Unrecognized (?:element|prefix) token|Invalid NCCL_[A-Z_]+|All entries except the first must have a prefix", ""),
    ("algorithm-unavailable", r"no algorithm/protocol available for function", ""),
    ("forced-network-unavailable", r"Error ?: network .* not found|Failed to initialize any NET plugin", ""),
    # bootstrap
    ("ifname-not-found", r"with family [0-9]+ is neither AF_INET|no device found (?:matching exactly|after excluding)", ""),
    ("bootstrap-no-interface", r"no socket interface found|NET/Socket ?: no interface found|No usable listening interface found|Address family not supported by protocol|Unsupported address family type", ""),
    ("bootstrap-bind-failed", r"(?:Call to bind|bind(?:ing)? to).*(?:failed|Cannot assign|Address already in use)", ""),
    ("bootstrap-connection-closed", r"wrong magic [0-9a-f]+ != ", ""),
    ("ib-completion-retry-exceeded", _WC + r"12\b|IBV_WC_RETRY_EXC_ERR", ""),
    ("ib-completion-retry-exceeded", _WC + r"13\b|IBV_WC_RNR_RETRY_EXC_ERR", ""),
    ("ib-completion-flush", _WC + r"5\b|IBV_WC_WR_FLUSH_ERR", ""),
    ("ib-local-access-violation", _WC + r"9\b|IBV_WC_REM_INV_REQ_ERR|local access violation", ""),
    ("ib-completion-local-prot", _WC + r"(?:4|10|11|6)\b|IBV_WC_LOC_PROT_ERR|IBV_WC_REM_(?:ACCESS|OP)_ERR", ""),
    ("ib-qp-timeout", r"ibv_modify_qp.*(?:timed out|with (?:error )?110\b)", ""),
    ("ib-qp-unreachable", r"ibv_modify_qp.*(?:unreachable|No such device|No route to host|Cannot assign|with (?:error )?(?:101|113|19|99)\b)", ""),
    ("ib-qp-invalid-argument", r"ibv_modify_qp.*failed", ""),
    ("ib-reg-mr-failed", r"(?:ibv_reg_(?:dmabuf_)?mr(?:_iova2?)?|mlx5dv_reg_dmabuf_mr)\b.* failed", ""),
    ("ib-create-cq-failed", r"(?:ibv|mlx5dv)_create_(?:cq|qp)(?:_ex)?(?:\(\))? failed", ""),
    ("ib-open-device-failed", r"ibv_(?:open_device|alloc_pd) failed|Unable to open device", ""),
    ("ib-libibverbs-missing", r"Failed to open libibverbs", ""),
    ("ib-port-error", r"async (?:fatal |non-fatal )?event ?: ?port error|async event.*\bport error", ""),
    ("ib-device-fatal", r"catastrophic error|async fatal event|device fatal", ""),
    (CONSEQUENCE, r"Call to ibv_get_async_event failed", ""),
    ("ib-device-recovering", r"marked as (?:permanently )?failed|Initiating recovery|Detected [0-9]+ failed devices|ncclIbResiliency", ""),
    (OTHER, r"^NET/IB: (?:could not find mr|sendReq|wc->opcode|NCCL_IB_|ncclIbRe[cq]|Failed to allocate|Requested|Unexpected)", ""),
    ("ib-mixed-link-layers", r"Attempted to connect incompatible devices|Remote \S+ device is incompatible with the local", ""),
    ("nic-count-mismatch", r"Detected mixed local Net device counts", ""),
    ("collnet-unavailable", r"CollNet is not supported or fails|Cannot initialize CollNet|port is used by SM|sharp_(?:coll_init|get_local_data|coll_comm_init)|collect_ports_data|Detected mixed local CollNet device counts|fails to share parent comms .* sharp", ""),
    # EFA and other libfabric plugins
    ("efa-provider-missing", r"provider efa output empty list|fi_getinfo\(\) call failed|Insufficient Libfabric devices|Only EFA provider is supported|EFA provider requires at least|No eligible providers", ""),
    ("gdr-broken", r"GDR support reported to NCCL but then couldn't be configured", ""),
    ("ofi-request-error", r"NET/OFI .*completed with error|NET/OFI .*fi_(?:senddata|sendmsg|writedata|read|write|recv|send)\b.*failed", ""),
    ("ofi-plugin-init-failed", r"NET/OFI .*(?:initialization failed|nitializing .*failed|Couldn't open|Unable to (?:open|bind|create|enable)|Failed to initialize .* protocol|exception in plugin init)|aws-ofi-nccl initialization failed", ""),
    (CONSEQUENCE, r"\[Proxy Service [0-9]*\] Failed to execute operation|\[Service thread\]|Proxy Call to rank [0-9]+ failed|Socket recv failed while polling|Could not receive type from localRank|Poll failed|commDestroySync|commReclaim|encountered a fatal error \(detected|is in abort state|ncclAsyncJobComplete|ncclCommSetAsyncError", ""),
    # GPU, fabric
    ("xid-error", r"NVRM: (?:Xid|GPU at .* has fallen)|\bS?Xid \((?:PCI|0)|SXid", ""),
    ("fabric-manager-issue", r"system not yet initialized|Cuda failure 802\b|CUDA error 802\b", ""),
    ("mnnvl-imex-missing", r"MNNVL \(cliqueSize [0-9]+\) is available but not working|IMEX", ""),
    ("cuda-driver-shutdown", r"driver shutting down", ""),
    ("cuda-init-error", r"Cuda failure (?:3 )?'initialization error'|CUDA.*initialization error|CUDA_ERROR_NOT_INITIALIZED", ""),
    ("nvls-multicast-failed", r"NVLS\) [Mm]ulticast|[Mm]ulticast (?:bind|memory|group).*(?:fail|error)|cuMulticast\w+.*fail", ""),
    ("cuda-oom-init", r"(?i)(?:cuda|hip|gpu)\b.*out of memory|cuMem(?:Create|AddressReserve).*out of memory", ""),
    ("cumem-import-failed", r"cuMemImportFromShareableHandle|Import of shareable handle|failed to open CUDA IPC handle|cudaIpcOpenMemHandle", ""),
    ("cumem-import-failed", r"Cuda failure (?:101|400|1) |Cuda failure '(?:invalid device ordinal|invalid resource handle|invalid argument)'", r"(?:^|/)p2p\."),
    ("nvls-multicast-failed", r"Cuda failure|CUDA error", r"(?:^|/)nvls\."),
    ("cuda-unhandled", r"Cuda failure|CUDA error|HIP failure|hipError|unspecified launch failure|illegal memory access", ""),
    (ALLOC_FAILED, r"Failed to (?:CUDA|HIP) (?:m|c)?(?:alloc|host alloc)|Failed to (?:CUDA|HIP)", ""),
    ("nvml-failed", r"nvml\w+\(.*\) failed|NVML failure|Failed to open libnvidia-ml", ""),
    ("kernel-sharedmem-limit", r"[mM]axSharedMem .*exceeds", ""),
    # topology
    ("topo-pci-path-missing", r"Could not find real path of \S*/(?:pci|devices/pci)", ""),
    ("topo-file-missing", r"Could not open XML (?:topology|graph) file", ""),
    ("topo-xml-invalid", r"Attribute \S+ of node \S+ not found|XML Parse|XML Mismatch|XML (?:Topology|Graph) has wrong version|XML parser is limited|Failed to find reverse path|could not find CPU numa ID|Could not find (?:id|node|NET|net id)\b|error ?: could not find (?:DEV|GPU|PCI SW)|too many (?:XML|Topo)|No path computed to go|Could not find rev link|tried to create too many nodes", ""),
    ("kernel-cmdline-iommu-missing", r"iommu=(?:pt|on).* from kernel command line|Missing \"iommu=pt\"", ""),
    # memory
    ("shm-permission", r"(?:shm_open|/dev/shm|shared memory).*Permission denied|Permission denied.*/dev/shm", ""),
    ("shm-too-small", r"(?:/dev/shm|shared memory|shm|allocate).*No space left|[Ff]ailed to extend /dev/shm", ""),
    ("shm-permission", r"Permission denied", r"shm"),
    ("shm-attach-missing", r"attaching to shared memory segment|shm_open.*No such file|unlink shared memory .* failed.*No such file", ""),
    ("shm-attach-missing", r"No such file or directory", r"shm"),
    (OTHER, r"(?:creating shared memory segment|create shared memory file|allocate shared memory|map /dev/shm).*(?:, error:? |: )[A-Z]", ""),
    (SHM_FAILED, r"creating shared memory segment|failed to create shared memory file|Unable to allocate shared memory|Could not map /dev/shm", ""),
    # the application's calls
    ("collective-mismatch", r"Mismatched collective detected|collective mismatch|message truncated : receiving|posted incorrect receive info", ""),
    ("collective-mismatch", r"Message truncated : received", r"net_socket\."),
    (OTHER, r"Message truncated : received", ""),
    ("send-recv-unmatched", r"Trying to (?:send|recv) to self without a matching", ""),
    ("invalid-argument", r"^\w+ ?: invalid (?:root|type|reduction operation|rank|count)|is not a valid pointer|argument is NULL|mismatchs with NCCL device|Invalid rank requested|nvalid device count|Data type supplied to user-created|improper usage of ncclCommInit|Invali[dg] config \w+ attribute|ncclConfig_t argument not initialized|reduction operation [0-9]+ unknown to this communicator|peer -?[0-9]+ is not within valid range|not in a group call|must be a multiple|communicators? in (?:a ncclGroup|graph mode)|ncclCommWindowRegister: invalid pointer", ""),
    # frameworks
    ("watchdog-timeout", r"Watchdog caught collective operation timeout|[Ww]atchdog.*tim(?:ed|e) ?out", ""),
    ("nccl-diag-failed", r"NCCL DIAG \[(?:FAIL|ERROR|WARN)", ""),
    # the network, least specific last
    ("bootstrap-connect-refused", r"[Cc]onnect\b.*(?:Connection refused|Software caused connection abort|No route to host|Network is unreachable)", ""),
    ("bootstrap-connect-timeout", r"[Cc]onnect\b.*(?:timed out|timeout)|exceeded timeouts", ""),
    ("bootstrap-connect-refused", r"[Cc]onnect\b.*exceeded (?:error )?retr", ""),
    ("peer-died", r"Connection (?:closed|reset) by (?:remote )?peer|Broken pipe|ncclRemoteError|remote process exited or there was a network error", ""),
)  # fmt: skip
