"""``python -m nccl_insight``."""

from nccl_insight.cli import run

run()
