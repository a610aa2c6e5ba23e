"""What a collective should take on a machine: hardware table, link model, NCCL's own tuning formulas."""
