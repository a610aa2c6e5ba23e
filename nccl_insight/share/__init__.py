"""What leaves the house: the Python API, redacted copies, bundles, commands for nccl-tests, tools for agents."""
