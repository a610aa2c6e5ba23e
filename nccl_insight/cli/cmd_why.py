"""``nccl-insight why``: what is known of one rank, host or process group."""

import typer

from nccl_insight.base.errors import NotJudgedError
from nccl_insight.cli.choices import option


def why(
    subject: str = typer.Argument(..., help='A rank, host or group: "rank 5", "host gpu01", "group 7".'),
    paths: list[str] = option("why PATH...|-", ...),
) -> None:
    """Tell what is known of a rank, a host or a process group, and whether it is the cause.

    Exit codes: 0 told, 2 usage, 3 the inputs do not name it.
    """
    from nccl_insight.base.units import plural
    from nccl_insight.cli.output import write_text
    from nccl_insight.engine.analyze import analyze
    from nccl_insight.loading import load
    from nccl_insight.report import why as told
    from nccl_insight.views.who import names, who

    run = load(paths)
    known = who(run, subject)
    if known is None:
        ranks, hosts, groups = names(run)
        there = [plural(ranks, "rank")]
        there += [f"{what} {', '.join(some[:6])}" for what, some in (("hosts", hosts), ("groups", groups)) if some]
        raise NotJudgedError(f"why: {subject!r} is not in the inputs, which have {'; '.join(there)}")
    write_text("-", told.render(analyze(run), known))
