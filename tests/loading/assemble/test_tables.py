"""Each message alone in a log: tables are complete and no step needs what other messages bring."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from nccl_insight.inputs.chunks import ChunkIndex
from nccl_insight.inputs.find import find_inputs
from nccl_insight.language.catalog import default_catalog
from nccl_insight.loading.assemble.tables import assemble
from nccl_insight.readers.nccl_log.classify import Classifier
from nccl_insight.readers.nccl_log.log import chunk_reader, read_logs
from nccl_insight.tables.schema import CONTRACT, SCHEMA, conform
from tests import message_samples, slices

# Parts that run side by side.
PARTS: Final = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_every_message_alone(tmp_path: Path, part: int) -> None:
    catalog = default_catalog()
    reader = chunk_reader(Classifier(catalog))
    log = tmp_path / "one.log"
    chosen = slices.part(message_samples.by_rule().items(), 12)[part::PARTS]
    for rule, samples in chosen:
        texts = [sample.text for sample in samples]
        for head in ("gpu1:1:2 [3] NCCL INFO ", "gpu1:1:2 [3] x.cc:1 NCCL WARN "):
            log.write_text("".join(f"{head}{text}\n" for text in texts), encoding="utf-8")
            read = read_logs([(find_inputs([str(log)])[0], ChunkIndex())], reader, 1)
            assert read.fate.unknown + read.fate.foreign == 0, rule
            made, later = assemble([read], catalog.grammar)
            for name, table in later.items():
                frames = list(table.frames())
                assert table.height > 0, (rule, name)
                made[name] = frames[0]
            for name, frame in made.items():
                assert set(frame.columns) <= SCHEMA[name].keys(), "run: python tools/columns.py"
                columns = CONTRACT.get(name, {})
                assert list(conform(name, frame).schema.items())[: len(columns)] == list(
                    {k: v() if isinstance(v, type) else v for k, v in columns.items()}.items()
                ), (rule, name)
