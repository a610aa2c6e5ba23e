"""Checks of Kubernetes manifests beyond variables: shared memory and locked memory of GPU pods."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccl_insight.model import Severity
from nccl_insight.settings.check import Issue

_GPUS = re.compile(r"^[ \t]*[\"']?(?:nvidia|amd)\.com/gpu[\"']?\s*:\s*[\"']?([0-9]+)", re.M)
_RDMA = re.compile(r"^[ \t]*[\"']?(?:rdma/[\w.-]+|nvidia\.com/(?:hostdev|mlnxnics|sriov[\w-]*)|[\w.-]+/(?:ib|roce)[\w-]*)[\"']?\s*:\s*[\"']?[1-9]", re.M)  # fmt: skip  # noqa: E501


def check_pods(text: str) -> Iterator[tuple[int, Issue]]:
    """``(line, issue)`` for every document of the manifest."""
    line = 1
    for document in re.split(r"(?m)^---[^\n]*$", text):
        yield from _document(document, line)
        line += document.count("\n")


def _document(text: str, first_line: int) -> Iterator[tuple[int, Issue]]:
    bare = re.sub(r"(?m)#.*$", "", text)
    gpus = [(int(m[1]), first_line + bare.count("\n", 0, m.start(1))) for m in _GPUS.finditer(bare)]
    many = [(count, line) for count, line in gpus if count > 1]
    if (
        many
        and "/dev/shm" not in bare
        and not re.search(r"hostIPC\s*:\s*true|shmSize|shm_size|sizeMemory", bare)
    ):
        count, line = many[0]
        yield line, Issue(
            "shm-too-small", Severity.WARNING, "",
            f"a container with {count} GPUs mounts nothing at /dev/shm, which is then 64 MiB",
            "Mount an emptyDir with medium: Memory at /dev/shm.",
            "NCCL and data loaders put segments for every pair of processes into /dev/shm.", "64 MiB", "1 GiB or more",
        )  # fmt: skip
    rdma = _RDMA.search(bare)
    if rdma is not None and "IPC_LOCK" not in bare and not re.search(r"privileged\s*:\s*true", bare):
        yield first_line + bare.count("\n", 0, rdma.end()), Issue(
            "memlock-limit", Severity.WARNING, "",
            "a container asks for RDMA devices without the capability IPC_LOCK",
            "Add securityContext.capabilities.add: [IPC_LOCK].",
            "RDMA registers pinned memory, which the locked-memory limit forbids otherwise.",
        )  # fmt: skip
