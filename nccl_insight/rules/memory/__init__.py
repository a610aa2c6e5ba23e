"""Diagnoses about memory and its limits."""
