"""Identifiers of every promised class, planted in random places of real lines, are not found again."""

from __future__ import annotations

import random
import string
import time
import uuid
from collections.abc import Callable

import pytest

from nccl_insight.errors import UsageError
from nccl_insight.redact import Redactor, collect
from nccl_insight.redact.residue import residue
from nccl_insight.tables.run import build_run
from nccl_insight.tables.sql import check_sql
from tests.runs import TINY_SHM

LINES = TINY_SHM.read_text().splitlines()
HEX = "0123456789abcdef"


def _text(draw: random.Random, letters: str, size: int) -> str:
    return "".join(draw.choice(letters) for _ in range(size))


def _hex(draw: random.Random, size: int) -> str:
    return _text(draw, HEX, size - 8) + "a1b2c3d4"


def _name(draw: random.Random) -> str:
    return "zq" + _text(draw, "bcdfghjkmnpqrtvwxz", 6)


def _v6(draw: random.Random) -> str:
    parts = [f"{draw.randrange(0x1000, 0xFFFF):x}" for _ in range(4)]
    return draw.choice(
        [f"fe80::{':'.join(parts)}", f"2001:db8:77:1:{':'.join(parts)}", f"fd12:3456::{parts[0]}:{parts[1]}"]
    )


def _uuid(draw: random.Random) -> str:
    return str(uuid.UUID(int=draw.getrandbits(128), version=4))


def _v4(draw: random.Random) -> str:
    return f"10.{draw.randrange(30, 250)}.{draw.randrange(30, 250)}.{draw.randrange(30, 250)}"


# What is planted, and which part of it must not be found again.
Plant = tuple[str, str]
CLASSES: dict[str, Callable[[random.Random], Plant]] = {
    "v4": lambda d: (x := _v4(d), x),
    "v6": lambda d: (x := _v6(d), x.split("::")[-1]),
    "v6 of an interface": lambda d: (f"[1]veth{_hex(d, 8)[:6]}:{(x := _v6(d))}%veth<0>", x.split("::")[-1]),
    "v6 with a port": lambda d: (f"[{(x := _v6(d))}]:29500", x.split("::")[-1]),
    "v4 in a gid": lambda d: (f"::ffff:{(x := _v4(d))}", x),
    "guid": lambda d: (x := _hex(d, 16), x),
    "guid with a name": lambda d: (f"node_guid=0x{(x := _hex(d, 16))}", x),
    "guid in colons": lambda d: (x := ":".join(_hex(d, 16)[i : i + 4] for i in (0, 4, 8, 12)), x),
    "mac": lambda d: (x := ":".join(_hex(d, 12)[i : i + 2] for i in range(0, 12, 2)), x),
    "ipoib address": lambda d: (x := ":".join(_hex(d, 40)[i : i + 2] for i in range(0, 40, 2)), x[-17:]),
    "uuid": lambda d: (x := _uuid(d), x),
    "gpu uuid": lambda d: ("GPU-" + (x := _uuid(d)), x),
    "mig uuid": lambda d: ("MIG-" + (x := _uuid(d)), x),
    "mig of a gpu": lambda d: (f"MIG-GPU-{(x := _uuid(d))}/1/0", x),
    "host": lambda d: (f"{(x := _name(d))}07:991:992 [0] NCCL INFO x", x),
    "short host": lambda d: (f"{(x := _name(d))}07.pr.zqcorp.io:91:92 [0] NCCL INFO x {x}07 up", x),
    "upper host": lambda d: (f"{(x := _name(d))}07:91:92 [0] NCCL INFO x {x.upper()}07 up", x.upper()),
    "domain": lambda d: (f"h7.{(x := _name(d))}.io:91:92 [0] NCCL INFO x www.{x}.io", x),
    "pod": lambda d: (f"trainer-{(x := _text(d, 'bcdfghjklm', 9))}-x7k2p", x),
    "pod by name": lambda d: (f"pod={(x := _name(d))}-a", x),
    "worker": lambda d: (f"{(x := _name(d))}-worker-3", x),
    "container": lambda d: (f"containerd://{(x := _hex(d, 64))}", x),
    "short container": lambda d: (f"container {(x := _text(d, 'abcdef', 4) + _hex(d, 8))} died", x),
    "mail": lambda d: (f"{(x := _name(d))}.smith@zqcorp.example.io", x),
    "user": lambda d: (f"USER={(x := _name(d))}", x),
    "home": lambda d: (f"/home/{(x := _name(d))}/lib/libnccl.so", x),
    "project": lambda d: (f"/lustre/projects/{(x := _name(d))}/run.py", x),
    "opt": lambda d: (f"/opt/{(x := _name(d))}/lib/libnccl.so.2", x),
    "batch job": lambda d: (f"Submitted batch job {(x := str(d.randrange(10**6, 10**7)))}", x),
    "slurm file": lambda d: (f"slurm-{(x := str(d.randrange(10**6, 10**7)))}.out", x),
    "job name": lambda d: (f"SLURM_JOB_NAME={(x := _name(d))}", x),
    "wandb": lambda d: (f"WANDB_API_KEY={(x := _hex(d, 40))}", x),
    "bearer": lambda d: (f"Authorization: Bearer {(x := _text(d, string.ascii_letters + string.digits, 30))}", x),
    "github": lambda d: ("ghp_" + (x := _text(d, string.ascii_letters + string.digits, 36)), x),
    "hugging face": lambda d: ("token hf_" + (x := _text(d, string.ascii_letters, 34)), x),
    "aws": lambda d: ("AKIA" + (x := _text(d, string.ascii_uppercase + string.digits, 16)), x),
    "password": lambda d: (f'"password": "{(x := _name(d))}"', x),
    "s3": lambda d: (f"s3://{(x := _name(d))}-data/ckpt/{_name(d)}/step1", x),
    "gs": lambda d: (f"gs://{_name(d)}/{(x := _name(d))}/step1", x),
}  # fmt: skip


@pytest.mark.parametrize("kind", CLASSES)
def test_planted_identifiers_are_not_found_again(kind: str) -> None:
    draw = random.Random(kind)
    for _ in range(8):
        planted, needle = CLASSES[kind](draw)
        lines = draw.sample(LINES, min(20, len(LINES)))
        at = draw.randrange(len(lines))
        glue = draw.choice([" ", ", ", " (", ' "', "='", " -> ", "\t"])
        lines[at] += glue + planted
        lines.insert(draw.randrange(len(lines)), planted)
        text = "\n".join(lines) + "\n"
        out = collect(build_run({}), [text]).text(text)
        assert needle not in out, [line for line in out.splitlines() if needle in line][:2]


@pytest.mark.parametrize(
    "word",
    ["a" * 20_000, "a." * 10_000, "a@" * 10_000, "1:" * 10_000, "f" * 20_000, "lib.so" * 3_000, "a-" * 10_000,
     "/a" * 10_000, "s3://" * 4_000, "TOKEN=" * 4_000, "ip-1" * 5_000, "tcp://" * 4_000, "x1" * 10_000, "A_" * 10_000],
)  # fmt: skip
def test_long_words_do_not_stop_the_redactor(word: str) -> None:
    log = "node07-a.zq.io:1:2 [0] NCCL INFO x\n"
    redactor = collect(build_run({}), [log + word])
    begun = time.process_time()
    redactor.text(f"{log}{word} end\n")
    assert time.process_time() - begun < 30, "seconds for 20 KB, not minutes"


def test_malformed_addresses_end(recwarn: pytest.WarningsRecorder) -> None:
    for text in ("1:2:3:999.999.999.999", "::1.2.3.999", ":" * 500, "1:2:3:4:5:6:7:10.1.2.300"):
        Redactor().text(f"x {text} y")


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_csv('/etc/passwd')", "select * from READ_PARQUET ('x')", 'select * from "read_csv"(\'/x\')',
        "select * from read_csv/* */('/x')", "select * from read_csv -- (\n('/x')", "select * from '/etc/passwd'",
        "with recursive a as (select 1) select * from a", "select * from ranks join scan_csv('x')",
        "select * from a; select * from read_ndjson('http://127.0.0.1:9/x')",
    ],
)  # fmt: skip
def test_query_opens_nothing(sql: str) -> None:
    with pytest.raises(UsageError):
        check_sql(sql)


@pytest.mark.parametrize(
    "sql", ["select read_only from ranks", "select 'read_csv(' as x from ranks", "select count(*) from env"]
)
def test_ordinary_queries_pass(sql: str) -> None:
    check_sql(sql)


def test_what_was_left_is_named() -> None:
    text = (
        "node1:1:1 [0] NCCL INFO x\nat alpha.beta.gamma and a7b8c9d0e1f2g3h4 and a7b8c9d0e1f2g3h4 libm.so.6\n"
    )
    assert residue([text]) == [("a7b8c9d0e1f2g3h4", 2), ("alpha.beta.gamma", 1)]
