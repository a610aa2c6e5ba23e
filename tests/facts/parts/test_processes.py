"""Processes of the inputs, from their first to their last line that any small table knows."""

from __future__ import annotations

import random

from nccl_insight.facts.parts.processes import lives_of


def test_lives_of_a_process_begin_between_lines_of_one_rank() -> None:
    draw = random.Random(2)
    for _ in range(2000):
        rows = [{"rank": draw.randrange(3), "nranks": 2, "line": draw.randrange(30)} for _ in range(draw.randrange(6))]
        lines = sorted(draw.randrange(30) for _ in range(draw.randrange(6)))
        wanted = set()
        for line in lines:
            before = {(r["rank"], r["nranks"]) for r in rows if r["line"] < line}
            if any((r["rank"], r["nranks"]) in before for r in rows if r["line"] >= line):
                wanted.add(line)
        assert lives_of(rows, lines) == sorted(wanted)
