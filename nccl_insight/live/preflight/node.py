"""Reading the node: files under ``/proc`` and ``/sys``, limits, tools. Nothing is written or changed."""

import ctypes
import importlib.util
import os
import platform
import resource
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from nccl_insight.base.data import dataclass, field
from nccl_insight.live.capture.environment import gpu_count
from nccl_insight.live.capture.processes import Output, run_short

_NVML = Path(__file__).with_name("nvml.py")
_MOST_RECORDS = 200_000
_TIMEX_BYTES = 512
_TIME_ERROR = 5


@dataclass(frozen=True)
class Node:
    """A machine as its files show it; ``root`` is another directory than ``/`` in tests."""

    environ: Mapping[str, str]
    root: Path = Path("/")
    name: str = field(default_factory=platform.node)
    kernel: str = field(default_factory=platform.release)

    def read(self, path: str) -> str:
        """A small text file, stripped; empty if it is not there or not readable."""
        return self.read_bytes(path).decode("utf-8", "replace").strip()

    def read_bytes(self, path: str) -> bytes:
        """A small binary file; empty if it is not there or not readable."""
        try:
            return (self.root / path.lstrip("/")).read_bytes()[:65536]
        except OSError:
            return b""

    def entries(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty if it is not there."""
        try:
            return sorted(os.listdir(self.root / path.lstrip("/")))
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        """Whether the path is there."""
        return (self.root / path.lstrip("/")).exists()

    def size_of(self, path: str) -> tuple[int, int] | None:
        """Total and free bytes of the file system at the path."""
        try:
            found = os.statvfs(self.root / path.lstrip("/"))
        except OSError:
            return None
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def limit(self, which: int) -> int | None:
        """A soft limit of this process; None when unlimited."""
        soft, _ = resource.getrlimit(which)
        return None if soft == resource.RLIM_INFINITY else soft

    def gpus(self) -> int:
        """GPUs that processes of this environment may use."""
        return gpu_count(self.environ, str(self.root / "dev"))

    def gpu_names(self) -> list[str]:
        """Product names of the GPUs, from the driver's files."""
        names = []
        for entry in self.entries("/proc/driver/nvidia/gpus"):
            text = self.read(f"/proc/driver/nvidia/gpus/{entry}/information")
            names += [line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("Model:")]
        return names

    @staticmethod
    def package(*names: str) -> str | None:
        """Version of the first installed Python package of these names, without importing it."""
        for name in names:
            try:
                return metadata.version(name)
            except metadata.PackageNotFoundError:
                continue
        return None

    def kernel_log(self) -> str | None:
        """Messages of the kernel since it started, as far as it keeps them; None if they are not readable."""
        try:
            descriptor = os.open(self.root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return None
        found: list[bytes] = []
        try:
            for _ in range(_MOST_RECORDS):
                block = os.read(descriptor, 8192)
                if not block:
                    break
                found.append(block)
        except OSError:  # nothing more to read, or records that were overwritten meanwhile
            pass
        finally:
            os.close(descriptor)
        return b"".join(found).decode("utf-8", "replace")

    def clock_synchronized(self) -> bool | None:
        """Whether the kernel says that its clock follows a reference (adjtimex); None where it cannot be asked."""
        buffer = ctypes.create_string_buffer(_TIMEX_BYTES)  # modes = 0: only read
        try:
            state = ctypes.CDLL(None, use_errno=True).adjtimex(buffer)
        except (OSError, AttributeError):
            return None
        return None if state < 0 else state != _TIME_ERROR

    def nvml(self, timeout_s: float = 4.0) -> Output:
        """What NVML says, as JSON, asked in a process of its own; ``missing`` without nvidia-ml-py."""
        if importlib.util.find_spec("pynvml") is None:
            return Output("missing")
        return run_short((sys.executable, str(_NVML)), timeout_s)

    def tool(self, *argv: str, timeout_s: float = 5.0) -> Output:
        """Runs a tool of the system; its time limit always holds."""
        return run_short(argv, timeout_s)
