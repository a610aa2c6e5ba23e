"""Databases of Nsight Systems."""

from nccl_insight.readers.nsys.format import FORMAT

__all__ = ["FORMAT"]
