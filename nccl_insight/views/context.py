"""The lines around the evidence of findings."""

from collections.abc import Mapping, Sequence
from typing import Final

from nccl_insight.base.model import Finding
from nccl_insight.tables.run import Run

#: Findings that a page shows in full, evidence that it shows of each, and lines before and after.
FINDINGS: Final = 40
EVIDENCE: Final = 6
AROUND: Final = 2


def context(run: Run, findings: Sequence[Finding]) -> Mapping[tuple[str, int], str]:
    """Text of the lines around the evidence that a page shows, by (path, line), as far as they can be read back."""
    inputs = dict(run.table("inputs").select("path", "input_id").iter_rows())
    wanted = {
        (inputs[e.input], line): e.input
        for item in findings[:FINDINGS]
        for e in item.evidence[:EVIDENCE]
        if e.line and e.input in inputs
        for line in range(max(1, e.line - AROUND), e.line + AROUND + 1)
    }
    found = run.reader.lines(sorted(wanted))
    return {(wanted[key], key[1]): text for key, text in found.items() if key in wanted}
