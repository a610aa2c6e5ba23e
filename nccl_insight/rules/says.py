"""What findings say, as the blocks at the end of the front matter of their pages hold it (see
:mod:`nccl_insight.base.texts`): texts with values filled in, severity, confidence and action.

A check with logic asks for one by ``name.key``. A severity, confidence or action that comes out empty is the page's.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from nccl_insight.base import texts
from nccl_insight.base.model import Action, Confidence, Severity
from nccl_insight.facts.said.clock import clock_text
from nccl_insight.facts.setup.settings import named
from nccl_insight.rules import discover
from nccl_insight.rules._errors import cut

_FORMATS: Final = {**texts.FORMATS, "clock": clock_text, "cut": cut, "hosts": named}
_TYPED: Final[Mapping[str, Callable[[str], object]]] = {
    "severity": Severity,
    "confidence": Confidence,
    "action": Action,
}


@cache
def _blocks() -> Mapping[str, Mapping[str, str]]:
    return {f"{rule.name}.{key}": block for rule in discover() for key, block in rule.page.says.items()}


def said(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a hit as the block ``name.key`` of a page has them, with these values."""
    fields = {field: texts.filled(text, given, _FORMATS) for field, text in _blocks()[name].items()}
    return fields | {
        field: made(fields[field]) if fields[field] else None for field, made in _TYPED.items() if field in fields
    }
