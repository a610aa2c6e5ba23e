"""``nccl-insight expect``: what a collective should take on a machine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import typer

from nccl_insight.base.errors import NotJudgedError, UsageError
from nccl_insight.cli.choices import TextOrJson

if TYPE_CHECKING:
    from nccl_insight.advise.expect.machine import Machine

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d{1,12})\s*([bkmgt]?)(?:i?b)?", re.I)


def register(app: typer.Typer) -> None:
    """Adds the command."""

    @app.command()
    def expect(
        paths: list[str] | None = typer.Argument(
            None, metavar="RUN...", help="Logs of a run: NCCL's own model and measured figures."
        ),
        gpu: str | None = typer.Option(None, "--gpu", help="GPU model, such as H100 or 'A100 PCIe'."),
        nodes: int = typer.Option(1, "--nodes", help="Number of nodes."),
        gpus_per_node: int | None = typer.Option(None, "--gpus-per-node", help="GPUs per node that the job uses."),
        nics: str | None = typer.Option(None, "--nics", help="NICs per node as COUNTxGBITS, such as 8x400."),
        network: Literal["ib", "roce", "efa", "tcp", "slingshot", "tcpx", "tcpxo"] | None = typer.Option(
            None, "--network", help="Network between nodes."
        ),
        link: str | None = typer.Option(None, "--link", help="nvswitch, nvlink or pcie, if not the model's usual one."),
        domains: int | None = typer.Option(
            None, "--domains", help="NVLink domains that the nodes are spread over (GB200, GB300)."
        ),
        gdr: bool | None = typer.Option(None, "--gdr/--no-gdr", help="Whether NICs read GPU memory directly."),
        nvls: bool | None = typer.Option(None, "--nvls/--no-nvls", help="Whether reductions in the NVSwitch work."),
        nccl: str | None = typer.Option(None, "--nccl", help="NCCL release, such as 2.27.7."),
        op: list[str] | None = typer.Option(None, "--op", help="Only these operations, such as AllReduce."),
        size: list[str] | None = typer.Option(None, "--size", help="Only these sizes, such as 16G."),
        what_if: list[str] | None = typer.Option(
            None, "--what-if", help="A change to compare, such as nodes=8, gpus=512, nics=4x400, gdr=off, gpu=H200."
        ),
        params: str | None = typer.Option(None, "--params", help="Parameters of a model to train, such as 70e9."),
        dtype: str = typer.Option("bf16", "--dtype", help="Type of its values: fp32, tf32, bf16, fp16, fp8."),
        parallel: str = typer.Option(
            "dp1", "--parallel", help="How it is split: tp8,pp4,dp16[,seq4096,batch1,micro8]."
        ),
        format_: TextOrJson = typer.Option("text", "--format", help="What is written."),
        output: str = typer.Option("-", "--output", "-o", help="File instead of standard output."),
    ) -> None:
        """Say how long a collective should take: a band of healthy machines, and what bounds it.

        With a run, the figures are NCCL's own: its tuning table or its formulas on the graph of the log, and what was
        measured beside them. Exit codes: 0 answered, 2 usage, 3 nothing to expect (one GPU, or several nodes
        without --nics, or a log without graph).
        """
        from nccl_insight.advise.expect.machine import build
        from nccl_insight.advise.expect.model import OPS, SIZES, expectations
        from nccl_insight.advise.expect.training import machine_of, parse_job, traffic
        from nccl_insight.advise.expect.whatif import change
        from nccl_insight.cli.output import check_outputs, terminal_width, write_text
        from nccl_insight.report import expect_report
        from nccl_insight.report.prose import fit

        check_outputs(paths or [], [output])
        if paths:
            if gpu or what_if:
                raise UsageError("expect: name either a run or a machine (--gpu)")
            from nccl_insight.cli.expect_run import answer

            told = answer(paths, _ops(op, OPS), tuple(_size(s) for s in size or ()), format_)
            write_text(output, told if format_ == "json" else fit(told, terminal_width()))
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

        if job is not None:
            machine = machine_of(job, machine)
            shares = tuple(traffic(job, machine))
            if not shares:
                raise NotJudgedError("expect: nothing to expect: one GPU does not communicate, or --nics is missing")
            told = (expect_report.job_json if format_ == "json" else expect_report.job_text)(job, machine, shares)
            write_text(output, told if format_ == "json" else fit(told, terminal_width()))
            return

        def ask(title: str, asked: Machine) -> expect_report.Question:
            return expect_report.Question(title, asked, tuple(expectations(asked, ops, sizes or SIZES)))

        questions = [ask("", machine), *(ask(text, change(machine, text)) for text in what_if or [])]
        if not questions[0].expected:
            reason = "one GPU does not communicate" if machine.ranks < 2 else "name the NICs with --nics"
            raise NotJudgedError(f"expect: nothing to expect of {machine.describe()}: {reason}")
        text = (
            expect_report.render_json(questions)
            if format_ == "json"
            else fit(expect_report.render_text(questions, ops, sizes), terminal_width())
        )
        write_text(output, text)


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
