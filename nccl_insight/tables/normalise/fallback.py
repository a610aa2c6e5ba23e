"""What a failure line means that no rule of the grammar knows: the only patterns over texts outside the grammar.

They serve such lines alone, so what they say is a guess: findings that rest on them have low confidence.
"""

from typing import Final

from nccl_insight.language.meanings import Meaning, parse_case

_CASES: Final = (
    "text ~ out of memory => cuda-oom-init root",
    "text ~ system not yet initialized => fabric-manager-issue root",
    "text ~ driver version is insufficient => cuda-driver-too-old root",
    "text ~ cuda failure | cuda error | cumulticast & source = nvls.cc => nvls-multicast-failed root",
    "text ~ imex => mnnvl-imex-missing root",
    "text ~ cuda failure | cuda error | hip failure | hip error | illegal memory access => cuda-unhandled root",
    "text ~ no space left on device => shm-too-small root",
    "text ~ too many open files | failed to malloc | cannot allocate memory & text !~ ibv_ => resource-exhausted root",
    "text ~ modify_qp & text ~ timed out => ib-qp-timeout root",
    "text ~ modify_qp & text ~ unreachable | no route | no such device => ib-qp-unreachable root",
    "text ~ retrieve | dlsym | dlvsym => library-version-mismatch benign",
    "text ~ reg_mr | reg_dmabuf_mr => ib-reg-mr-failed root",
    "text ~ create_cq => ib-create-cq-failed root",
    "text ~ create_qp => ib-create-qp-failed root",
    "text ~ open_device | unable to open device => ib-open-device-failed root",
    "text ~ could not open | cannot open | failed to open & text ~ nccl_ib_hca | mlx4_ | mlx5_ | erdma_ | bnxt_re | "
    "irdma | rdmap | roce => ib-open-device-failed root",
    "text ~ retry_exc | retry exceeded | error 12, | status=12 => ib-completion-retry-exceeded root",
    "text ~ flush_err | flushed error | error 5, | status=5 => ib-completion-flush effect",
    "text ~ got completion & text ~ error | status => ib-completion-error root",
    "text ~ ibv_ | mlx5dv_ => ib-verbs-failed root",
    "text ~ marked as failed | marked as permanently failed | port recovery => ib-device-recovering root",
    "text ~ pkey table | p_key table => ib-partition-key root",
    "text ~ peer gone | connection reset | broken pipe | connection closed | remote process exited => peer-died effect",
    "text ~ connection refused => bootstrap-connect-refused root",
    "text ~ connection timed out => bootstrap-connect-timeout root",
    "text ~ no route to host | network is unreachable => bootstrap-no-route root",
    "text ~ nvml => nvml-failed root",
    "text ~ collective mismatch | message truncated => collective-mismatch root",
    "text ~ argument is null | invalid argument | is not a valid | is invalid => invalid-argument caller",
    "text ~ internal error | should not happen | unexpected | corrupt | out of bounds => nccl-internal-error root",
    "text ~ net/ofi & text ~ completed with error => ofi-request-error root",
    "text ~ net/ofi & text ~ initialization failed | unable to => ofi-plugin-init-failed root",
    "text ~ abort state | job failed | thread failed => error-propagated effect",
    "text ~ nvlink & text ~ degraded | inactive | fewer => nvlink-degraded root",
    "level = ATTN & text ~ git => version-mix root",
    "level = ATTN => nccl-attention root",
)

FALLBACK: Final = Meaning("unexplained-failure", "root", tuple(parse_case(c, "fallback") for c in _CASES))
