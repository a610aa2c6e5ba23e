"""CUDA reported broken hardware."""

from nccl_insight.base.model import Ref, Severity
from nccl_insight.facts.said.topics import plays, telling
from nccl_insight.loading.assemble.places import places
from nccl_insight.rules._errors import cut, with_who
from nccl_insight.rules.context import Context, Hits

_NEXT = (
    "nvidia-smi -q -d ECC,ROW_REMAPPER; nvidia-smi nvlink -e; dmesg -T | grep -i xid   # on the host named; drain it, "
    "wait until it is idle, then dcgmi diag -r 3 and reset the GPU"
)
_NEXT_AMD = (
    "dmesg -T | grep -iE 'amdgpu|ras|mce'; amd-smi metric --ecc; amd-smi bad-pages   # on the host named; drain it, "
    "wait until it is idle, then reset the GPU or reboot"
)


def check(ctx: Context) -> Hits:
    """One finding for all lines."""
    found = ctx.lines()
    if found is not None:
        reason = found.value("error_text") or found.text
        amd = bool(plays(found.rows, "amd-hardware").any())
        yield from ctx.tells(
            "found", next_step=_NEXT_AMD if amd else _NEXT, quiet=Severity.WARNING, rows=found, amd=amd, reason=reason
        )
        return
    raised = telling(ctx.run.table("tracebacks"), "exception-hardware")
    if raised.is_empty():
        return
    ranks = tuple(raised["rank"].drop_nulls().unique().sort().to_list())
    hosts = places(ctx.run).hosts(ranks)
    text = str(raised["text"][0])
    yield ctx.says(
        "found-gpu-one",
        tuple(Ref(int(i), int(n)) for i, n in raised.select("input_id", "line").head(3).iter_rows()),
        whom=(*ranks, *hosts),
        title=with_who(f"CUDA reported broken hardware: {cut(text, 70)}", ranks, hosts),
        next_step=_NEXT,
        observed=text[:200],
    )
