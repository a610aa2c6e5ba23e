"""``nccl-insight explain-log``: what a job does, in words."""

from nccl_insight.base.errors import NotJudgedError
from nccl_insight.cli.choices import TextOrJson, option


def explain_log(
    paths: list[str] = option("explain-log PATH...|-", ...),
    format_: TextOrJson = option("explain-log --format", "text"),
    output: str = option("explain-log --output", "-", "-o"),
) -> None:
    """Tell in words what a job does: communicators, transports, rings, algorithms, settings, timings.

    Exit codes: 0 told, 2 usage, 3 no NCCL line in the input.
    """
    from nccl_insight.base.objects import json_text
    from nccl_insight.cli.output import check_outputs, terminal_width, write_text
    from nccl_insight.report import explain_log as told
    from nccl_insight.share.api import load
    from nccl_insight.views.log import log

    check_outputs(paths, [output])
    run = load(paths)
    if not any(
        run.has(name)
        for name in ("processes", "communicators", "ranks", "env", "connections", "errors", "collectives", "steps")
    ):
        raise NotJudgedError(f"{paths[0]}: no NCCL line found; run the job with NCCL_DEBUG=INFO")
    if format_ == "json":
        parts = [{"title": title, "lines": lines} for title, lines in told.sections(log(run)).items()]
        document = {"schema_version": 1, "sections": parts}
        write_text(output, json_text(document))
        return
    write_text(output, told.render(log(run), terminal_width() if output == "-" else None))
