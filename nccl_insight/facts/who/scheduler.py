"""The scheduler that ran the job, and the job's number in it, as far as lines or names of files tell."""

from typing import Final, Literal

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.facts.said.topics import plays
from nccl_insight.tables.run import Run, fact

_SPEAKS: Final = r"\b(?:srun|slurmstepd|sbatch|salloc): "
_NUMBER: Final = r"\b(?:StepId|JobId|STEP|JOB|[Ss]tep|[Jj]ob)[= ]([0-9]{1,10})\b"
# The name that sbatch gives the output of a job: slurm-%j.out, slurm-%A_%a.out, slurm-%j_%t.out.
_FILE: Final = r"(?:^|[/\\])slurm-([0-9]{1,10})(?:[._-][^/\\]*)?$"


@dataclass(frozen=True)
class Scheduler:
    """Who ran the job; ``kind`` is empty where nothing tells. ``job`` is its number, or the pod, where there is one."""

    kind: Literal["", "slurm", "kubernetes"] = ""
    job: str = ""


@fact
def scheduler(run: Run) -> Scheduler:
    """The scheduler by its own lines and by names of output files; no job where they tell of several."""
    rows = run.table("errors", "launcher", "text", "job_number", "pod_name", "message").cast(pl.String)
    said = pl.concat_str("launcher", "text", separator=" ", ignore_nulls=True)
    slurm = rows.filter(said.str.contains(_SPEAKS) | pl.col("job_number").is_not_null())
    number = pl.coalesce(pl.col("job_number").str.extract(r"^([0-9]+)"), said.str.extract(_NUMBER))
    named = run.table("inputs", "path").select(pl.col("path").cast(pl.String).str.extract(_FILE))
    jobs = {*slurm.select(number).to_series().drop_nulls(), *named.to_series().drop_nulls()}
    if slurm.height or jobs:
        return Scheduler("slurm", jobs.pop() if len(jobs) == 1 else "")
    pods = rows["pod_name"].drop_nulls().unique()
    if len(pods) or plays(rows, "kubernetes").any():
        return Scheduler("kubernetes", pods[0] if len(pods) == 1 else "")
    return Scheduler()
