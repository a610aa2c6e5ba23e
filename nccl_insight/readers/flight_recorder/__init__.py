"""Dumps of the flight recorder of PyTorch."""

from nccl_insight.readers.flight_recorder.format import FORMAT

__all__ = ["FORMAT"]
