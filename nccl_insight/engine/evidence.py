"""Turns the references of hits into evidence with path and text, read back in one pass."""

from collections.abc import Mapping, Sequence

from nccl_insight.base.model import Evidence, Hit
from nccl_insight.engine.draft import MAX_EVIDENCE, Draft
from nccl_insight.tables.run import Run

EVERYWHERE = "all inputs"
_LIMIT = 2000


def paths_of(run: Run) -> dict[int, str]:
    """Path by input."""
    frame = run.table("inputs").select("input_id", "path").drop_nulls()
    return {int(i): str(p) for i, p in frame.iter_rows()}


def collect(run: Run, drafts: Sequence[Draft]) -> list[tuple[Evidence, ...]]:
    """Evidence of each draft, the primary one first; never empty."""
    wanted = {
        (ref.input_id, ref.line)
        for draft in drafts
        for ref in draft.hit.evidence[:MAX_EVIDENCE]
        if ref.text is None and ref.line > 0
    }
    texts = run.reader.lines(sorted(wanted)) if wanted else {}
    paths = paths_of(run)
    return [_evidence(draft.hit, paths, texts) for draft in drafts]


def _evidence(hit: Hit, paths: Mapping[int, str], texts: Mapping[tuple[int, int], str]) -> tuple[Evidence, ...]:
    found: dict[tuple[str, int, str], None] = {}
    for ref in hit.evidence[:MAX_EVIDENCE]:
        text = ref.text if ref.text is not None else texts.get((ref.input_id, ref.line), "")
        found[(paths.get(ref.input_id, f"input {ref.input_id}"), ref.line, text[:_LIMIT])] = None
    if hit.absence or not found:
        where = next(iter(paths.values())) if len(paths) == 1 else EVERYWHERE
        found[(where, 0, hit.absence or hit.observed or hit.title)] = None
    return tuple(Evidence(*key, primary=index == 0) for index, key in enumerate(found))
