"""This NCCL version has a documented bug that the log shows."""

from pathlib import Path

from nccl_insight.base import toml
from nccl_insight.base.natures import names
from nccl_insight.facts.said.errors import causes, present
from nccl_insight.facts.who.members import processes
from nccl_insight.rules._closed import accepting
from nccl_insight.rules._errors import Trouble, trouble
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run

_BUGS = Path(__file__).with_name("known-bugs.toml")


def check(ctx: Context) -> Hits:
    """One finding for each bug whose version and evidence are both in the log."""
    versions = sorted({v for v in processes(ctx.run)["nccl_version"].drop_nulls().to_list() if _parsed(v)})
    for bug in toml.read(_BUGS)["bug"] if versions else ():
        affected = [v for v in versions if _parsed(bug["first"]) <= _parsed(v) < _parsed(bug["fixed"])]
        found = _evidence(ctx.run, bug.get("cause", ""), bug.get("mark", "")) if affected else None
        if found is None:
            continue
        yield ctx.says(
            "found", found, next_step=bug["workaround"], sources=(bug["source"],), affected=affected, bug=bug
        )


def _parsed(version: str) -> tuple[int, int, int]:
    parts = [int(p) for p in version.split(".") if p.isdigit()]
    return (parts[0], parts[1], parts[2] if len(parts) > 2 else 0) if len(parts) > 1 else (0, 0, 0)


def _evidence(run: Run, cause: str, mark: str) -> Trouble | None:
    if not cause:
        return Trouble(causes(run)).telling("defect", mark)
    if cause == "bootstrap-connection-closed" and present(run) & set(names("startup")):
        return None  # a rank that stopped closes its connections: no stranger is needed
    found = trouble(run, cause)
    if found is None and cause == "bootstrap-connection-closed":
        rows = causes(run).join(accepting(run), on=["input_id", "line"], how="semi")
        found = Trouble(rows) if rows.height else None
    return found.telling("defect", mark) if found is not None and mark else found
