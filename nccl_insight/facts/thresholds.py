"""Numbers of rules that the policy may change, and what the user says of the job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nccl_insight.tables.run import Run

_MEMO: Final = "policy.thresholds"
_SEEN: Final = "asked.symptom"
_NICS: Final = "asked.nics"


def _none(_: Run) -> Mapping[str, Mapping[str, float]]:
    return {}


def threshold(run: Run, name: str, key: str, default: float) -> float:
    """The policy's value of ``[thresholds.<name>] <key>``, else the rule's own default."""
    return run.memo(_MEMO, _none).get(name, {}).get(key, default)


def with_thresholds(run: Run, values: Mapping[str, Mapping[str, float]]) -> Run:
    """A run of which nothing was asked yet, judged with these values of the policy."""
    run.memo(_MEMO, lambda _: values)
    return run


def symptom(run: Run) -> str:
    """``hang``, ``slow`` or ``crash`` where the user says so, else empty."""
    return run.memo(_SEEN, lambda _: "")


def nics(run: Run) -> str:
    """NICs of each node as COUNTxGBITS where the user says so, else empty."""
    return run.memo(_NICS, lambda _: "")


def with_told(run: Run, seen: str, network: str = "") -> Run:
    """A run of which nothing was asked yet, judged as one of which the user saw this, on nodes with these NICs."""
    run.memo(_SEEN, lambda _: seen)
    run.memo(_NICS, lambda _: network)
    return run
