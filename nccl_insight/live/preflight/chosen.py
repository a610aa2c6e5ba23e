"""Checks by name (``--only``), and checks of the site's own (``--plugin``)."""

import difflib
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from typing import Final

from nccl_insight.base import toml
from nccl_insight.base.errors import UsageError
from nccl_insight.base.model import Action
from nccl_insight.live.preflight.model import Check, Status, check_of
from nccl_insight.live.preflight.node import Node

SPOKEN: Final[Sequence[str]] = toml.beside(__file__)["spoken"]
SILENT: Final[Mapping[str, Sequence[str]]] = toml.beside(__file__)["silent"]
_PLUGIN: Final = re.compile(r"([A-Za-z][A-Za-z0-9 _-]{0,15})=(.+)", re.S)
_UNKNOWN: Final = 3


def names_of(text: str) -> list[str]:
    """Names of checks in a comma-separated list. Raises UsageError: there is no such check."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = sorted({*SPOKEN, *(name for group in SILENT.values() for name in group)})
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name.lower(), known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise UsageError(f"--only {name!r}: no such check; {hint}")
    return names


def only(names: Sequence[str], checks: Sequence[Check]) -> list[Check]:
    """The checks of these names; one that said nothing passes where it could look."""
    states = {check.name: check.status for check in checks}
    found = [check for check in checks if check.name in names]
    for name in names:
        if name in states:
            continue
        judge = next((judge for judge, group in SILENT.items() if name in group), "")
        # A group with a finding has no line "all is well".
        looked = states.get(judge, Status.SKIP) is not Status.SKIP or (
            judge == "gpu health" and not states.keys().isdisjoint(SILENT[judge])
        )
        found.append(
            Check(name, Status.PASS, "nothing found")
            if looked
            else Check(name, Status.SKIP, "this node has nothing that this check looks at, or it cannot be read")
        )
    return found


def plugin_of(text: str) -> tuple[str, tuple[str, ...]]:
    """Name and command of ``NAME=COMMAND``. Raises UsageError: it has another form, or there is no such command."""
    match = _PLUGIN.fullmatch(text.strip())
    try:
        command = tuple(shlex.split(match[2])) if match else ()
    except ValueError:
        command = ()
    if match is None or not command:
        raise UsageError(f"--plugin {text!r}: write NAME=COMMAND")
    if shutil.which(command[0]) is None:
        raise UsageError(f"--plugin {match[1]}: {command[0]!r} is not a command of this machine")
    return match[1], command


def run_plugin(node: Node, name: str, command: Sequence[str], limit_s: float) -> Check:
    """A site's own check by the convention of Nagios: 0 good, 1 warning, 2 critical, 3 not known; its first line tells.

    ``action=isolate`` in that line says that the node has to be drained.
    """
    done = node.tool(*command, timeout_s=limit_s)
    if done.state == "hung":
        return check_of("run-plugin", of=name, limit_s=limit_s, command=shlex.join(command))
    said = next((line.strip() for line in (done.text + "\n" + done.error).splitlines() if line.strip()), "")
    status = {0: Status.PASS, 1: Status.WARN, _UNKNOWN: Status.SKIP}.get(done.code, Status.FAIL)
    if done.state == "missing" or (done.state == "failed" and done.code == 0):
        status, said = Status.SKIP, said or "the command could not be started"
    action = Action.NONE if status in (Status.PASS, Status.SKIP) else Action.TRIAGE
    if status is Status.FAIL and "action=isolate" in said:
        action = Action.ISOLATE
    return Check(name, status, (said or f"exit code {done.code}")[:300], action=action)
