"""HTML built from values, so that nothing reaches the page unescaped."""

from __future__ import annotations

import json
import re

from nccl_insight.report.html.markup import json_block


def test_numbers_beyond_64_bits_are_written() -> None:
    block = str(json_block("x", {"sum": 2**70, "plain": 2**62, "flag": True}))
    assert json.loads(re.sub("<[^>]*>", "", block)) == {"sum": 2.0**70, "plain": 2**62, "flag": True}
