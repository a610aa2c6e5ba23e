"""nccl-insight: reads NCCL logs and profiler traces and says what happened.

The library has two entry points: :func:`load` gives the tables of a run, :func:`analyze` the verdict.
Both are imported lazily so that ``nccl-insight --help`` stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nccl_insight.version import __version__

__all__ = ["__version__", "analyze", "load"]

if TYPE_CHECKING:
    from nccl_insight.api import analyze, load


def __getattr__(name: str) -> Any:
    if name in {"analyze", "load"}:
        from nccl_insight import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
