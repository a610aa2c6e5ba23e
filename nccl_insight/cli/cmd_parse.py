"""``parse``: every NCCL line as one JSON object, in file order."""

import sys

from nccl_insight.cli.choices import option


def parse(paths: list[str] = option("parse PATH...|-", ...), all_: bool = option("parse --all", False)) -> None:
    """Stream one JSON object per NCCL record; message is null where no rule knows the line."""
    from nccl_insight.base.errors import NotJudgedError
    from nccl_insight.inputs.find import find_inputs
    from nccl_insight.readers.nccl_log.objects import parse_objects

    found = False
    for text in parse_objects(find_inputs(paths), keep_foreign=all_):
        sys.stdout.write(text)
        found = found or bool(text)
    if not found:
        raise NotJudgedError(f"parse: no NCCL line in {' '.join(paths)}; --all prints the lines of other programs")
