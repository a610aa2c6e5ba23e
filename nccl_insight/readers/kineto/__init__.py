"""Traces of torch.profiler (Kineto)."""

from nccl_insight.readers.kineto.format import FORMAT

__all__ = ["FORMAT"]
