"""What the user wants judged, silenced or weighed differently (nccl-insight.toml, environment, options)."""

from nccl_insight.engine.policy.config import load_policy
from nccl_insight.engine.policy.model import Ignore, Policy

__all__ = ["Ignore", "Policy", "load_policy"]
