"""``nccl-insight expect``: what a collective should take on a machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nccl_insight.base.errors import NotJudgedError, UsageError
from nccl_insight.cli.choices import Network, TextOrJson, option

if TYPE_CHECKING:
    from nccl_insight.advise.expect.machine import Machine
    from nccl_insight.advise.expect.training import Job

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d{1,12})\s*([bkmgt]?)(?:i?b)?", re.I)


def expect(
    paths: list[str] | None = option("expect RUN...", None),
    gpu: str | None = option("expect --gpu", None),
    nodes: int = option("expect --nodes", 1),
    gpus_per_node: int | None = option("expect --gpus-per-node", None),
    nics: str | None = option("expect --nics", None),
    network: Network | None = option("expect --network", None),
    link: str | None = option("expect --link", None),
    domains: int | None = option("expect --domains", None),
    gdr: bool | None = option("expect --gdr/--no-gdr", None),
    nvls: bool | None = option("expect --nvls/--no-nvls", None),
    nccl: str | None = option("expect --nccl", None),
    op: list[str] | None = option("expect --op", None),
    size: list[str] | None = option("expect --size", None),
    what_if: list[str] | None = option("expect --what-if", None),
    params: str | None = option("expect --params", None),
    dtype: str = option("expect --dtype", "bf16"),
    parallel: str = option("expect --parallel", "dp1"),
    format_: TextOrJson = option("expect --format", "text"),
    output: str = option("expect --output", "-", "-o"),
) -> None:
    """Say how long a collective should take: a band of healthy machines, and what bounds it.

    With a run, the figures are NCCL's own: its tuning table or its formulas on the graph of the log, and what was
    measured beside them. Exit codes: 0 answered, 2 usage, 3 nothing to expect (one GPU, or several nodes
    without --nics, or a log without graph).
    """
    from nccl_insight.advise.expect.machine import build
    from nccl_insight.advise.expect.model import OPS
    from nccl_insight.advise.expect.training import parse_job
    from nccl_insight.cli.output import check_outputs, terminal_width, write_text
    from nccl_insight.report.prose import fit

    def say(text: str) -> None:
        write_text(output, text if format_ == "json" else fit(text, terminal_width()))

    check_outputs(paths or [], [output])
    if paths:
        if gpu or what_if:
            raise UsageError("expect: name either a run or a machine (--gpu)")
        say(_of_run(paths, _ops(op, OPS), tuple(_size(s) for s in size or ()), format_))
        return
    if not gpu:
        raise UsageError("expect: name the GPU with --gpu, such as --gpu H100 --nodes 4 --nics 8x400")
    job = None if params is None else parse_job(params, dtype, parallel)
    if job is not None and (op or size or what_if):
        raise UsageError("expect: --params goes without --op, --size and --what-if")
    ops = _ops(op, OPS)
    sizes = tuple(_size(s) for s in size) if size else None
    machine = build(
        gpu, nodes=nodes, gpus_per_node=gpus_per_node, nics=nics, network=network, link=link, gdr=gdr,
        nvls=nvls, nccl_version=nccl, domains=domains,
    )  # fmt: skip

    say(_of_job(job, machine, format_) if job is not None else _of_machine(machine, what_if or (), ops, sizes, format_))


def _of_run(paths: Sequence[str], ops: tuple[str, ...], sizes: tuple[int, ...], format_: str) -> str:
    """What NCCL itself predicted for the communicators of a log, and what was measured."""
    from nccl_insight.engine.measured import measured_sentences
    from nccl_insight.report import expect_run_report
    from nccl_insight.share import api
    from nccl_insight.views.expectations import predictions

    run = api.load(list(paths))
    rows = predictions(run, ops, sizes or expect_run_report.SIZES)
    measured = measured_sentences(run)
    if not rows and not any("of the expected" in sentence for sentence in measured):
        raise NotJudgedError(
            "expect: nothing to predict from in this run; log it with NCCL_DEBUG=INFO "
            "NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING, or give --gpu"
        )
    return (expect_run_report.render_json if format_ == "json" else expect_run_report.render_text)(rows, measured)


def _of_job(job: Job, machine: Machine, format_: str) -> str:
    """What a training job sends on a machine, and how long that takes."""
    from nccl_insight.advise.expect.training import machine_of, traffic
    from nccl_insight.report import expect_report

    machine = machine_of(job, machine)
    shares = tuple(traffic(job, machine))
    if not shares:
        raise NotJudgedError("expect: nothing to expect: one GPU does not communicate, or --nics is missing")
    return (expect_report.job_json if format_ == "json" else expect_report.job_text)(job, machine, shares)


def _of_machine(
    machine: Machine, what_if: Sequence[str], ops: tuple[str, ...], sizes: tuple[int, ...] | None, format_: str
) -> str:
    """How long collectives take on a machine, and on the same one with each change."""
    from nccl_insight.advise.expect.model import SIZES, expectations
    from nccl_insight.advise.expect.whatif import change
    from nccl_insight.report import expect_report

    def ask(title: str, asked: Machine) -> expect_report.Question:
        return expect_report.Question(title, asked, tuple(expectations(asked, ops, sizes or SIZES)))

    questions = [ask("", machine), *(ask(text, change(machine, text)) for text in what_if)]
    if not questions[0].expected:
        reason = "one GPU does not communicate" if machine.ranks < 2 else "name the NICs with --nics"
        raise NotJudgedError(f"expect: nothing to expect of {machine.describe()}: {reason}")
    if format_ == "json":
        return expect_report.render_json(questions)
    return expect_report.render_text(questions, ops, sizes)


def _ops(asked: list[str] | None, known: tuple[str, ...]) -> tuple[str, ...]:
    by_key = {name.lower(): name for name in known}
    chosen: list[str] = []
    for name in asked or known:
        found = by_key.get(name.replace("_", "").replace("-", "").lower())
        if found is None:
            raise UsageError(f"--op {name!r}: use one of {', '.join(known)}")
        chosen.append(found)
    return tuple(chosen)


def _size(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    value = int(found[1]) * _UNITS[found[2].lower()] if found else 0
    if not 1 <= value <= 1 << 50:
        raise UsageError(f"--size {text!r}: write a number of bytes, such as 64K, 16M or 1G")
    return value
