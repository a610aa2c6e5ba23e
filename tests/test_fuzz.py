"""Whatever the bytes: no exception, and every line counted once. NCCL_INSIGHT_FUZZ_SECONDS sets the budget."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from nccl_insight.inputs.chunks import ChunkIndex
from nccl_insight.inputs.find import find_inputs
from nccl_insight.language.catalog import default_catalog
from nccl_insight.loading.assemble.tables import assemble
from nccl_insight.readers.nccl_log.classify import Classifier
from nccl_insight.readers.nccl_log.log import chunk_reader, read_logs
from tests.mutations import mutate, seeds

SECONDS = float(os.environ.get("NCCL_INSIGHT_FUZZ_SECONDS", "8"))
SEED = int(os.environ.get("NCCL_INSIGHT_FUZZ_SEED", "1"))


def oddity(corpus: list[bytes], rng: random.Random) -> bytes:
    if rng.random() < 0.15:
        return rng.randbytes(rng.randrange(5000))
    base = rng.choice(corpus)
    start = rng.randrange(len(base))
    return mutate(base[start : start + rng.randrange(200, 20_000)], rng)


def test_mutated_logs(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    corpus = seeds()
    catalog = default_catalog()
    reader = chunk_reader(Classifier(catalog))
    ends = time.monotonic() + SECONDS
    rounds = 0
    while time.monotonic() < ends or rounds < 3:
        paths = [tmp_path / f"{number}.log" for number in range(rng.choice((1, 1, 3)))]
        for path in paths:
            path.write_bytes(oddity(corpus, rng))
        files = find_inputs([str(path) for path in paths])
        parts = []
        for file in files:
            index = ChunkIndex()
            part = read_logs([(file, index)], reader, 1)
            fate = part.fate
            counted = fate.parsed + fate.unknown + fate.foreign + fate.torn
            assert counted == fate.lines == index.lines, (SEED, rounds)
            assert min(fate.parsed, fate.unknown, fate.foreign, fate.torn) >= 0
            data = file.path.read_bytes()
            assert index.lines == data.count(b"\n") + (bool(data) and not data.endswith(b"\n")), (SEED, rounds)
            parts.append(part)
        if len(files) > 1:
            together = read_logs([(file, ChunkIndex()) for file in files], reader)
            assert [together.fates[file.input_id] for file in files] == [p.fate for p in parts], (SEED, rounds)
            parts = [together]
        _, later = assemble(parts, catalog.grammar)
        for table in later.values():
            assert sum(frame.height for frame in table.frames()) >= 0
        rounds += 1
