"""What a diagnosis is to other failures, as the pages say it (``nature:``).

``configuration``, ``device``, ``memory`` and ``network`` stop a process at startup (together ``startup``);
``bootstrap`` is a rendezvous that fails, ``application`` a program that calls wrongly, ``outside`` what ends a process
or the job from outside of NCCL: whatever the peers report then is its echo. All of them together are ``any``. ``echo``
is what the peers of a process that ended report.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "startup": ("configuration", "device", "memory", "network"),
    "any": ("configuration", "device", "memory", "network", "bootstrap", "application", "outside"),
}
NATURES: Final = frozenset({*GROUPS["any"], "echo"})


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
    """The diagnoses of these natures or groups, without names after a minus."""
    from nccl_insight.rules import discover

    return causes_of({rule.name: rule.natures for rule in discover()}, words)


@cache
def nearness(name: str) -> int:
    """0 for what can be the first cause; larger for symptoms, the more distant the later they are seen."""
    from nccl_insight.rules import discover

    return next((rule.distance for rule in discover() if rule.name == name), 0)
