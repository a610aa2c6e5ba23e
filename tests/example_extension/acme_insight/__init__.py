"""What Acme adds to nccl-insight."""
