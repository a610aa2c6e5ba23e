"""NCCL's variables: their catalog, checks of settings, and the lint of launch scripts."""
