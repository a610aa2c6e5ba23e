"""How the job was set up: settings, what NCCL's tuner chose, memory, and who differs from the others."""
