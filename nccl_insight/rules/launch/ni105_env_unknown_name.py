"""A variable is set that no NCCL version reads."""

import polars as pl

from nccl_insight.advise.settings.check import check_name
from nccl_insight.facts.setup.settings import hosts_of
from nccl_insight.language.load import playing
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """One finding a name."""
    for (name,), rows in _names(ctx.run).group_by(["name"], maintain_order=True):
        issue = check_name(str(name))
        if issue is not None:
            yield ctx.hit(
                rows,
                whom=hosts_of(rows),
                title=issue.title,
                next_step=issue.next_step,
                explanation=issue.explanation,
                observed=issue.observed,
                expected=issue.expected,
            )


def _names(run: Run) -> pl.DataFrame:
    """Names that NCCL itself did not show to know: other sources of ``env``, look-ups that failed."""
    columns = ["name", "host", "input_id", "line"]
    env = run.table("env").filter(pl.col("origin").cast(pl.String).is_in(["environment", "file"]))
    env = env.filter(pl.col("message").is_null())
    unknown = run.table("env_rejected").filter(pl.col("message").is_in(playing("unknown-setting")))
    both = [env.select(columns), unknown.select(columns)]
    return pl.concat(both, how="vertical_relaxed").drop_nulls("name")
