"""``nccl-insight replay``: nccl-tests commands with the job's own mix of collectives."""

import re
from typing import Literal

from nccl_insight.base.errors import UsageError
from nccl_insight.cli.choices import option


def replay(
    paths: list[str] = option("replay PATH...|-", ...),
    launcher: Literal["mpirun", "srun", "none"] = option("replay --launcher", "mpirun"),
    gpus_per_node: int | None = option("replay --gpus-per-node", None, min=1),
    bin_dir: str = option("replay --bin-dir", "./build"),
    limit: int = option("replay --top", 20, min=1),
    source: Literal["auto", "log", "trace"] = option("replay --from", "auto"),
    format_: Literal["sh", "json", "param"] = option("replay --format", "sh"),
    output: str = option("replay --output", "-", "-o"),
) -> None:
    """Write nccl-tests commands that reproduce the mix of collectives of a job: operations, types, sizes, groups.

    Exit codes: 0 written, 2 usage, 3 no collective calls in the input.
    """
    from nccl_insight.cli.output import check_outputs, write_text
    from nccl_insight.share.api import load
    from nccl_insight.share.replay import Options, commands, mix_of, render_json, render_param, render_script

    if re.fullmatch(r"[\w./~+@ -]+", bin_dir) is None:
        raise UsageError(f"--bin-dir {bin_dir!r}: not a plain path")
    check_outputs(paths, [output])
    run = load(paths)
    mix = mix_of(run, source)
    if format_ == "param":
        write_text(output, render_param(mix))
        return
    options = Options(launcher, gpus_per_node, bin_dir.rstrip("/") or "/", limit)
    found = commands(mix, run, options)
    text = render_json(mix, found) if format_ == "json" else render_script(mix, found, options)
    write_text(output, text)
