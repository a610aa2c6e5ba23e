"""What the driver's Xid and SXid numbers mean, and how much they weigh (``xids.txt``, ``sxids.txt``)."""

import re
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Final, Literal

_ROW: Final = re.compile(r"^([0-9,-]+) (\w+): (.+)$", re.M)


def _rows(name: str) -> Iterator[tuple[int, str, str]]:
    """Number, whose fault it is, and meaning."""
    for numbers, fault, meaning in _ROW.findall(resources.files(__package__).joinpath(name).read_text("utf-8")):
        for span in numbers.split(","):
            first, _, last = span.partition("-")
            yield from ((number, fault, meaning) for number in range(int(first), int(last or first) + 1))


_ROWS: Final = tuple(_rows("xids.txt"))
#: Number -> meaning, for those that say something about a job of many GPUs.
MEANINGS: Final = {number: meaning for number, _, meaning in _ROWS}
#: Usually the program's fault: the GPU goes on.
BY_PROGRAM: Final = frozenset(number for number, fault, _ in _ROWS if fault == "program")
#: Recorded for the next reset or corrected; nothing is wrong now.
WAITING: Final = frozenset(number for number, fault, _ in _ROWS if fault == "waiting")
#: Errors of NVLink 5, which say themselves whether they are fatal.
NVLINK5: Final = frozenset(number for number, fault, _ in _ROWS if fault == "stated")

#: The firmware of the GPU's own processor did not answer or failed.
GSP: Final = frozenset({119, 120})

#: NVSwitches count from here.
FIRST_OF_SWITCHES: Final = 10_000
_FATAL: Final = {"fatal": "fatal: until a reset", "nonfatal": "not fatal: the switch goes on", "stated": "fatal or not"}


@cache
def _switch() -> dict[int, str]:
    return {number: f"{said} ({_FATAL[kind]})" for number, kind, said in _rows("sxids.txt")}


def meaning(number: int) -> str | None:
    """What an Xid or an SXid of an NVSwitch, stands for."""
    return MEANINGS.get(number) or _switch().get(number)


def weight(xid: int | None, word: str | None, *, switch: bool = False) -> Literal["error", "warning", "info"]:
    """``error`` where hardware needs service, ``warning`` where a program is at fault, ``info``: nothing is wrong now.

    ``word`` is what the line says of itself: ``non-fatal``, ``hard`` (a recovery is needed) or None. ``switch``: an
    SXid of an NVSwitch.
    """
    if switch:
        return "info" if word == "non-fatal" else "error"
    if xid in WAITING:
        return "info"
    if xid in BY_PROGRAM:
        return "warning"
    if xid == 154:
        return "error" if word == "hard" else "info"
    if xid in NVLINK5:
        return "info" if word == "non-fatal" else "error"
    return "error" if xid in MEANINGS else "warning"


def remedies(xid: int | None, weight: str, *, switch: bool = False) -> dict[str, bool]:
    """Which kind of step helps against an Xid of this weight: the first that holds does."""
    links = switch or xid == 74 or xid in NVLINK5
    return {
        "program": xid in BY_PROGRAM,
        "later": weight != "error",
        "off_bus": xid == 79,
        "links": links,
        "gsp": xid in GSP,
    }
