"""What a failure line means that no rule of the grammar knows: the only patterns over texts outside the grammar.

They serve such lines alone, so what they say is a guess: findings that rest on them have low confidence.
"""

from __future__ import annotations

from typing import Final

from nccl_insight.language.meanings import Meaning, parse_case

_CASES: Final = (
    "text ~ out of memory => cuda-oom-init",
    "text ~ no space left on device => shm-too-small",
    "text ~ too many open files | failed to malloc | cannot allocate memory => resource-exhausted",
    "text ~ connection reset | broken pipe | connection closed => peer-died effect",
    "text ~ connection refused => bootstrap-connect-refused",
    "text ~ connection timed out => bootstrap-connect-timeout",
    "text ~ no route to host | network is unreachable => bootstrap-no-route",
    "text ~ cuda failure | cuda error | hip failure => cuda-unhandled",
    "text ~ null argument | argument is null | invalid argument => invalid-argument caller",
    "text ~ internal error | should not happen | unexpected state | corrupt => nccl-internal-error",
    "text ~ abort | job failed | thread failed => error-propagated effect",
)

FALLBACK: Final = Meaning("unexplained-failure", "root", tuple(parse_case(c, "fallback") for c in _CASES))
