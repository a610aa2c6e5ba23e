"""The public library: :func:`load` and :func:`analyze`."""

from __future__ import annotations

import os
from collections.abc import Iterable

from nccl_insight import engine
from nccl_insight.engine.policy import Policy
from nccl_insight.loading import load
from nccl_insight.model import Analysis
from nccl_insight.tables.run import Run

__all__ = ["analyze", "load"]


def analyze(
    source: Run | str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    policy: Policy | None = None,
    input_format: str | None = None,
    symptom: str = "",
) -> Analysis:
    """The verdict on a run, or on the files of one job.

    Args:
        source: a run, or paths.
        policy: what to select, silence and weigh differently.
        input_format: a value of ``inputs.kind`` to use for every input instead of looking.
        symptom: ``hang``, ``slow`` or ``crash``: the next commands are then for that.

    Raises:
        UsageError: a path does not exist or the format is unknown.
        NotJudgedError: the paths name no file.
    """
    run = source if isinstance(source, Run) else load(source, input_format, details=False)
    return engine.analyze(run, policy, symptom=symptom)
