"""Stacks of processes: py-spy, gdb, pstack, cuda-gdb, faulthandler, backtraces printed at a signal, /proc/PID/stack."""

import re
from typing import Final

from nccl_insight.base import texts
from nccl_insight.readers.host_tools.model import Found, Output, count, listed

_RE: Final = texts.compiled(__file__)

_SHOWN: Final = 4
#: A function that the writer of a stack could not name.
NAMELESS: Final = "(unnamed)"
# Frames as UCX and glibc, UCX with debug symbols, torch, and glog write them.
_NATIVE: Final = ("backtrace", "native", "torch_frame", "glog_frame")
_RANK: Final = r"(?:global[_-]?)?rank[=_ :.-]*([0-9]{1,6})\b"


class _Thread:
    """The process and thread that the next frames are of."""

    def __init__(self, out: Output, found: Found) -> None:
        self._found = found
        rank = out.argument(r"(?i)" + _RANK)
        self.rank = int(rank) if rank else None
        pid = out.argument(r"(?:-p|--pid|pstack|attach)\s+([0-9]{2,8})\b") or out.argument(r"pid[_.-]?([0-9]{2,8})")
        self.pid: int | None = int(pid) if pid else None
        self.name = ""
        self.depth = 0
        self.tops: list[list[str]] = []
        self.threads = 0

    def process(self, pid: str, command: str = "") -> None:
        self.pid = int(pid)
        if match := re.search(r"--(?:node_?|global[_-])?rank[= ]([0-9]{1,6})\b", command):
            self.rank = int(match[1])

    def thread(self, name: str) -> None:
        self.name, self.depth = name, 0
        self.threads += 1

    def frame(self, line: int, function: str, library: str | None, file: str | None, number: str | None) -> None:
        shown = f"{function} ({(file or library or '').rsplit('/', 1)[-1]})" if file or library else function
        if self.depth == 0 and len(self.tops) < 8:
            self.tops.append([shown])
        elif self.tops and 0 < self.depth == len(self.tops[-1]) < _SHOWN:
            self.tops[-1].append(shown)
        who = {"pid": self.pid, "rank": self.rank, "thread": self.name[:120], "depth": self.depth}
        at = int(number) if number else None
        self._found.frame(line=line, **who, function=function[:300], library=library, file=file, line_number=at)
        self.depth += 1

    def says(self) -> str:
        """Of what process, how many threads, where they stand."""
        who = f"process {self.pid}" if self.pid else "a process"
        at = f", in {listed([' < '.join(top) for top in self.tops], 3)}" if self.tops else ""
        return f"{who}: {count(max(self.threads, 1), 'thread')}{at}"


def _py_spy(out: Output, found: Found) -> str:
    now = _Thread(out, found)
    for line, text in out.lines:
        if match := re.match(r"Process ([0-9]+): (.*)", text):
            now.process(match[1], match[2])
        elif match := re.match(r"Thread (\S+) \(([^)]*)\)(?:: \"(.*)\")?", text):
            now.thread(f"{match[3] or match[1]} ({match[2]})")
        elif frame := _RE["pyspy_frame"].match(text):
            native = frame["line"] is None or frame["file"].endswith(".so") or ".so." in frame["file"]
            library, file = (frame["file"], None) if native else (None, frame["file"])
            now.frame(line, frame["what"], library, file, frame["line"])
    return now.says()


def _gdb(out: Output, found: Found) -> str:
    """gdb, pstack, eu-stack and cuda-gdb; the arguments of a function may fill several lines."""
    now = _Thread(out, found)
    kernels: list[str] = []
    for line, text in out.lines:
        if match := re.match(r"(?:PID|TID) ([0-9]+)(?: - .*|:)", text):
            now.process(match[1]) if text.startswith("PID") else now.thread(match[1])
        elif match := _RE["attached"].search(text):
            now.process(match[1] or match[2])
        elif match := _RE["thread"].match(text):
            now.thread(f"{match[1]}{match[3].rstrip('):')}")
            if match[1] == "1" and match[2]:
                now.pid = now.pid or int(match[2])
        elif kernel := _RE["kernel"].match(text):
            kernels.append(kernel["call"].split("(")[0])
            found.fact(line, f"GPU {kernel['dev']}", f"kernel.{kernel['state'].lower()}", kernel["call"])
        elif frame := _RE["gdb_frame"].match(text):
            now.depth = int(frame["n"])
            args = frame["args"] or ""
            library = re.search(r"\) from (\S+)|from (\S+)\s*$", args)
            place = re.search(r"\) at ([^\s:]+)(?::([0-9]+))?\s*$", args)
            file, number = place.groups() if place else (None, None)
            now.frame(line, frame["what"], (library[1] or library[2]) if library else None, file, number)
    parts = [f"{count(len(kernels), 'kernel')} on the GPUs: {listed(sorted(set(kernels)), 4)}"] if kernels else []
    return "; ".join([*parts, *([now.says()] if now.tops else [])]) or "no frame"


def _torch(out: Output, found: Found) -> str:
    """What torch's watchdog kept of where a collective was called: innermost first."""
    now = _Thread(out, found)
    for line, text in out.lines:
        if frame := re.match(r"#[0-9]+ (?P<what>\S.*) from (?P<file>\S+):(?P<line>[0-9]+)\s*$", text):
            now.frame(line, frame["what"], None, frame["file"], frame["line"])
    return now.says()


def _faulthandler(out: Output, found: Found) -> str:
    now = _Thread(out, found)
    for line, text in out.lines:
        if match := _RE["python_thread"].match(text):
            now.thread(f"{match[3] or match[2]}{' (current)' if match[1].startswith('C') else ''}")
        elif frame := re.match(r'\s*File "(?P<file>[^"]*)", line (?P<line>[0-9?]+) in (?P<what>\S.*)', text):
            now.frame(line, frame["what"], None, frame["file"], frame["line"] if frame["line"].isdigit() else None)
    return now.says()


def _backtrace(out: Output, found: Found) -> str:
    """What UCX, Open MPI, glibc, torch, glog and abseil print at a signal."""
    now = _Thread(out, found)
    for line, text in out.lines:
        if match := _RE["caught"].match(text):
            now.process(match["pid"] or match["of"])
        elif match := re.search(r"backtrace \(tid:\s*([0-9]+)\)", text):
            now.thread(match[1])
        elif frame := next((f for name in _NATIVE if (f := _RE[name].search(text))), None):
            told = frame.groupdict()
            now.pid = int(told.get("pid") or 0) or now.pid
            now.depth = int(told.get("n") or now.depth)
            name = _RE["nameless"].sub("", told["what"].removesuffix("()")) or NAMELESS
            file = told.get("file") if (told.get("file") or "").strip("?") else None
            now.frame(line, name, told.get("library"), file, told.get("line") if file else None)
    own = (str(f["library"]) for f in found.stacks if f["pid"] == now.pid and f["library"])
    libraries = sorted({library.rsplit("/", 1)[-1] for library in own})
    return f"{now.says()}; libraries {listed(libraries, 6)}" if libraries else now.says()


def _kernel(out: Output, found: Found) -> str:
    now = _Thread(out, found)
    for line, text in out.lines:
        if match := re.match(r"\[<[0-9a-f]+>\]\s+(\S+?)(?:\+0x\S+)?(?:\s+\[(\w+)\])?\s*$", text):
            now.frame(line, match[1], match[2] or "kernel", None, None)
    return now.says()
