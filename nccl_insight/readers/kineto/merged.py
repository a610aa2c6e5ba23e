"""Traces of several ranks that a script merged into one file, to be looked at side by side.

Such scripts mark whose an event is, at the process (``"[TP03] 0"``, ``"[TP01-PP02] 0"``, ``"[rank 3] 77"``) or among
the arguments (``"rank": 3``). Numbers that pair events (correlation, external id) are each rank's own and may clash, so
the events of each rank are collected apart. Source: SGLang's profile_merger.py, TraceLens' trace_fuse.py.
"""

from typing import Final

from nccl_insight.base import late
from nccl_insight.base.data import dataclass, field
from nccl_insight.base.grouping import grouped
from nccl_insight.readers.chrome import Event
from nccl_insight.readers.kineto.events import Events
from nccl_insight.readers.kineto.meta import small_int

_MARKED: Final = late.compiled(rb'"pid"\s*:\s*"(?:\[[A-Za-z]{1,6}[ _-]?[0-9]|[Rr]ank[ _-]?[0-9])|"pid_raw"\s*:')
_RANK: Final = late.compiled(rb'"rank"\s*:\s*[0-9]')
_KERNEL: Final = late.compiled(rb'"cat"\s*:\s*"kernel"')
_EVENT_BYTES: Final = 2_000
_LABEL: Final = late.compiled(
    r"\[((?:[A-Za-z]{1,6}[ _-]?[0-9]{1,6}\b[-_, ]?)+)[^\]]*\]|([Rr]ank[ _-]?[0-9]{1,6})(?![0-9])"
)
_PART: Final = late.compiled(r"([A-Za-z]{1,64})[ _-]?([0-9]+)")
_LOOKED_AT: Final = 1 << 18

Label = tuple[tuple[str, int], ...]
"""Kinds of ranks and their numbers, such as ``(("tp", 1), ("pp", 2))``; ``rank`` is the rank of the job."""


def is_merged(block: bytes) -> bool:
    """Whether the first block of a trace marks events as those of some rank."""
    begin = max(block.find(b'"traceEvents"'), 0)
    end = begin + _LOOKED_AT
    if _MARKED.search(block, begin, end):
        return True
    for found in _RANK.finditer(block, begin, end):  # Kineto's kernels have no such argument
        before = block[max(begin, found.start() - _EVENT_BYTES) : found.start()].rpartition(b"}")[2]
        if _KERNEL.search(before):
            return True
    return False


@dataclass
class MergedEvents:
    """Events of each label; of those without one the label is empty."""

    communication: tuple[str, ...] = ()
    parts: dict[Label, Events] = field(default_factory=dict)
    _known: dict[str, Label] = field(default_factory=dict)

    def add(self, events: list[Event]) -> None:
        """See :meth:`nccl_insight.readers.kineto.events.Events.add`."""
        for label, own in grouped((self._label(event), event) for event in events).items():
            if label not in self.parts:
                self.parts[label] = Events(communication=self.communication)
            self.parts[label].add(own)

    def _label(self, event: Event) -> Label:
        args = event.get("args")
        rank = small_int(args.get("rank")) if isinstance(args, dict) else None
        if rank is not None:
            return (("rank", rank),)
        pid = event.get("pid")
        if not isinstance(pid, str):
            return ()
        if pid not in self._known:
            self._known[pid] = label_of(pid)
        return self._known[pid]


def label_of(process: str) -> Label:
    """The label at the beginning of a process' name; empty without one."""
    found = _LABEL.match(process)
    if not found:
        return ()
    return tuple((kind.lower(), int(number)) for kind, number in _PART.findall(found[1] or found[2]))


def ranks_of(labels: list[Label]) -> dict[Label, int]:
    """The rank of the job of each label; empty where the labels do not tell.

    A kind of which each label has another number counts the ranks. Else pipeline stages follow each other, each
    with all its tensor ranks, as SGLang places them.
    """
    labels = [label for label in labels if label]
    numbers = [dict(label) for label in labels]
    for kind in ("rank", "wr", "global", "tp", "dp", "ep", "pp"):
        own = [n[kind] for n in numbers if kind in n]
        if len(set(own)) == len(labels):
            return dict(zip(labels, own, strict=True))
    if all({"tp", "pp"} <= n.keys() for n in numbers):
        size = max(n["tp"] for n in numbers) + 1
        own = [n["pp"] * size + n["tp"] for n in numbers]
        if len(set(own)) == len(labels):
            return dict(zip(labels, own, strict=True))
    return {}
