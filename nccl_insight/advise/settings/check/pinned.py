"""Settings for experiments that were left set."""

from collections.abc import Iterator, Mapping

from nccl_insight.advise.settings.catalog import catalog
from nccl_insight.advise.settings.check.issue import Issue, issue_of


def check_pinned(settings: Mapping[str, str]) -> Iterator[Issue]:
    """``env-tuning-pinned``: knobs for experiments that are left set.

    Silent where a cloud plugin is configured whose vendor prescribes these values.
    """
    if any(name.startswith(("NCCL_FASTRAK_", "NCCL_GPUDIRECTTCPX_", "NCCL_TCPX_")) for name in settings):
        return
    for name, value in settings.items():
        variable = catalog().get(name)
        if variable is None or not variable.tuning or not value.strip():
            continue
        if name in {"NCCL_ALGO", "NCCL_PROTO"} and all(
            part.rsplit(":", 1)[-1].startswith("^") for part in value.split(";")
        ):
            continue  # excluding one algorithm or protocol is the documented workaround for a bug
        advice = variable.advice or "Values found on one machine, size or release are often wrong on the next."
        yield issue_of("pins-choice-makes", name, value=value, advice=advice)
