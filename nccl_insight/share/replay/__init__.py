"""nccl-tests commands that reproduce a job's own mix of collectives."""

from nccl_insight.share.replay.commands import LAUNCHERS, Command, Options, commands, render_json, render_script
from nccl_insight.share.replay.groups import Shape
from nccl_insight.share.replay.mix import Mix, Pattern, mix_of
from nccl_insight.share.replay.param import render_param

__all__ = [
    "LAUNCHERS", "Command", "Mix", "Options", "Pattern", "Shape", "commands", "mix_of", "render_json", "render_param",
    "render_script",
]  # fmt: skip
