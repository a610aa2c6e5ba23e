"""Lines of an NCCL log become typed rows."""
