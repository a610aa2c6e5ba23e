"""Diagnoses about traffic between hosts."""
