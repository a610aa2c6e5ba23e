"""A claim: what one source says about ranks that others wait for.

:mod:`nccl_insight.facts.progress.waitfor` makes claims of where ranks stand in their process groups, by each source,
:mod:`nccl_insight.facts.progress.witnesses` of what RAS and the log say of processes.
:mod:`nccl_insight.facts.progress.absent` puts them together.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Confidence, Ref
from nccl_insight.base.texts import filled, of_file
from nccl_insight.base.words import pairs

_WORDS: Final = of_file(Path(__file__).with_name("claims.txt"))
WATCHDOG: Final = "torch's watchdog"
DUMPS: Final = "the Flight Recorder dumps"
CALLS: Final = "the call log"
RAS: Final = "RAS"
INSPECTOR: Final = "Inspector"
LOG: Final = "the log"
BARRIER: Final = "torch's monitored barrier"
STACKS: Final = "a stack"

SOURCES: Final = (DUMPS, WATCHDOG, BARRIER, STACKS, CALLS, RAS, INSPECTOR)
"""The sources that tell where ranks stand, the surest first."""
COUNTED: Final = ("calls", "counts", "counts-still", "records")
UNSEEN: Final = ("silent", "gap", "undumped")
"""Proofs by numbers of operations alone, and by what is not in the inputs."""

# How much each kind of proof weighs against another one. A dump lists the operations of a rank one by one; a rank's
# own last number says that it never issued the next; being silent can also mean that the output is not here.
_WEIGHT: Final = {
    proof: int(weight)
    for proof, weight in pairs("""not-issued=9 enqueued=8 barrier=8 calls=7 stack=7 behind=6 lagging=6 dead=6
        counts-still=6 silent=5 not-entered=5 counts=4 no-answer=3 undumped=3 gap=2 records=1 stopped=1""").items()
}


@dataclass(frozen=True)
class Claim:
    """What one source says about ranks that others wait for.

    ``ranks`` and ``waiting`` are those of the job where ``world`` is true, else of the group. ``proof``:
    ``not-issued`` and ``lagging`` (dumps: never issued, never finished), ``not-entered`` (issued, but its GPU has not
    started it), ``undumped`` (gave no dump), ``enqueued`` (its own last number is below), ``behind`` (it times out in
    an earlier operation), ``silent`` and ``gap`` (printed nothing), ``calls`` (issued fewer), ``counts`` and
    ``counts-still`` (RAS counts fewer, once or in reports that no longer move), ``dead`` and ``no-answer`` (RAS
    cannot reach it), ``records`` (Inspector has fewer of it), ``barrier`` (rank 0 waited for it in a monitored
    barrier), ``stack`` (stands elsewhere than in a collective), ``stopped`` (its lines end while others go on).
    ``said`` is the claim in a few words.
    """

    source: str
    proof: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    waiting: tuple[int, ...]
    confidence: Confidence
    said: str
    evidence: tuple[Ref, ...]
    group: str = ""
    op: str | None = None
    seq: int | None = None
    last: int | None = None
    world: bool = True
    first_s: float | None = None
    ran_ms: int | None = None
    comm_id: str | None = None

    @property
    def weight(self) -> int:
        """How good the evidence is; larger is better."""
        return _WEIGHT[self.proof]


def worded(proof: str, given: Mapping[str, object]) -> str:
    """What a source says of the ranks, by its proof (``claims.txt``)."""
    return filled(_WORDS[proof]["said"], given)
