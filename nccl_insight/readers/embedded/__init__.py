"""Output of other tools that stands between the lines of a log: nccl-tests, RAS reports, nvidia-smi."""
