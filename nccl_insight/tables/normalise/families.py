"""What an error line is evidence of, where its wording alone does not tell: by status, errno and error text.

The family is the name of a diagnosis or ``other``. Sources: the verbs API (ibv_wc_status, ibv_event_type), the CUDA
runtime's error texts, errno(3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import polars as pl

OTHER: Final = "other"
Cases = Sequence[tuple[str, str]]

# ibv_wc_status: 4 local protection, 5 flushed, 12 retries exceeded (13: receiver not ready, same remedy path);
# 9 and 10 are answers of the other side to a bad address or key.
_COMPLETION: Final = {
    4: "ib-completion-local-prot", 5: "ib-completion-flush", 9: "ib-local-access-violation",
    10: "ib-local-access-violation", 12: "ib-completion-retry-exceeded", 13: "ib-completion-retry-exceeded",
}  # fmt: skip
_ASYNC: Final[Cases] = (
    ("local access violation", "ib-local-access-violation"),
    ("catastrophic", "ib-device-fatal"),
    ("device fatal", "ib-device-fatal"),
    ("port error", "ib-port-error"),
    ("port_err", "ib-port-error"),
)
_CUDA: Final[Cases] = (
    ("out of memory", "cuda-oom-init"),
    ("driver version is insufficient", "cuda-driver-too-old"),
    ("api call is not supported in the installed cuda driver", "cuda-driver-too-old"),
    ("not supported in the installed", "cuda-driver-too-old"),
    ("forward compatibility", "cuda-driver-too-old"),
    ("unsupported toolchain", "cuda-driver-too-old"),
    ("driver shutting down", "cuda-driver-shutdown"),
    ("initialization error", "cuda-init-error"),
    ("system not yet initialized", "fabric-manager-issue"),
    ("invalid device ordinal", "cumem-import-failed"),
    ("invalid resource handle", "cumem-import-failed"),
)
_SHM: Final[Cases] = (
    ("no space left", "shm-too-small"),
    ("cannot allocate memory", "shm-too-small"),
    ("permission denied", "shm-permission"),
    ("operation not permitted", "shm-permission"),
    ("read-only file system", "shm-permission"),
    ("no such file", "shm-attach-missing"),
    ("file exists", OTHER),
)
_SOCKET: Final[Cases] = (
    ("connection refused", "bootstrap-connect-refused"),
    ("software caused connection abort", "bootstrap-connect-refused"),
    ("connection timed out", "bootstrap-connect-timeout"),
    ("no route to host", "bootstrap-connect-timeout"),
    ("network is unreachable", "bootstrap-connect-timeout"),
    ("address family not supported", "bootstrap-no-interface"),
    ("cannot assign requested address", "bootstrap-bind-failed"),
    ("address already in use", "bootstrap-bind-failed"),
    ("connection reset", "peer-died"),
    ("broken pipe", "peer-died"),
    ("closed by remote peer", "peer-died"),
)


def _by_text(text: pl.Expr, cases: Cases, otherwise: str) -> pl.Expr:
    lowered = text.fill_null("").str.to_lowercase()
    family = pl.lit(otherwise)
    for needle, name in reversed(cases):
        family = pl.when(lowered.str.contains(needle, literal=True)).then(pl.lit(name)).otherwise(family)
    return family.alias("family")


def _text(frame: pl.DataFrame) -> pl.Expr:
    parts = [pl.col(c) for c in ("error_text", "reason") if c in frame.columns]
    return pl.concat_str(parts, separator=" ", ignore_nulls=True) if parts else pl.lit("")


def _number(frame: pl.DataFrame, name: str) -> pl.Expr:
    return pl.col(name).cast(pl.Int64, strict=False) if name in frame.columns else pl.lit(None, pl.Int64)


def _word(frame: pl.DataFrame, *names: str) -> pl.Expr:
    found = [pl.col(n) for n in names if n in frame.columns]
    return pl.coalesce(found).fill_null("") if found else pl.lit("")


def ib_completion_family(frame: pl.DataFrame) -> pl.DataFrame:
    """By ``status``, an ibv_wc_status."""
    status = pl.col("status").cast(pl.Int32, strict=False)
    return frame.with_columns(
        family=status.replace_strict(_COMPLETION, default=OTHER, return_dtype=pl.String)
    )


def ib_async_family(frame: pl.DataFrame) -> pl.DataFrame:
    """By the text of an asynchronous verbs event; events that the library says it ignores are ``other``."""
    family = _by_text(_word(frame, "event_text"), _ASYNC, OTHER)
    if "outcome" in frame.columns:
        hopeless = pl.col("outcome").fill_null("") != "ignored"
        port = family == "ib-port-error"
        family = pl.when(hopeless | port).then(family).otherwise(pl.lit(OTHER)).alias("family")
    return frame.with_columns(family)


def cuda_failure_family(frame: pl.DataFrame) -> pl.DataFrame:
    """By the CUDA error's text, else by its number (802: Fabric Manager; 35, 36: old driver; 2: out of memory)."""
    family = _by_text(_text(frame), _CUDA, "cuda-unhandled")
    code = _number(frame, "cuda_error")
    by_code = {2: "cuda-oom-init", 4: "cuda-driver-shutdown", 35: "cuda-driver-too-old", 36: "cuda-driver-too-old",
               802: "fabric-manager-issue", 803: "cuda-driver-too-old", 804: "cuda-driver-too-old"}  # fmt: skip
    known = code.replace_strict(by_code, default=None, return_dtype=pl.String)
    source = pl.col("_source").fill_null("")
    # 800 in the MNNVL path: the IMEX channel cannot be used; a failure in nvls.cc is one of multicast.
    imex = (code == 800) | _text(frame).str.contains("operation not permitted", literal=True)
    nvls = source.str.contains("nvls.cc", literal=True)
    handles = source.str.contains(r"p2p\.cc|shm\.cc|allocator|alloc\.h|mnnvl")
    generic = family == "cuda-unhandled"
    return frame.with_columns(
        family=pl.when(nvls & (generic | imex))
        .then(pl.lit("nvls-multicast-failed"))
        .when(imex & handles)
        .then(pl.lit("mnnvl-imex-missing"))
        .when((code == 101) & source.str.contains(r"p2p\.cc|cumem|mem"))
        .then(pl.lit("cumem-import-failed"))
        .when(generic)
        .then(pl.coalesce(known, family))
        .otherwise(family)
    )


def shm_error_family(frame: pl.DataFrame) -> pl.DataFrame:
    """By errno's text; a failure to extend a segment without one is lack of space (2.12-2.21 print none)."""
    errno = _number(frame, "errno").replace_strict(
        {28: "shm-too-small", 12: "shm-too-small", 13: "shm-permission", 1: "shm-permission", 2: "shm-attach-missing"},
        default=None, return_dtype=pl.String,
    )  # fmt: skip
    family = _by_text(_text(frame), _SHM, OTHER)
    return frame.with_columns(family=pl.when(family == OTHER).then(errno.fill_null(OTHER)).otherwise(family))


def socket_error_family(frame: pl.DataFrame) -> pl.DataFrame:
    """By errno's text. A refused or slow connect that NCCL retries counts too; the rules look at ``outcome``."""
    return frame.with_columns(_by_text(_text(frame), _SOCKET, OTHER))


def nvml_family(frame: pl.DataFrame) -> pl.DataFrame:
    """Failures of NVML calls; the wrapper also reports verbs calls under the same wording.

    "Not Supported" is the normal answer of consumer cards to questions about NVLink or ECC.
    """
    function = _word(frame, "nvml_function", "function")
    failed = function.str.starts_with("nvml") & (
        _word(frame, "error_text").str.to_lowercase() != "not supported"
    )
    return frame.with_columns(family=pl.when(failed).then(pl.lit("nvml-failed")).otherwise(pl.lit(OTHER)))


def call_family(frame: pl.DataFrame) -> pl.DataFrame:
    """``Call to X failed``: by function, then errno or its text."""
    function = _word(frame, "function", "post_function")
    text = pl.concat_str(
        [_text(frame).fill_null(""), _word(frame, "call_detail")], separator=" "
    ).str.to_lowercase()
    errno = _number(frame, "errno")

    def says(number: int | tuple[int, ...], *words: str) -> pl.Expr:
        numbers = number if isinstance(number, tuple) else (number,)
        found = errno.is_in(numbers).fill_null(False)
        for word in words:
            found |= text.str.contains(word, literal=True)
        return found

    modify = function.str.contains("ibv_modify_qp", literal=True)
    register = function.str.contains("ibv_reg_(dmabuf_)?mr")
    cq = function.str.contains("ibv_create_cq", literal=True)
    connect = function.str.contains("connect", literal=True)
    segment = function.str.contains("shm_open|ftruncate|fallocate|mmap")
    ras = pl.col("_source").fill_null("").str.contains("ras/", literal=True)
    cases = [
        (modify & says(110, "timed out"), "ib-qp-timeout"),
        (modify & says(22, "invalid argument"), "ib-qp-invalid-argument"),
        (modify & says((19, 101, 113), "unreachable", "no such device", "no route"), "ib-qp-unreachable"),
        (modify, "ib-qp-unreachable"),
        (register, "ib-reg-mr-failed"),
        (cq, "ib-create-cq-failed"),
        (function.str.contains("ibv_open_device", literal=True), "ib-open-device-failed"),
        (connect & says(111, "refused", "abort"), "bootstrap-connect-refused"),
        (connect & says((110, 113), "timed out", "no route"), "bootstrap-connect-timeout"),
        # Another process of the host serves the port of RAS already: harmless.
        (function.str.contains("bind", literal=True) & ras, "ras-port-in-use"),
        (
            function.str.contains("bind|listen") & says((98, 99), "cannot assign", "in use"),
            "bootstrap-bind-failed",
        ),
        (segment & says(28, "no space left"), "shm-too-small"),
        (segment & says((1, 13), "permission denied"), "shm-permission"),
        (segment & says(2, "no such file"), "shm-attach-missing"),
        (says((104, 32), "connection reset", "broken pipe"), "peer-died"),
    ]
    family = pl.lit(OTHER)
    for condition, name in reversed(cases):
        family = pl.when(condition).then(pl.lit(name)).otherwise(family)
    return frame.with_columns(family=family)


def ofi_family(frame: pl.DataFrame) -> pl.DataFrame:
    """OFI plugin: start-up calls, requests that completed with an error, and all the rest (``other``)."""
    text = pl.concat_str(
        [_text(frame), _word(frame, "failed_call"), pl.col("_body")], separator=" ", ignore_nulls=True
    )
    lowered = text.str.to_lowercase()
    request = lowered.str.contains("completed with error|request .* error|cq (read|error)|fi_cq_read")
    provider = lowered.str.contains("no eligible providers|find.* provider|output empty list|fi_getinfo")
    start = lowered.str.contains(
        r"initiali[sz]|(?:open|creat|enabl|bind|allocat)[a-z]* .*(?:\bav\b|\bcq\b|\bep\b|ep-|endpoint|domain|fabric|"
        r"completion queue|address vector|device)|exception in (?:plugin|rdma|sendrecv|gin)"
    )
    return frame.with_columns(
        family=pl.when(provider)
        .then(pl.lit("efa-provider-missing"))
        .when(request)
        .then(pl.lit("ofi-request-error"))
        .when(start)
        .then(pl.lit("ofi-plugin-init-failed"))
        .otherwise(pl.lit(OTHER))
    )


def library_family(frame: pl.DataFrame) -> pl.DataFrame:
    """A shared library that cannot be opened: only the missing NVML is a diagnosis of its own."""
    nvml = _word(frame, "missing_library").str.contains("libnvidia-ml", literal=True)
    return frame.with_columns(family=pl.when(nvml).then(pl.lit("nvml-failed")).otherwise(pl.lit(OTHER)))


def libfabric_family(frame: pl.DataFrame) -> pl.DataFrame:
    """Warnings of libfabric itself, by what they say; most are of no consequence."""
    text = _text(frame)
    return frame.with_columns(
        family=pl.when(text.str.contains("provider efa output empty list", literal=True))
        .then(pl.lit("efa-provider-missing"))
        .when(text.str.contains("[Uu]nable to create extended CQ"))
        .then(pl.lit("ofi-plugin-init-failed"))
        .when(text.str.contains(r"prov_err|completed with error|[Uu]nreachable remote"))
        .then(pl.lit("ofi-request-error"))
        .otherwise(pl.lit(OTHER))
    )


NORMALISERS: Final[Mapping[str, Callable[[pl.DataFrame], pl.DataFrame]]] = {
    f.__name__: f
    for f in (
        ib_completion_family, ib_async_family, cuda_failure_family, shm_error_family, socket_error_family, nvml_family,
        call_family, ofi_family,
        library_family, libfabric_family,
    )
}  # fmt: skip
