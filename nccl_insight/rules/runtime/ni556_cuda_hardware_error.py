"""CUDA reported broken hardware."""

from nccl_insight.base.model import Severity
from nccl_insight.facts.said.topics import plays, telling
from nccl_insight.facts.setup.settings import refs
from nccl_insight.language.load import witnesses
from nccl_insight.loading.assemble.places import places
from nccl_insight.rules._errors import cut, of_the_failed, with_who
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all lines."""
    found = ctx.lines()
    if found is not None:
        found = of_the_failed(ctx.run, found)
        reason = found.value("error_text") or found.text
        amd = bool(plays(found.rows, "amd-hardware").any())
        kernel = all((w := witnesses().get(m)) and w.speaker == "kernel" for m in found.rows["message"].unique())
        yield from ctx.tells("found", quiet=Severity.WARNING, rows=found, amd=amd, kernel=kernel, reason=reason)
        return
    raised = telling(ctx.run.table("tracebacks"), "exception-hardware")
    if raised.is_empty():
        return
    ranks = tuple(raised["rank"].drop_nulls().unique().sort().to_list())
    hosts = places(ctx.run).hosts(ranks)
    text = str(raised["text"][0])
    yield ctx.says(
        "found-gpu-one",
        refs(raised, 3),
        whom=(*ranks, *hosts),
        title=with_who(f"CUDA reported broken hardware: {cut(text, 70)}", ranks, hosts),
        observed=text[:200],
    )
