"""What a diagnosis is to other failures, as its page says it (``nature:``), for code that treats several alike.

Those of :data:`GROUPS` may be a cause: ``startup`` stops a process at startup, ``bootstrap`` is a rendezvous that
fails, ``application`` a program that calls wrongly, ``outside`` what ends a process or the job from outside of NCCL:
whatever the peers report then is its echo. All of them together are ``any``.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from nccl_insight.base import extensions
from nccl_insight.base.pages import pages

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "startup": ("configuration", "device", "memory", "network"),
    "any": ("configuration", "device", "memory", "network", "bootstrap", "application", "outside"),
}
OTHERS: Final[Mapping[str, str]] = {
    "echo": "what the peers of a process that ended report",
    "missed": "what others report of ranks that are gone",
    "logged": "what the kernel's log still holds of earlier days",
    "link": "a port that went down or changed",
    "flap": "a port that went down",
    "path": "the way of the data: GPUDirect, RDMA or peer-to-peer lost",
    "hang": "a job that stands still",
    "leaving": "what processes report of those that leave before them, whether the job failed or came to its end",
    "remark": "said of the machine as a warning, and by healthy jobs, too",
    "noteworthy": "worth a note where it is benign",
    "aside": "explains no failure by itself",
    "completion": "how a transfer over InfiniBand ends that fails",
    "transfer": "a transfer over another network that fails",
    "unanswered": "a queue pair that got no answer",
    "refused": "a queue pair that could not be set up",
    "no-memory": "a reason for which memory of a GPU cannot be had or mapped",
    "starting": "a launcher that could not start a process: past once all are up",
    "cuda-call": "a call of CUDA that failed, whoever made it",
    "corruption": "data that came out wrong",
    "own": "what NCCL or torch failed at itself: what a program says behind it follows",
}
_RULES: Final = str(Path(__file__).parents[1] / "rules")
NATURES: Final = frozenset({*GROUPS["any"], *OTHERS})


def members(natures: Mapping[str, Iterable[str]], word: str) -> tuple[str, ...]:
    """The names of a nature or group of natures. ``natures``: those of each name."""
    wanted = GROUPS.get(word, (word,))
    return tuple(name for nature in wanted for name, given in natures.items() if nature in given)


def causes_of(natures: Mapping[str, Iterable[str]], words: Iterable[str]) -> tuple[str, ...]:
    """The names that the words of ``caused_by`` mean: names, natures and groups, without those after a minus."""
    given = list(words)
    without = {word[1:] for word in given if word.startswith("-")}
    found = (
        name
        for word in given
        if not word.startswith("-")
        for name in (members(natures, word) if word in NATURES or word in GROUPS else (word,))
    )
    return tuple(dict.fromkeys(name for name in found if name not in without))


@cache
def names(*words: str) -> tuple[str, ...]:
    """The diagnoses of these natures or groups, by code, without names after a minus."""
    return causes_of(_words("nature"), words)


@cache
def called(word: str) -> str:
    """The diagnosis that code below the rules knows by this word (``called:``)."""
    return next(page.name for page in pages([_RULES]) if page.head.get("called") == word)


@cache
def code_of(name: str) -> str | None:
    """The code of a diagnosis; none for what is no diagnosis."""
    return next((page.code for page in pages([_RULES]) if page.name == name), None)


@cache
def shown_by(fact: str) -> tuple[str, ...]:
    """The diagnoses beside which a fact of host tools is shown (``shows:``), by code."""
    return members(_words("shows"), fact)


@cache
def _words(key: str) -> Mapping[str, tuple[str, ...]]:
    folders = [_RULES, *(p for e in extensions.packages("rules") for p in e.__path__)]
    return {page.name: page.words(key) for page in sorted(pages(folders), key=lambda page: page.code)}


@cache
def nearness(name: str) -> int:
    """0 for what can be the first cause; larger for symptoms, the more distant the later they are seen."""
    return int(next(iter(_words("distance").get(name, ())), 0))
