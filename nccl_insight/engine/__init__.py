"""From tables to a verdict: runs the rules, orders what they found, separates causes from consequences."""

from __future__ import annotations

from nccl_insight.engine.analyze import analyze

__all__ = ["analyze"]
