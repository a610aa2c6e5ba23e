"""``nccl-insight record-env``: the settings that record what a diagnosis needs."""

from typing import Annotated

import typer

from nccl_insight.base.errors import UsageError


def record_env(symptom: Annotated[str, typer.Option(help="What was seen: hang, slow or crash.")] = "crash") -> None:
    """Print the exports for the next run: eval "$(nccl-insight record-env --symptom hang)"."""
    from nccl_insight.engine.more import RECORD

    if symptom not in RECORD:
        raise UsageError(f"record-env: symptom {symptom!r}: give one of {', '.join(RECORD)}")
    for setting in RECORD[symptom]:
        typer.echo(f"export {setting}")
