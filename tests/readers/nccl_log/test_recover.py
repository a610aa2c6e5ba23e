"""A known message with one `key=value` more than any release printed keeps its meaning and its other values."""

from __future__ import annotations

import json
import re
from pathlib import Path

from nccl_insight.language.catalog import default_catalog
from nccl_insight.readers.nccl_log import recover
from nccl_insight.views.line import explained
from tests import message_samples
from tests.cli import run_cli

_PART = re.compile(r" \w+=[^\s,;()=]+(?= )")
_LEAVES = re.compile(r",? \w+=[^\s,;()=]+(?=[ ,;)]|$)")


def test_a_part_that_a_release_adds_costs_nothing_else() -> None:
    """All samples with such parts, with a new one behind each of them."""
    catalog = default_catalog()
    tried = kept = 0
    for name, samples in message_samples.by_rule().items():
        for text in (s.text.rstrip() for s in samples if not catalog.grammar.messages[name].headless):
            for part in () if "\n" in text else _PART.finditer(text):
                grown = f"{text[: part.end()]} added=7{text[part.end() :]}"
                if catalog.match(grown) is not None:
                    continue
                tried += 1
                found, whole = recover.match_without_part(catalog, grown), catalog.match(text)
                assert whole is not None
                kept += found is not None and found.message.name == name and found.captures == whole.captures
    assert tried > 200
    assert kept >= 0.98 * tried


def test_a_part_that_a_release_leaves_out_costs_nothing_else() -> None:
    """All samples with such parts, without the last one: about half are known, and never with another value."""
    catalog = default_catalog()
    tried = known = 0
    for name, samples in message_samples.by_rule().items():
        for text in (s.text.rstrip() for s in samples if not catalog.grammar.messages[name].headless):
            whole = catalog.match(text)
            for part in () if whole is None or "\n" in text else list(_LEAVES.finditer(text))[-1:]:
                short = text[: part.start()] + text[part.end() :]
                if catalog.match(short) is not None:
                    continue
                tried += 1
                found = recover.match_without_part(catalog, short)
                if found is not None and found.message.name == name and whole is not None:
                    known += 1
                    assert found.captures.items() <= whole.captures.items()
    assert tried > 100
    assert known >= 0.45 * tried


def test_no_text_is_taken_for_a_message_by_leaving_words_out() -> None:
    catalog = default_catalog()
    for text in ("some other words a=1 b=2", "size=4", "x=1 " * 500, "NET/IB : all is well key=value", "a=" * 3000):
        assert recover.match_without_part(catalog, text) is None


def test_peer_and_device_of_a_failed_completion_stay(tmp_path: Path) -> None:
    line = (
        "node1:101:101 [0] p2p.cc:1 (f) NCCL WARN NET/IB: Got completion from peer 10.0.0.2<5> with "
        "status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129 new_in_2_40=3 "
        " localGid fe80::1 remoteGidsfe80::2 hca mlx5_3"
    )
    told = explained(line)
    assert told is not None
    (only,) = told.lines
    assert only.diagnosis == "ib-completion-retry-exceeded"
    assert only.values["peer"] == "10.0.0.2<5>"
    assert only.values["hca_name"] == "mlx5_3"
    log = tmp_path / "run.log"
    log.write_text(line + "\n")
    parsed = json.loads(run_cli("parse", str(log)).stdout.splitlines()[0])
    assert parsed["message"] == "err_ib_completion_2_29"
    assert parsed["fields"]["peer"] == "10.0.0.2<5>"
