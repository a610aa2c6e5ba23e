"""Facts for which every call and choice of a log is looked at, worked out beside the checks that need others."""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Final

from nccl_insight.facts.progress.calls import count_calls
from nccl_insight.facts.setup.choices import choices
from nccl_insight.tables.once import beside
from nccl_insight.tables.run import Run

# Fewer rows are looked at in the time that a thread takes to begin.
_LARGE: Final = 100_000


def begun(run: Run) -> AbstractContextManager[None]:
    """While it lasts, another thread works these facts out; who asks for one that is not done waits for it."""
    rows = {name: run.height(name) for name in ("calls", "tuning_choice") if run.deferred(name) is not None}
    asked = frozenset(name for name, height in rows.items() if height)
    return beside((lambda: _work_out(run, asked)) if sum(rows.values()) >= _LARGE else None)


def _work_out(run: Run, tables: frozenset[str]) -> None:
    asked: dict[str, tuple[Callable[[Run], object], ...]] = {
        "tuning_choice": (choices,),
        "calls": (lambda r: r.table("milestones"), count_calls),
    }
    with run.passing():
        for table in (name for name in asked if name in tables):
            for fact in asked[table]:
                # Who needs what cannot be worked out meets the error itself.
                with suppress(Exception):
                    fact(run)
