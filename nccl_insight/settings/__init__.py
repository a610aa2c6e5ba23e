"""NCCL's variables: their catalogue, checks of settings, and the lint of launch scripts."""
