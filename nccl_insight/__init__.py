"""nccl-insight: reads NCCL logs and profiler traces and says what happened.

:func:`load` gives the tables of a run, :func:`analyze` the verdict, :func:`diff` what changed between two runs,
:func:`query` SQL over the tables. All are imported lazily so that ``nccl-insight --help`` stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nccl_insight.base.version import __version__

__all__ = ["Analysis", "Finding", "Policy", "Run", "Severity", "__version__", "analyze", "diff", "load", "query"]

if TYPE_CHECKING:
    from nccl_insight.base.model import Analysis, Finding, Severity
    from nccl_insight.engine.policy import Policy
    from nccl_insight.share.api import analyze, diff, load, query
    from nccl_insight.tables.run import Run

_HOMES = dict.fromkeys(("analyze", "diff", "load", "query"), "share.api") | {
    "Policy": "engine.policy",
    "Run": "tables.run",
    **dict.fromkeys(("Analysis", "Finding", "Severity"), "base.model"),
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"nccl_insight.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
